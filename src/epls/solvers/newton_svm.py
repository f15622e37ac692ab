"""Many linear SVMs with squared hinge loss on the same samples, solved together by Newton's method.

It is for data of moderate size; :mod:`epls.solvers.quasi_newton_svm` is for larger ones.

For each class, with y = 1 for its samples and -1 for the others, it minimises the same as ``LinearSVC``::

    f(w, b) = 1/2 (||w||^2 + b^2 / intercept_scaling^2) + C sum_i max(0, 1 - y_i (w.x_i + b))^2

Three things make a whole grid of C cheap, without changing the result:

1. The samples are rotated once so that their Gram matrix is diagonal. A rotation changes neither norms nor products,
   and 1000 samples of 6400 features become 1000 of 1000.
2. The problems of all classes and folds share these rows and are solved together; a sample outside of a fold's training
   part has weight 0. Then products of large matrices take most of the time.
3. The diagonal of the Gram matrix nearly inverts the Hessian, and each C starts at the solution of the previous one.

The method is Newton's with conjugate gradients (Keerthi and DeCoste 2005) and an exact line search. The gradients are
in double precision; the Newton directions, which need not be exact, are in single precision.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning

from ..kernels.hinge import step_lengths
from ..utils.threads import by_rows, row_blocks
from ..utils.types import Array

_FREE_INTERCEPT = 10.0  # the constant of the intercept, against rows of mean squared norm 1
# The residual of a Newton direction, relative to the gradient's norm. With 0.1, a large C from a cold start on
# separable data took more than 200 steps instead of 10, and nothing else became faster.
_DIRECTION_TOLERANCE = 0.01
_SLOPE_TOLERANCE = 0.01  # the slope at the end of a step, relative to that at its start
_MOST_PRODUCTS = 300  # of conjugate gradients for one direction


class NewtonSVMs:
    """The problems of all classes on rotated rows of mean squared norm 1.

    If rows are divided by s and weights multiplied by it, margins are unchanged and the objective is that of C s^2,
    times s^2. So single precision suffices whatever the units of the data.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The samples, float32 or float64.
    signs : ndarray of shape (n_problems, n_samples)
        The y of each problem: 1 or -1.
    intercept_scaling : float or None, default=None
        As in ``LinearSVC``; None leaves the intercept free.
    tol : float, default=1e-6
        A problem is solved when half the squared norm of its gradient is at most this fraction of its objective.
    max_iter : int, default=200
        The largest number of Newton steps.
    block_elements : int, default=2**24
        The number of elements of the samples in double precision at a time, besides the rotated rows.

    Attributes
    ----------
    mean_square : float
        The mean squared norm of the rows (x, 1).
    fold_tol : float
        The tolerance for cross-validation: ``tol``.
    most_steps : int
        The largest number of Newton steps that :meth:`solve` has taken.
    n_products : int
        The number of vectors that were multiplied by the rotated rows and back.
    """

    def __init__(
        self,
        X: Array,
        signs: Array,
        *,
        intercept_scaling: float | None = None,
        tol: float = 1e-6,
        max_iter: int = 200,
        block_elements: int = 2**24,
    ) -> None:
        self.signs, self.tol, self.fold_tol, self.max_iter = signs, tol, tol, max_iter
        self._block_elements, self.most_steps, self.n_products = block_elements, 0, 0
        self.mean_square = mean_square_norm(X, block_elements)
        self.rows, self.eigenvalues, self._weights = self._rotate(X, intercept_scaling)
        self.single_rows = self.rows.astype(np.float32)

    def start(self, n_folds: int) -> Array:
        """Return a start if nothing is known: zeros of shape (n_folds, n_problems, n_rotated)."""
        return np.zeros((n_folds, len(self.signs), self.rows.shape[1]))

    def common(self, solution: Array) -> Array:
        """Return the mean of the folds, as a start for all samples."""
        return np.mean(solution, axis=0, keepdims=True)

    def weights(self, solution: Array) -> tuple[Array, Array]:
        """Return coefficients and intercepts (n_folds * n_problems, ...), in the type of the samples."""
        return self._weights(solution.reshape(-1, solution.shape[-1]))

    def predict(self, solution: Array) -> NDArray[np.intp]:
        """Return the class of every sample by each fold's solution: (n_folds, n_samples)."""
        margins = self._margins(solution.reshape(-1, solution.shape[2])).reshape(*solution.shape[:2], -1)
        return (margins[:, 0] > 0).astype(np.intp) if len(self.signs) == 1 else margins.argmax(axis=1)

    def solve(self, weights: Array, C: float, start: Array, tol: float | None = None) -> tuple[Array, Array]:
        """Return solutions (n_folds, n_problems, n_rotated) and their objectives (n_folds, n_problems).

        ``weights`` (n_folds, n_samples) are the square roots of each sample's weight in each fold.
        Rows of ``targets`` are y_i, or 0 for samples that do not count; those of ``slack`` are 1 - y_i margin_i.
        """
        tol = self.tol if tol is None else tol
        targets = (weights[:, None] * self.signs).reshape(-1, len(self.rows))
        V = start.reshape(len(targets), -1)
        solution, objective, unsolved = np.empty_like(V), np.empty(len(V)), np.arange(len(V))
        slack, loss_weight = np.abs(targets) - targets * self._margins(V), C * self.mean_square
        for n_steps in range(self.max_iter + 1):
            hinge = np.maximum(slack, 0)
            gradient = V - 2 * loss_weight * self._weighted_sum(targets * hinge)
            value, square = 0.5 * row_dots(V, V) + loss_weight * row_dots(hinge, hinge), row_dots(gradient, gradient)
            solution[unsolved], objective[unsolved] = V, value
            above = square > 2 * tol * value
            if n_steps == self.max_iter or not above.any():
                break
            unsolved, V, slack, targets, gradient = _pick(above, unsolved, V, slack, targets, gradient)
            enough = np.maximum(_DIRECTION_TOLERANCE**2 * square, 0.2 * tol * value)[above]
            direction = self._direction(np.where(slack > 0, 2 * loss_weight * targets**2, 0), gradient, enough)
            change = targets * self._margins(direction)
            length = find_step_lengths(V, direction, slack, change, loss_weight)[:, None]
            V, slack = V + length * direction, slack - length * change
            self.n_products += len(V)
        self.most_steps = max(self.most_steps, n_steps)
        warn_unsolved(above.sum(), len(solution), C, f"max_iter={self.max_iter} Newton steps", tol)
        return solution.reshape(start.shape), objective.reshape(start.shape[:2]) / self.mean_square

    def _direction(self, curvature: Array, gradient: Array, enough: Array) -> Array:
        """Find Newton directions by preconditioned conjugate gradients, up to a squared residual of ``enough``.

        The Hessian is 1 + Z' diag(curvature) Z. If the curvature were the same for all samples, it would be diagonal.
        That diagonal is the preconditioner.
        """
        inverse = (1 / (1 + curvature.mean(axis=1, keepdims=True) * self.eigenvalues)).astype(np.float32)
        curvature = curvature.astype(np.float32)
        # Scaled, so that nothing underflows in single precision.
        norm = np.sqrt(row_dots(gradient, gradient))[:, None]
        residual = (-gradient / norm).astype(np.float32)
        enough, direction, unsolved = enough / norm[:, 0] ** 2, np.empty_like(gradient), np.arange(len(gradient))
        found, p = np.zeros_like(residual), inverse * residual
        energy = row_dots(residual, p)
        for _ in range(_MOST_PRODUCTS):
            product = p + (curvature * (p @ self.single_rows.T)) @ self.single_rows
            self.n_products += len(p)
            length = (energy / row_dots(p, product))[:, None]
            found += length * p
            residual -= length * product
            direction[unsolved] = found
            above = row_dots(residual, residual) > enough
            if not above.any():
                break
            if not above.all():
                unsolved, found, residual, p, energy, inverse, curvature, enough = _pick(
                    above, unsolved, found, residual, p, energy, inverse, curvature, enough
                )
            steepest = inverse * residual
            before, energy = energy, row_dots(residual, steepest)
            p = steepest + (energy / before)[:, None] * p
        return direction * norm

    def _rotate(
        self, X: Array, intercept_scaling: float | None
    ) -> tuple[Array, Array, Callable[[Array], tuple[Array, Array]]]:
        """Return coordinates in which the Gram matrix of the samples is diagonal, followed by the intercept's constant.

        Both are divided by the root mean square norm of the rows (x, 1). Also return that diagonal, and a function from
        solutions to (coef, intercept).
        """
        n_samples, n_features = X.shape
        square = self.mean_square
        constant = intercept_constant(intercept_scaling, square)
        few = n_samples <= n_features
        gram: Array = np.zeros((min(X.shape), min(X.shape)))
        for _, block in self._blocks(X.T if few else X):
            gram += block.T @ block
        eigenvalues, vectors = eigh(gram, driver="evd", overwrite_a=True)
        if few:
            kept = eigenvalues > n_samples * np.finfo(np.float64).eps * eigenvalues[-1]  # the others are rounding
            eigenvalues, vectors = eigenvalues[kept], vectors[:, kept]
            rows = np.c_[vectors * np.sqrt(eigenvalues / square), np.full(n_samples, constant)]
        else:
            rows, rotation = np.empty((n_samples, n_features + 1)), vectors / np.sqrt(square)
            for some, block in self._blocks(X):
                rows[some, :-1] = block @ rotation
            rows[:, -1] = constant

        def weights(V: Array) -> tuple[Array, Array]:
            coef = V[:, :-1] / np.sqrt(square)
            if few:
                duals = (coef / np.sqrt(eigenvalues)) @ vectors.T
                coef = np.concatenate([duals @ block.T for _, block in self._blocks(X.T)], axis=1)
            else:
                coef = coef @ vectors.T
            return coef.astype(X.dtype), (V[:, -1] * constant).astype(X.dtype)

        return rows, np.append(np.maximum(eigenvalues, 0) / square, n_samples * constant**2), weights

    def _blocks(self, X: Array) -> Iterator[tuple[slice, Array]]:
        return double_blocks(X, self._block_elements)

    def _margins(self, V: Array) -> Array:
        return V @ self.rows.T

    def _weighted_sum(self, weights: Array) -> Array:
        return weights @ self.rows


def double_blocks(X: Array, block_elements: int) -> Iterator[tuple[slice, Array]]:
    """Iterate over blocks of rows, in double precision."""
    for some in row_blocks(len(X), max(1, block_elements // X.shape[1])):
        yield some, X[some].astype(np.float64, copy=False)


def mean_square_norm(X: Array, block_elements: int) -> float:
    """Return the mean squared norm of the rows (x, 1)."""
    with np.errstate(over="ignore"):
        square = float(1 + sum(row_dots(rows, rows).sum() for _, rows in double_blocks(X, block_elements)) / len(X))
    if not np.isfinite(square):
        raise ValueError("the features are too large to be squared: scale them, for example with a StandardScaler")
    return square


def intercept_constant(intercept_scaling: float | None, mean_square: float) -> float:
    """Return the constant that replaces the 1 of the intercept in rows of mean squared norm 1."""
    return _FREE_INTERCEPT if intercept_scaling is None else intercept_scaling / float(np.sqrt(mean_square))


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


def _pick(which: NDArray[np.bool_], *arrays: Any) -> Iterator[Any]:
    return (array[which] for array in arrays)
