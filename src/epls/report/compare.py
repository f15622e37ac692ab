"""The page about a comparison: a table to sort, and what each learner has learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..evaluation.comparison import Entry
from . import pictures
from .page import page


def comparison_page(
    entries: Sequence[Entry], facts: Sequence[tuple[str, str]], filters: Mapping[int, NDArray[np.uint8]], *, title: str
) -> str:
    """A page about a comparison.

    Parameters
    ----------
    entries : sequence of Entry
        What :func:`epls.evaluation.comparison.compare` gave.
    facts : sequence of (name, value)
        What the reader should know of the data and the protocol.
    filters : mapping of int to picture
        For some of the entries, by their number, a picture of what was learned.
    title : str
        The page's heading.

    Returns
    -------
    str
        HTML, complete in itself.
    """
    content = {
        "facts": [list(fact) for fact in facts],
        "entries": [_plain(entry, filters.get(number)) for number, entry in enumerate(entries)],
    }
    return page("compare", title, content)


def _plain(entry: Entry, filters: NDArray[np.uint8] | None) -> dict[str, Any]:
    settings = {name: str(value) for name, value in asdict(entry.settings).items() if value not in (None, {})}
    plain = {"name": entry.name, "failed": entry.failed, "folds": list(entry.folds), "settings": settings}
    picture = None if filters is None else pictures.png(filters)
    if entry.failed is not None:
        return plain | {"filters": None}
    return plain | {
        "accuracy": entry.accuracy,
        "std": entry.std,
        "learn": entry.seconds["learn"],
        "encode": entry.seconds["encode"] + entry.seconds.get("choose", 0.0),
        "to_tune": entry.n_meta_parameters,
        "dead": entry.n_dead,
        "units": entry.n_units,
        "filters": picture,
    }
