"""The page about a comparison: a sortable table, and pictures of what each learner has learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluation.comparison import ComparedLearner
from .page import page


def comparison_page(
    rows: Sequence[ComparedLearner],
    facts: Sequence[tuple[str, str]],
    *,
    settings: Mapping[str, Mapping[str, Any]],
    filters: Mapping[str, str | None],
    title: str,
) -> str:
    """Create a page about a comparison.

    Parameters
    ----------
    rows : sequence of ComparedLearner
        The result of :func:`epls.evaluation.compare`.
    facts : sequence of (name, value)
        What the reader should know about the data and the protocol.
    settings : mapping of str to mapping
        The settings of learners by the name of their row, for some of the rows.
    filters : mapping of str to str
        Pictures of what was learned, by the name of the row, for some of the rows: the results of
        :func:`epls.report.page.png`.
    title : str
        The heading of the page.

    Returns
    -------
    str
        A self-contained HTML page.
    """
    entries = []
    for row in rows:
        shown = {name: str(value) for name, value in settings.get(row.name, {}).items() if value is not None}
        entries.append(row.as_json() | {"settings": shown, "filters": filters.get(row.name)})
    return page("compare", title, {"facts": [list(fact) for fact in facts], "entries": entries})
