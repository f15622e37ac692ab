"""The common base of the two solvers of linear SVMs with squared hinge loss: many problems on the same samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ..kernels.hinge import step_lengths
from ..utils.threads import by_rows, row_blocks
from ..utils.types import Array

_FREE_INTERCEPT = 10.0  # the constant of the intercept, against rows of mean squared norm 1
_SLOPE_TOLERANCE = 0.01  # the slope at the end of a step, relative to that at its start


class LinearSVMs:
    """The problems of all classes on the same samples, for several folds at a time.

    Rows and weights are scaled so that the mean squared norm of the rows is 1: if rows are divided by s and weights
    multiplied by it, margins are unchanged and the objective is that of C s^2, times s^2. So single precision suffices
    whatever the units of the data. A subclass defines ``start(n_folds)``, ``common(solution)``, ``weights(solution)``
    and ``solve(weights, C, start, tol)``, with a type of solutions of its own. The ``weights`` of the latter
    (n_folds, n_samples) are the square roots of each sample's weight in each fold.

    ``signs`` (n_problems, n_samples) are the y of each problem: 1 or -1. The other settings are those of
    :class:`epls.L2SVMCV`. ``mean_square`` is the mean squared norm of the rows (x, 1), ``constant`` replaces the 1 of
    the intercept in rows of mean squared norm 1, and ``fold_tol`` is the tolerance for cross-validation. ``most_steps``
    is the largest number of steps of any C, and ``n_products`` the number of vectors multiplied by the samples and
    back.
    """

    block_elements: ClassVar[int]  # of the samples that are in double precision at a time

    def __init__(
        self, X: Array, signs: Array, *, intercept_scaling: float | None = None, tol: float = 1e-6, max_iter: int = 200
    ) -> None:
        self.X, self.signs, self.tol, self.fold_tol, self.max_iter = X, signs, tol, tol, max_iter
        self.most_steps, self.n_products = 0, 0
        self.mean_square = self._mean_square_norm()
        root = float(np.sqrt(self.mean_square))
        self.constant = _FREE_INTERCEPT if intercept_scaling is None else intercept_scaling / root

    def predict(self, solution: Any) -> NDArray[np.intp]:
        """Return the class of every sample by each fold's solution: (n_folds, n_samples)."""
        margins = self._fold_margins(solution)
        return (margins[:, 0] > 0).astype(np.intp) if len(self.signs) == 1 else margins.argmax(axis=1)

    def _fold_margins(self, solution: Any) -> Array:
        """Return the margins (n_folds, n_problems, n_samples) of a solution."""
        raise NotImplementedError

    def _blocks(self, X: Array) -> Iterator[tuple[slice, Array]]:
        """Iterate over blocks of rows, in double precision."""
        for some in row_blocks(len(X), max(1, self.block_elements // X.shape[1])):
            yield some, X[some].astype(np.float64, copy=False)

    def _mean_square_norm(self) -> float:
        """Return the mean squared norm of the rows (x, 1)."""
        with np.errstate(over="ignore"):
            square = float(1 + sum(row_dots(rows, rows).sum() for _, rows in self._blocks(self.X)) / len(self.X))
        if not np.isfinite(square):
            raise ValueError("the features are too large to be squared: scale them, for example with a StandardScaler")
        return square

    def _targets(self, weights: Array) -> Array:
        """Return y_i, or 0 for samples that do not count, for each problem of each fold."""
        return (weights[:, None] * self.signs).reshape(-1, self.signs.shape[1])


def slacks(targets: Array, margins: Array) -> Array:
    """Return 1 - y_i margin_i, or 0 for samples that do not count."""
    return np.abs(targets) - targets * margins


def derivatives(
    V: Array, targets: Array, slack: Array, loss_weight: float, weighted_sum: Callable[[Array], Array]
) -> tuple[Array, Array, Array]:
    """Return the gradient of each problem at the weights V, its objective, and the squared norm of the gradient."""
    hinge = np.maximum(slack, 0)
    gradient = V - 2 * loss_weight * weighted_sum(targets * hinge)
    value = 0.5 * row_dots(V, V) + loss_weight * row_dots(hinge, hinge)
    return gradient, value, row_dots(gradient, gradient)


def pick(which: NDArray[np.bool_], *arrays: Any) -> Iterator[Any]:
    """Return the chosen rows of each array, such as those of problems that are not solved yet."""
    return (array[which] for array in arrays)


def find_step_lengths(V: Array, direction: Array, slack: Array, change: Array, loss_weight: float) -> Array:
    """Return the step that minimises each problem's objective along its line."""
    lengths = np.empty(len(V))
    arrays = (slack, change, row_dots(V, direction), row_dots(direction, direction), lengths)
    by_rows(step_lengths, arrays, loss_weight, _SLOPE_TOLERANCE)
    return lengths


def warn_unsolved(n_unsolved: int, n_problems: int, C: float, limit: str, tol: float) -> None:
    """Warn the caller of the estimator if problems did not converge."""
    if n_unsolved:
        warnings.warn(
            f"{n_unsolved} of {n_problems} problems with C={C:.3g} did not converge to tol={tol:g} within {limit}: "
            f"raise max_iter or tol, or use smaller values of C",
            ConvergenceWarning,
            stacklevel=5,
        )


def row_dots(A: Array, B: Array) -> Array:
    """Return the inner product of each row of one with the same row of the other."""
    return np.einsum("ij,ij->i", A, B)
