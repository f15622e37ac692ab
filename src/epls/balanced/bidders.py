"""Who bids in an auction: rows, and where their wishes come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from ..kernels.market import Wishes, wish
from ..utils.threads import BLOCK_ROWS, Crew, row_blocks
from ..utils.types import Array, Float64, Indices

N_WISHES = 16  # measured: with fewer, rows look at all units again too often; with more, every bid takes longer


class Bidders(ABC):
    """Rows that want one of the units each.

    Attributes
    ----------
    shape : (n_rows, n_units)
        How many there are.
    wishes : Wishes
        The units that each row likes best.
    far : float
        As much as any two values differ.
    restricted : bool
        Whether there are units that some rows may not have.
    """

    shape: tuple[int, int]
    wishes: Wishes
    far: float
    restricted = False

    @abstractmethod
    def look(self, rows: Indices, prices: Float64, crew: Crew) -> None:
        """Find the wishes of some rows at these prices."""

    def matrix(self) -> tuple[Array, float, Float64]:
        """The scores of all rows, their sign and the offsets of units, if there are such; else without rows."""
        return np.empty((0, 0), self.wishes.values.dtype), 1.0, np.empty(0)


class ListedBidders(Bidders):
    """Rows with a list of units each, that they may have.

    Parameters
    ----------
    values : csr_array of shape (n_rows, n_units)
        The value of each unit that is allowed, none twice.
    far : float
        See :class:`Bidders`.
    """

    restricted = True

    def __init__(self, values: Any, far: float) -> None:
        n_rows = values.shape[0]
        self.shape = values.shape
        self.far = far
        beyond = np.full(n_rows, -np.inf)
        self.wishes = Wishes(values.indptr.astype(np.int64), values.indices.astype(np.int32), values.data, beyond)

    def look(self, rows: Indices, prices: Float64, crew: Crew) -> None:
        """Nothing: the list has all units that there are."""


class _LookingBidders(Bidders):
    """Rows that look at all units, block by block, and remember a few."""

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[np.floating], far: float) -> None:
        n_rows, n_units = shape
        n_wishes = min(N_WISHES, n_units)
        self.shape = shape
        self.far = far
        self.wishes = Wishes(
            np.arange(n_rows + 1, dtype=np.int64) * n_wishes,
            np.empty(n_rows * n_wishes, np.int32),
            np.empty(n_rows * n_wishes, dtype),
            np.empty(n_rows),
        )

    def look(self, rows: Indices, prices: Float64, crew: Crew) -> None:
        """Find the wishes of some rows at these prices."""
        sign, offsets = self._sign_and_offsets()

        def work(block: slice) -> None:
            numbers = rows[block]
            wish(self._scores(numbers), numbers, sign, offsets, prices, self.wishes)

        crew.each(work, list(row_blocks(len(rows), BLOCK_ROWS)))

    @abstractmethod
    def _scores(self, rows: Indices) -> Array:
        """The value of each unit to some rows, up to the sign and an offset of the unit."""

    @abstractmethod
    def _sign_and_offsets(self) -> tuple[float, Float64]:
        """See :func:`epls.kernels.market.wish`."""


class MatrixBidders(_LookingBidders):
    """Rows of a matrix.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_units)
        The values, or the costs.
    sign : float
        -1 for costs.
    far, restricted
        See :class:`Bidders`.
    """

    def __init__(self, scores: Array, sign: float, far: float, restricted: bool = False) -> None:
        super().__init__((scores.shape[0], scores.shape[1]), scores.dtype, far)
        self._matrix = scores
        self.restricted = restricted
        self._sign = sign
        self._offsets = np.zeros(scores.shape[1])

    def matrix(self) -> tuple[Array, float, Float64]:
        """All of it, its sign, and no offsets."""
        return self._matrix, self._sign, self._offsets

    def _scores(self, rows: Indices) -> Array:
        return _taken(self._matrix, rows)

    def _sign_and_offsets(self) -> tuple[float, Float64]:
        return self._sign, self._offsets


class NearBidders(_LookingBidders):
    """Samples that want a near centre: the value is minus the squared distance, up to a constant of the sample.

    Parameters
    ----------
    X : array or csr_array of shape (n_samples, n_features)
        The samples.
    n_centers : int
        The number of centres.
    """

    def __init__(self, X: Any, n_centers: int) -> None:
        super().__init__((X.shape[0], n_centers), X.dtype, 0.0)
        self._X = X
        self._largest = float(np.sqrt(squared_norms(X).max()))

    def approach(self, centers: Array) -> None:
        """Set the centres."""
        self._twice = np.ascontiguousarray(2 * centers.T, self._X.dtype)
        self._offsets = squared_norms(centers)
        largest = float(np.sqrt(self._offsets.max()))
        self.far = 4 * self._largest * largest + largest**2

    def _scores(self, rows: Indices) -> Array:
        scores = _taken(self._X, rows) @ self._twice
        return np.ascontiguousarray(scores.toarray() if sparse.issparse(scores) else scores)

    def _sign_and_offsets(self) -> tuple[float, Float64]:
        return 1.0, self._offsets


def _taken(X: Any, rows: Indices) -> Any:
    """Some rows, which are sorted; if they follow each other, without a copy."""
    first, last = int(rows[0]), int(rows[-1])
    return X[first : last + 1] if last - first == len(rows) - 1 else X[rows]


def squared_norms(X: Any) -> Float64:
    """The squared length of each row, in float64."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), np.float64).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)
