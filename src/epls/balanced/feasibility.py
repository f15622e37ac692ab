"""Whether limits can be met at all, and if not, why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from ..utils.types import Indices

if TYPE_CHECKING:
    from .auction import Counts, Limits

_SHOWN = 5


def check_limits(limits: Limits, n_rows: int) -> None:
    """Refuse limits that go with no number of rows, or not with this one."""
    capacity, minimum = limits.capacity, limits.minimum
    if (minimum > capacity).any():
        j = int(np.argmax(minimum > capacity))
        raise ValueError(
            f"column {j} must have at least {minimum[j]} rows and at most {capacity[j]}: lower its minimum or raise "
            f"its capacity"
        )
    n_places, n_needed = float(capacity.sum(dtype=float)), float(minimum.sum(dtype=float))
    if n_places < n_rows:
        raise ValueError(
            f"the columns have room for {n_places:.0f} rows, but there are {n_rows}: raise the capacity, or leave out "
            f"rows"
        )
    if n_needed > n_rows:
        raise ValueError(
            f"the columns must have at least {n_needed:.0f} rows, but there are {n_rows}: lower the minimum, or give "
            f"more rows"
        )


def check_columns_of_rows(costs: Any, limits: Limits) -> None:
    """Refuse a row that may not have any column with room."""
    is_open = limits.capacity > 0
    if sparse.issparse(costs):
        rows = np.repeat(np.arange(costs.shape[0]), np.diff(costs.indptr))
        n_open = np.bincount(rows[is_open[costs.indices]], minlength=costs.shape[0])
    else:
        n_open = np.isfinite(costs[:, is_open]).sum(axis=1)
    if not n_open.all():
        raise ValueError(
            f"row {_shown(np.flatnonzero(n_open == 0))} is not allowed in any column with room: give a finite cost "
            f"for at least one, or leave the row out"
        )


def check_feasible(allowed: Any, limits: Limits) -> None:
    """Refuse limits that cannot be met with the columns that rows may have.

    If one assignment has a place for every row, and another one fills every minimum, then there is one that does both
    (Mendelsohn and Dulmage). So each is looked for by itself, as a flow from rows to columns.
    """
    n_rows = allowed.shape[0]
    lost, columns = _shortage(allowed, np.minimum(limits.capacity, n_rows), from_rows=True)
    if len(lost):
        raise ValueError(
            f"{len(lost)} rows ({_shown(lost)}) are allowed only in the columns {_shown(columns)}, which have room for "
            f"{limits.capacity[columns].sum()}: raise their capacity, or allow these rows more columns"
        )
    lost, columns = _shortage(allowed, limits.minimum, from_rows=False)
    if len(columns):
        raise ValueError(
            f"the columns {_shown(columns)} must have {limits.minimum[columns].sum()} rows, but only {len(lost)} rows "
            f"are allowed in them: lower their minimum, or allow more rows"
        )


def _shortage(allowed: Any, room: Counts, *, from_rows: bool) -> tuple[Indices, Indices]:
    """Rows and columns that prove that not all rows (or not all room) can be matched; none if all can."""
    n_rows, n_columns = allowed.shape
    n_listed = np.diff(allowed.indptr)
    source, sink = n_rows + n_columns, n_rows + n_columns + 1
    rows, columns = np.arange(n_rows), n_rows + np.arange(n_columns)
    lists = np.repeat(rows, n_listed), n_rows + allowed.indices
    unlimited = np.full(allowed.nnz, n_rows)
    if from_rows:
        tails, heads = [np.full(n_rows, source), lists[0], columns], [rows, lists[1], np.full(n_columns, sink)]
        sizes = [np.ones(n_rows), unlimited, room]
        wanted = n_rows
    else:
        tails, heads = [np.full(n_columns, source), lists[1], rows], [columns, lists[0], np.full(n_rows, sink)]
        sizes = [room, unlimited, np.ones(n_rows)]
        wanted = int(room.sum())
    edges = np.concatenate(tails), np.concatenate(heads)
    graph = sparse.csr_array((np.concatenate(sizes).astype(np.int32), edges), shape=(sink + 1, sink + 1))
    graph.indices, graph.indptr = graph.indices.astype(np.int32), graph.indptr.astype(np.int32)  # for SciPy before 1.15
    found = maximum_flow(graph, source, sink)
    if found.flow_value == wanted:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    left = sparse.csr_array(graph - found.flow)
    left.eliminate_zeros()
    reached = breadth_first_order(left, source, return_predecessors=False)
    return np.sort(reached[reached < n_rows]), np.sort(reached[(reached >= n_rows) & (reached < source)] - n_rows)


def _shown(numbers: Indices) -> str:
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return ", ".join(map(str, numbers[:_SHOWN])) + more
