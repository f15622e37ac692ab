"""Sparse codes of many samples with one dictionary: what the encoder and the learners of dictionaries share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from .kernels.lasso import solve_lassos
from .threads import map_tasks

Array = NDArray[np.floating]

_BLOCK_ROWS = 512


class LassoSolver:
    """Solves min over s of 1/2 s'Gs - p's + alpha \\|s\\|₁ for many p, where the diagonal of G is 1.

    With the Gram matrix G = D D' of bases D and the products p = D x, that is the sparse code of x. Other problems of
    this form, such as those with a quadratic penalty on s, come to the same after scaling.

    Parameters
    ----------
    gram : ndarray of shape (n_bases, n_bases)
        G, of the type to compute in.
    alpha : float
        The penalty.
    positive : bool, default=False
        Whether codes may not be negative.
    tol : float, default=1e-3
        The largest violation of the conditions of a minimum, in units of alpha: see :mod:`epls.kernels.lasso`.
    """

    def __init__(self, gram: Array, alpha: float, *, positive: bool = False, tol: float = 1e-3) -> None:
        for name, value in (("alpha", alpha), ("tol", tol)):
            if not 0 < value < np.inf:
                raise ValueError(f"{name}={value} must be a number above 0")
        kind = gram.dtype.type
        self._gram = np.ascontiguousarray(gram)
        self._upper, self._tolerance = kind(alpha), kind(tol * alpha)
        self._lower = kind(-np.inf) if positive else -self._upper
        self._settings = f"tol={tol}: give a larger alpha than {alpha}, or samples of float64"

    def solve(self, products: Array, codes: Array) -> None:
        """Write the codes (n, n_bases) for products of the same shape. Threads may call it at the same time."""
        n_inexact = solve_lassos(products, self._gram, self._lower, self._upper, self._tolerance, codes)
        if n_inexact:
            warnings.warn(
                f"the codes of {n_inexact} samples are not exact to {self._settings}", ConvergenceWarning, stacklevel=3
            )


def sparse_codes(X: Array, bases: Array, alpha: float, *, positive: bool = False, tol: float = 1e-3) -> Any:
    """Sparse codes of samples with bases of unit norm, on all cores.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    bases : ndarray of shape (n_bases, n_features)
        Bases of unit norm, of the type of the samples.
    alpha, positive, tol
        As for :class:`LassoSolver`.

    Returns
    -------
    csr_array of shape (n_samples, n_bases)
        The codes.
    """
    columns = np.ascontiguousarray(bases.T)
    solver = LassoSolver(bases @ columns, alpha, positive=positive, tol=tol)

    def new_worker() -> Callable[[int], Any]:
        room = np.empty((2, _BLOCK_ROWS, len(bases)), X.dtype)

        def worker(start: int) -> Any:
            samples = X[start : start + _BLOCK_ROWS]
            products, codes = room[:, : len(samples)]
            solver.solve(np.matmul(samples, columns, out=products), codes)
            return sparse.csr_array(codes)

        return worker

    return sparse.vstack(list(map_tasks(new_worker, range(0, len(X), _BLOCK_ROWS))), format="csr")
