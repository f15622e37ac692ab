"""Sparse codes of many samples with one dictionary, for the encoder and the dictionary learners."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from ..kernels.lasso import solve_lassos
from ..utils.threads import BLOCK_ROWS, map_blocks
from ..utils.types import Array, Indices

_COARSEST_TOLERANCE = 1.0  # in units of alpha


class LassoSolver:
    """Solve min over s of 1/2 s'Gs - p's + alpha \\|s\\|₁ for many p, where the diagonal of G is 1.

    With the Gram matrix G = D D' of components D and the products p = D x, s is the sparse code of x. Other problems
    of this form, such as those with a quadratic penalty on s, can be scaled to it.

    Problems that single precision cannot solve to the tolerance (nearly dependent components, an alpha of less than
    about a hundredth of the products) are solved again in double precision.

    ``gram`` is G in double precision; its diagonal is 0 for components that are 0. With ``positive``, codes are not
    negative. ``tol`` is the largest violation of the conditions of a minimum, in units of alpha: see
    :mod:`epls.kernels.lasso`. ``dtype`` is that of products and codes.
    """

    def __init__(
        self, gram: Array, alpha: float, *, positive: bool = False, tol: float = 1e-3, dtype: Any = np.float64
    ) -> None:
        settings: dict[str, Any] = {"alpha": alpha, "tol": tol}
        for name, value in settings.items():
            if not (isinstance(value, Real) and 0 < float(value) < np.inf):
                raise ValueError(f"{name}={value} must be a number above 0")
        kind = np.dtype(dtype).type
        with np.errstate(over="ignore"):
            if not 0 < kind(alpha) < np.inf:
                raise ValueError(f"alpha={alpha} is out of the range of {np.dtype(dtype)}: scale the samples and alpha")
        diagonal = np.diagonal(gram)
        if not np.all((np.abs(diagonal - 1) < 1e-3) | (diagonal == 0)):
            raise ValueError(
                f"the components must have norm 1 or 0, but the diagonal of their Gram matrix has {diagonal.max()}"
            )
        self._exact_gram = np.ascontiguousarray(gram, np.float64)
        self._gram = np.ascontiguousarray(gram, dtype)
        self._alpha, self._tol, self._positive = alpha, tol, positive

    def solve(self, products: Array, codes: Array) -> None:
        """Write the codes (n, n_components) for products of the same shape. Several threads may call it at once."""
        left = self._solve(products, self._gram, self._tol, codes)
        if len(left) and codes.dtype != np.float64:
            left = self._solve_again(left, products, self._tol, codes)
        if len(left) == 0:
            return
        warnings.warn(
            f"some sparse codes are not exact to tol={self._tol}, because alpha={self._alpha} is too small for "
            f"double precision: give a larger alpha",
            ConvergenceWarning,
            stacklevel=2,
        )
        tol = self._tol
        while len(left) and tol < _COARSEST_TOLERANCE:  # then as exact as double precision allows
            tol *= 10
            left = self._solve_again(left, products, tol, codes)

    def _solve_again(self, chosen: Indices, products: Array, tol: float, codes: Array) -> Indices:
        """Solve the chosen problems in double precision, and return those that still miss the tolerance."""
        found = np.empty((len(chosen), codes.shape[1]))
        left = self._solve(products[chosen].astype(np.float64), self._exact_gram, tol, found)
        codes[chosen] = found
        return chosen[left]

    def _solve(self, products: Array, gram: Array, tol: float, codes: Array) -> Indices:
        """Write the codes, and return the numbers of the problems that miss the tolerance."""
        kind, inexact = codes.dtype.type, np.empty(len(products), np.bool_)
        solve_lassos(products, gram, kind(self._alpha), kind(tol), self._positive, codes, inexact)
        return np.flatnonzero(inexact)


def sparse_codes(X: Array, components: Array, alpha: float, *, positive: bool = False, tol: float = 1e-3) -> Any:
    """Return sparse codes of samples with components of unit norm as a csr_array, computed on all cores."""
    if len(X) == 0:
        return sparse.csr_array((0, len(components)), dtype=X.dtype)
    columns = np.ascontiguousarray(components.T, X.dtype)
    wide = components.astype(np.float64)
    solver = LassoSolver(wide @ wide.T, alpha, positive=positive, tol=tol, dtype=X.dtype)

    def new_worker() -> Callable[[slice], Any]:
        room = np.empty((2, BLOCK_ROWS, len(components)), X.dtype)

        def worker(rows: slice) -> Any:
            samples = X[rows]
            products, codes = room[:, : len(samples)]
            solver.solve(np.matmul(samples, columns, out=products), codes)
            return sparse.csr_array(codes)

        return worker

    return sparse.vstack(list(map_blocks(new_worker, len(X))), format="csr")
