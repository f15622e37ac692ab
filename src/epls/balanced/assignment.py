"""Assign rows to columns at the lowest total cost, with limits on the number of rows in each column."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from sklearn.exceptions import ConvergenceWarning

from ..kernels.market import spread
from ..utils.sparse import check_sparse
from ..utils.threads import allowed_threads, one_blas_thread, share
from ..utils.types import Indices
from ..utils.wording import listed
from .auction import Auction, Bidders, Counts, Limits, ListedBidders, Outcome

_FIRST_INCREMENT = 0.01  # relative to the spread; measured: within 0.02 % of the best on distances to centres
_FINER, _MOST_PHASES = 5.0, 60
_LARGEST = 1e250  # so that sums of prices and of costs stay far below the largest float64
_EXACT_BELOW = 2.0**48  # a total of integers below it is found exactly: see _Scale.tiny
_WORTH_THREADS = 2**20  # values; asking for the number of threads takes a millisecond


def balanced_assignment(
    cost: Any,
    capacity: ArrayLike,
    *,
    minimum: ArrayLike | None = None,
    maximize: bool = False,
    tol: float = 1e-3,
    return_gap: bool = False,
) -> Any:
    """Assign each row to a column at the lowest total cost, with limits on the number of rows in each column.

    Minimises the sum of ``cost[i, winners[i]]`` over all assignments that give column ``j`` between ``minimum[j]`` and
    ``capacity[j]`` rows. This is the transportation problem, solved here by an auction. The result does not depend on
    the number of threads.

    Parameters
    ----------
    cost : array-like or sparse array of shape (n_rows, n_columns)
        The cost of each column for each row. An infinite cost forbids the column for the row. In a sparse array, the
        stored entries, including zeros, are the allowed columns. float32 and float64 are used without conversion; other
        types are converted to float64.
    capacity : int or array-like of int of shape (n_columns,)
        The maximum number of rows in each column.
    minimum : int or array-like of int of shape (n_columns,), default=None
        The minimum number of rows in each column. None means 0.
    maximize : bool, default=False
        Whether to find the largest sum instead. Then -inf forbids a column for a row.
    tol : float, default=1e-3
        The tolerance. The total exceeds the lowest by at most ``tol`` times each of two amounts: the total itself, if
        no cost is negative, and the sum over rows of mean cost minus smallest cost, which is the extra cost of a random
        assignment over one without limits. The result is usually ten times better. With 0, the result is optimal up to
        the rounding of float64, and exactly optimal for integers below 2**48 / n_rows; larger ones are refused.
    return_gap : bool, default=False
        Whether to also return the bound that was reached.

    Returns
    -------
    winners : ndarray of int of shape (n_rows,)
        The column of each row.
    gap : float
        The total exceeds the lowest by at most this much. Only with ``return_gap=True``.

    Raises
    ------
    ValueError
        If no assignment satisfies all limits. The message says why.

    Examples
    --------
    >>> import numpy as np
    >>> cost = np.array([[1, 2], [1, 4], [1, 9], [1, 5]])
    >>> balanced_assignment(cost, 2)
    array([1, 1, 0, 0])
    >>> balanced_assignment(cost, [4, 4], minimum=[0, 1], return_gap=True, tol=0)
    (array([1, 0, 0, 0]), 0.0)
    """
    _check_settings(tol, maximize)
    scores = _checked_cost(cost, maximize, exact=tol == 0)
    n_rows, n_columns = scores.shape
    limits = Limits(
        checked_counts("capacity", capacity, n_columns),
        checked_counts("minimum", 0 if minimum is None else minimum, n_columns),
    )
    _check_limits(limits, n_rows)
    limits = Limits(np.minimum(limits.capacity, n_rows), limits.minimum)
    if n_rows == 0:
        return (np.empty(0, np.intp), 0.0) if return_gap else np.empty(0, np.intp)
    with one_blas_thread():
        n_threads = allowed_threads() if scores.size >= _WORTH_THREADS else 1
        bidders, scale, check = _bidders(scores, 1.0 if maximize else -1.0, limits, n_threads)
        outcome = _solved(Auction(bidders, limits, n_threads, check), scale, float(tol))
    return (outcome.winners, outcome.gap) if return_gap else outcome.winners


def _check_settings(tol: Any, maximize: Any) -> None:
    if not isinstance(tol, Real) or not 0 <= float(tol) < np.inf:
        raise ValueError(f"tol={tol!r} must be a number of at least 0, such as 0.001")
    if not isinstance(maximize, bool | np.bool_):
        raise ValueError(f"maximize={maximize!r} must be True or False")


def _checked_cost(cost: Any, maximize: bool, exact: bool) -> Any:
    """Return a C-contiguous array, or a csr_array without infinite entries, of float32 or float64."""
    if isinstance(cost, np.ma.MaskedArray):
        raise ValueError(
            "cost is a masked array: fill the masked entries, with an infinite cost where a column is forbidden"
        )
    check_sparse(cost, "cost")
    given: Any = cost if sparse.issparse(cost) else np.asarray(cost)
    if given.ndim != 2 or given.shape[1] == 0:
        raise ValueError(
            f"cost has shape {given.shape}, but must have shape (n_rows, n_columns), with at least one column"
        )
    if given.dtype.kind not in "fiub":
        raise ValueError(f"cost has values of type {given.dtype}, but must have real numbers")
    if given.dtype not in (np.float32, np.float64):
        given = given.astype(np.float64)
        largest = np.abs(given.data if sparse.issparse(given) else given).max(initial=0)
        if exact and largest * given.shape[0] >= _EXACT_BELOW:
            raise ValueError(
                f"tol=0 is exact for integers below 2**48 / n_rows, but cost has {largest:.3g} in {given.shape[0]} "
                f"rows: subtract its smallest cost from each row, give a tol above 0, or convert cost to float"
            )
    forbidden = -np.inf if maximize else np.inf
    if sparse.issparse(given):
        given = sparse.csr_array(given, copy=True)
        given.sum_duplicates()
        allowed = given.data != forbidden
        if not allowed.all():
            rows, columns = given.tocoo().coords
            given = sparse.csr_array((given.data[allowed], (rows[allowed], columns[allowed])), shape=given.shape)
        if not np.isfinite(given.data).all():
            raise ValueError(_not_finite(forbidden))
        return given
    return np.ascontiguousarray(given)


def _not_finite(forbidden: float) -> str:
    return f"cost has values that are NaN or {-forbidden:+}: give finite numbers, and {forbidden:+} where forbidden"


def checked_counts(name: str, counts: Any, n: int, of: str = "column") -> Counts:
    """Return one count for each column, or for each of what ``of`` names, after checking what was given."""
    given = np.asarray(counts)
    if given.shape not in ((), (n,)):
        raise ValueError(f"{name} has shape {given.shape}, but must be one number or {n}, one for each {of}")
    if given.dtype.kind == "f" and (np.abs(given) < 2**62).all() and (given == np.floor(given)).all():
        given = given.astype(np.int64)
    if given.dtype.kind not in "iu":
        raise ValueError(f"{name}={counts!r} must be integers below 2**62; for no limit, give the number of rows")
    if (given < 0).any():
        raise ValueError(f"{name} has the value {given.min()}, but must not be negative")
    whole = np.minimum(given.astype(np.uint64), np.uint64(2**62)).astype(np.int64)
    return np.broadcast_to(whole, n).copy()


def _bidders(scores: Any, sign: float, limits: Limits, n_threads: int) -> tuple[Bidders, _Scale, Callable[[], None]]:
    """Return the rows as bidders and the range of their values, after checking that a solution exists."""
    if sparse.issparse(scores):
        values = sparse.csr_array((sign * scores.data, scores.indices, scores.indptr), shape=scores.shape)
        _check_columns_of_rows(values, limits)
        scale = _scale_of_lists(values, sign)
        return ListedBidders(values, scale.far), scale, cache(lambda: check_feasible(values, limits))
    totals = np.empty((n_threads, 5))
    share(spread, n_threads, scores, sign, totals)
    n_forbidden, n_bad, _, _, total = totals.sum(axis=0)
    least, most = totals[:, 2].min(), totals[:, 3].max()
    if n_bad:
        raise ValueError(_not_finite(-sign * np.inf))
    scale = _Scale(total / len(scores), least, most, lambda: _are_integers(scores))
    if n_forbidden:
        _check_columns_of_rows(scores, limits)
        check = cache(lambda: check_feasible(sparse.csr_array(np.isfinite(scores)), limits))
        return Bidders(scores, sign, scale.far, restricted=True), scale, check
    return Bidders(scores, sign, scale.far), scale, lambda: None


@dataclass(frozen=True)
class _Scale:
    """The spread (mean over rows of mean minus smallest), smallest and largest cost, and if all are integers."""

    spread: float
    least: float
    most: float
    is_integer: Callable[[], bool]

    def __post_init__(self) -> None:
        if self.least <= self.most and max(-self.least, self.most) > _LARGEST:
            raise ValueError(
                f"cost has values from {self.least:.3g} to {self.most:.3g}: scale them so that all are within "
                f"{_LARGEST:g} of 0"
            )

    @property
    def far(self) -> float:
        """The range."""
        return self.most - self.least

    def allowed(self, tol: float, outcome: Outcome) -> float:
        """The gap at which the auction can stop."""
        n_rows = len(outcome.winners)
        wanted = tol * self.spread * n_rows
        if self.least >= 0:
            wanted = min(wanted, tol * abs(outcome.value))
        return max(wanted, self.tiny * n_rows)

    @property
    def tiny(self) -> float:
        """The error from rounding."""
        return 2.0**-48 * max(abs(self.least), abs(self.most), 1e-250)


def _scale_of_lists(values: Any, sign: float) -> _Scale:
    n_listed = np.diff(values.indptr)
    means = np.add.reduceat(values.data, values.indptr[:-1], dtype=np.float64) / n_listed
    spread = float((np.maximum.reduceat(values.data, values.indptr[:-1]) - means).mean())
    least, most = sorted(sign * float(value) for value in (values.data.min(), values.data.max()))
    return _Scale(spread, least, most, lambda: _are_integers(values.data))


def _are_integers(values: Any) -> bool:
    return bool((values == np.floor(values)).all())


def _solved(auction: Auction, scale: _Scale, tol: float) -> Outcome:
    """Run auctions with ever smaller increments until the gap is small enough."""
    increment = max(min(_FIRST_INCREMENT, 10 * tol or 1.0) * scale.spread, scale.tiny)
    prices = auction.first_prices(increment)
    best: Outcome | None = None
    for _ in range(_MOST_PHASES):
        outcome = auction.hold(prices, increment)
        if best is None or outcome.gap < best.gap:
            best = outcome
        if best.gap <= (allowed := scale.allowed(tol, best)):
            return best
        if best.gap < 0.999 and scale.is_integer():  # any other total differs by at least one
            return replace(best, gap=0.0)
        if increment <= scale.tiny / 2:
            break
        prices, increment = outcome.prices, max(outcome.increment / _FINER, scale.tiny / 2)
    assert best is not None
    warnings.warn(
        f"the total is within {best.gap:.3g} of the optimum, but tol={tol:g} requires {allowed:.3g}: there are too "
        f"many ties to come closer; a larger tol avoids this warning",
        ConvergenceWarning,
        stacklevel=3,
    )
    return best


def _check_limits(limits: Limits, n_rows: int) -> None:
    """Raise an error for limits that contradict each other or the number of rows."""
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


def _check_columns_of_rows(costs: Any, limits: Limits) -> None:
    """Raise an error for a row that is forbidden in every column with room."""
    is_open = limits.capacity > 0
    if sparse.issparse(costs):
        rows = np.repeat(np.arange(costs.shape[0]), np.diff(costs.indptr))
        n_open = np.bincount(rows[is_open[costs.indices]], minlength=costs.shape[0])
    else:
        n_open = np.isfinite(costs[:, is_open]).sum(axis=1)
    if not n_open.all():
        raise ValueError(
            f"row {listed(np.flatnonzero(n_open == 0))} is not allowed in any column with room: give a finite cost "
            f"for at least one, or leave the row out"
        )


def check_feasible(allowed: Any, limits: Limits) -> None:
    """Raise an error if no assignment to allowed columns meets the limits.

    If one assignment has a place for every row, and another one fills every minimum, then there is one that does both
    (Mendelsohn and Dulmage). So each is searched by itself, as a flow from rows to columns.
    """
    n_rows = allowed.shape[0]
    each = np.ones(n_rows, np.int64)
    lost, columns = _shortage(allowed, each, np.minimum(limits.capacity, n_rows))
    if len(lost):
        raise ValueError(
            f"{len(lost)} rows ({listed(lost)}) are allowed only in the columns {listed(columns)}, which have room for "
            f"{limits.capacity[columns].sum()}: raise their capacity, or allow these rows more columns"
        )
    columns, lost = _shortage(sparse.csr_array(allowed.T), limits.minimum, each)
    if len(columns):
        raise ValueError(
            f"the columns {listed(columns)} must have {limits.minimum[columns].sum()} rows, but only {len(lost)} rows "
            f"are allowed in them: lower their minimum, or allow more rows"
        )


def _shortage(allowed: Any, wanted: Counts, room: Counts) -> tuple[Indices, Indices]:
    """Return rows and columns that prove that what rows want does not fit in the room of columns; none if it fits."""
    n_rows, n_columns = allowed.shape
    source, sink = n_rows + n_columns, n_rows + n_columns + 1
    rows, columns = np.arange(n_rows), n_rows + np.arange(n_columns)
    tails = [np.full(n_rows, source), np.repeat(rows, np.diff(allowed.indptr)), columns]
    heads = [rows, n_rows + allowed.indices, np.full(n_columns, sink)]
    sizes = np.concatenate([wanted, np.full(allowed.nnz, wanted.sum()), room]).astype(np.int32)
    edges = np.concatenate(tails), np.concatenate(heads)
    graph = sparse.csr_array((sizes, edges), shape=(sink + 1, sink + 1))
    graph.indices, graph.indptr = graph.indices.astype(np.int32), graph.indptr.astype(np.int32)  # for SciPy before 1.15
    found = maximum_flow(graph, source, sink)
    if found.flow_value == wanted.sum():
        return np.empty(0, np.intp), np.empty(0, np.intp)
    left = sparse.csr_array(graph - found.flow)
    left.eliminate_zeros()
    reached = breadth_first_order(left, source, return_predecessors=False)
    return np.sort(reached[reached < n_rows]), np.sort(reached[(reached >= n_rows) & (reached < source)] - n_rows)
