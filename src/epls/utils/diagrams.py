"""Pictures of what was learned, in the HTML diagram of an estimator that scikit-learn shows in notebooks."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tiles import png_file

#: A sentence, and a picture (height, width, 3) that is shown below it, if there is one.
Illustration = tuple[str, NDArray[np.uint8] | None]

_WIDEST = 440  # pixels on the screen
_ENLARGED = 4  # times, at most


class Illustrated:
    """An estimator whose diagram shows what it has learned; a subclass defines :meth:`_illustrations`."""

    def _illustrations(self) -> list[Illustration]:
        """Return what the diagram shows of a fitted estimator, or of one inside a fitted estimator."""
        return []

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return scikit-learn's table of fitted attributes, followed by the pictures."""
        table = super()._get_fitted_attr_html(doc_link)  # type: ignore[misc]
        return _TableAndPictures(table, self._illustrations())


class _TableAndPictures:
    """Stands in for scikit-learn's table of fitted attributes."""

    def __init__(self, table: Any, illustrations: list[Illustration]) -> None:
        self._table = table
        self._illustrations = illustrations

    def __len__(self) -> int:
        return len(self._table) + len(self._illustrations)

    def _repr_html_inner(self) -> str:
        table = self._table._repr_html_inner() if len(self._table) > 0 else ""
        return "".join([*map(_figure, self._illustrations), table])


def _figure(illustration: Illustration) -> str:
    sentence, picture = illustration
    image = ""
    if picture is not None:
        width = min(_WIDEST, _ENLARGED * picture.shape[1])
        url = base64.b64encode(png_file(picture)).decode()
        image = (
            f'<img src="data:image/png;base64,{url}" alt="{escape(sentence)}" width="{width}" '
            f'style="image-rendering: pixelated; max-width: 100%; display: block; margin-top: .3em">'
        )
    return f'<figure style="margin: .5em"><figcaption>{escape(sentence)}</figcaption>{image}</figure>'
