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

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh

from ..utils.types import Array
from .svms import LinearSVMs, derivatives, find_step_lengths, pick, row_dots, slacks, warn_unsolved

# The residual of a Newton direction, relative to the gradient's norm. With 0.1, a large C from a cold start on
# separable data took more than 200 steps instead of 10, and nothing else became faster.
_DIRECTION_TOLERANCE = 0.01
_MOST_PRODUCTS = 300  # of conjugate gradients for one direction


class NewtonSVMs(LinearSVMs):
    """The problems of all classes on rotated rows; see :class:`~.svms.LinearSVMs`."""

    block_elements = 2**24

    def __init__(self, X: Array, signs: Array, **settings: Any) -> None:
        super().__init__(X, signs, **settings)
        self.rows, self.eigenvalues, self._weights = self._rotate()
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

    def solve(self, weights: Array, C: float, start: Array, tol: float | None = None) -> tuple[Array, Array]:
        """Return solutions (n_folds, n_problems, n_rotated) and their objectives (n_folds, n_problems)."""
        tol = self.tol if tol is None else tol
        targets = self._targets(weights)
        V = start.reshape(len(targets), -1)
        solution, objective, unsolved = np.empty_like(V), np.empty(len(V)), np.arange(len(V))
        slack, loss_weight = slacks(targets, self._margins(V)), C * self.mean_square
        for n_steps in range(self.max_iter + 1):
            gradient, value, square = derivatives(V, targets, slack, loss_weight, self._weighted_sum)
            solution[unsolved], objective[unsolved] = V, value
            above = square > 2 * tol * value
            if n_steps == self.max_iter or not above.any():
                break
            unsolved, V, slack, targets, gradient = pick(above, unsolved, V, slack, targets, gradient)
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
                unsolved, found, residual, p, energy, inverse, curvature, enough = pick(
                    above, unsolved, found, residual, p, energy, inverse, curvature, enough
                )
            steepest = inverse * residual
            before, energy = energy, row_dots(residual, steepest)
            p = steepest + (energy / before)[:, None] * p
        return direction * norm

    def _rotate(self) -> tuple[Array, Array, Callable[[Array], tuple[Array, Array]]]:
        """Return coordinates in which the Gram matrix of the samples is diagonal, followed by the intercept's constant.

        Both are divided by the root mean square norm of the rows (x, 1). Also return that diagonal, and a function from
        solutions to (coef, intercept).
        """
        X, square, constant = self.X, self.mean_square, self.constant
        n_samples, n_features = X.shape
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

    def _fold_margins(self, solution: Array) -> Array:
        return self._margins(solution.reshape(-1, solution.shape[2])).reshape(*solution.shape[:2], -1)

    def _margins(self, V: Array) -> Array:
        return V @ self.rows.T

    def _weighted_sum(self, weights: Array) -> Array:
        return weights @ self.rows
