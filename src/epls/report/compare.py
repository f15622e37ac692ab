"""The page about a comparison: a sortable table, and pictures of what each learner has learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..evaluation.comparison import Entry
from .page import page, png


def comparison_page(
    entries: Sequence[Entry], facts: Sequence[tuple[str, str]], filters: Mapping[int, NDArray[np.uint8]], *, title: str
) -> str:
    """Create a page about a comparison.

    Parameters
    ----------
    entries : sequence of Entry
        The result of :func:`epls.evaluation.comparison.compare_settings`.
    facts : sequence of (name, value)
        What the reader should know about the data and the protocol.
    filters : mapping of int to picture
        Pictures of what was learned, by the number of the entry, for some of the entries.
    title : str
        The heading of the page.

    Returns
    -------
    str
        A self-contained HTML page.
    """
    content = {
        "facts": [list(fact) for fact in facts],
        "entries": [_plain(entry, filters.get(number)) for number, entry in enumerate(entries)],
    }
    return page("compare", title, content)


def _plain(entry: Entry, filters: NDArray[np.uint8] | None) -> dict[str, Any]:
    settings = {name: str(value) for name, value in asdict(entry.settings).items() if value not in (None, {})}
    plain = {"name": entry.name, "failed": entry.failed, "folds": list(entry.folds), "settings": settings}
    picture = None if filters is None else png(filters)
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
