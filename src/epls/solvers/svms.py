"""Many linear SVMs with squared hinge loss on the same samples, solved together by a quasi-Newton method.

For each class, with y = 1 for its samples and -1 for the others, it minimises the same as ``LinearSVC``::

    f(w, b) = 1/2 (||w||^2 + b^2 / intercept_scaling^2) + C sum_i max(0, 1 - y_i (w.x_i + b))^2

The problems of all classes and folds share the samples, so products of large matrices take most of the time. A sample
outside of a fold's training part has weight 0. These ideas keep the number and size of products small:

1. If there are more than twice as many features as samples, the samples are rotated once so that their Gram matrix is
   diagonal. A rotation changes neither norms nor products, and 1000 samples of 6400 features become 1000 of 1000.
2. The inverse Hessian starts as that of a problem where all samples have equal weight, I + c Z'Z. For each C, its
   Cholesky factor takes a twentieth of the time of the Gram matrix (50,000 x 6,400). The differences between classes
   remain to be learned.
3. Limited-memory BFGS learns it from the gradients. Each step takes one product with the samples and one back. It needs
   about half as many steps as Newton's method with conjugate gradients needs products.
4. What was learned for one C is reused for the next: a Hessian is I + C A, so a change y of the gradient along a step s
   becomes s + (C'/C) (y - s).
5. Margins are linear in the weights. They are kept, so predictions of held-out samples need no further product.
6. Cross-validation needs no more accuracy than its noise allows: see :attr:`LinearSVMs.fold_tol`. Single precision
   suffices for that. The final problems are solved in double precision, a block of samples at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, eigh
from sklearn.exceptions import ConvergenceWarning

from ..kernels.hinge import step_lengths
from ..utils.threads import by_rows, row_blocks
from ..utils.types import Array
from .symmetric import add_inner_products, factor_lower

_FREE_INTERCEPT = 10.0  # the constant of the intercept, against rows of mean squared norm 1
_SLOPE_TOLERANCE = 0.01  # the slope at the end of a step, relative to that at its start
# The gap bounds the error of the margins: its mean square is about this fraction of the mean squared hinge, so margins
# are off by a hundredth of a hinge, in either direction.
_FOLD_TOLERANCE = 1e-4
_DOUBLE_BELOW = 1e-5  # single precision reaches this tolerance in all but the worst conditioned problems
_LARGEST_LEAP = 4.0  # from one C to a larger one; a cold start at almost hard margins would take thousands of steps
_MEMORY = 40  # steps; with 16, almost hard margins take five to ten times as many, and 5,000 x 1,600 1.4 times as long
_MANY_FEATURES = 2000  # for which the Cholesky factor is in single precision


@dataclass
class _Memory:
    """The memory of limited-memory BFGS: steps of all problems and the changes of their gradients, the latest last."""

    steps: list[NDArray[np.float32]] = field(default_factory=list)
    changes: list[NDArray[np.float32]] = field(default_factory=list)

    def at(self, ratio: float) -> _Memory:
        """Return the same steps, with the changes of the gradient that they would make with ``ratio`` times the C."""
        pairs = zip(self.steps, self.changes, strict=True)
        return _Memory(list(self.steps), [s + np.float32(ratio) * (y - s) for s, y in pairs])

    def add(self, problems: NDArray[np.intp], n_problems: int, step: Array, change: Array) -> None:
        """Remember the steps of some problems, and zeros for the others."""
        for kept, new in ((self.steps, step), (self.changes, change)):
            rows = np.zeros((n_problems, new.shape[1]), np.float32)
            rows[problems] = new
            kept.append(rows)
            del kept[:-_MEMORY]

    def direction(self, problems: NDArray[np.intp], gradient: Array, inverse: Callable[[Array], Array]) -> Array:
        """Return minus the inverse Hessian times the gradient, as learned from the steps, starting with ``inverse``."""
        scale = np.abs(gradient).max(axis=1, keepdims=True)  # so that nothing underflows in single precision
        scale[scale == 0] = 1
        found, used = (gradient / -scale).astype(np.float32), []
        for all_steps, all_changes in zip(reversed(self.steps), reversed(self.changes), strict=True):
            s, y = all_steps[problems], all_changes[problems]
            energy = _row_dots(s, y)
            share = np.divide(1, energy, out=np.zeros_like(energy), where=energy > np.finfo(np.float32).tiny)
            length = share * _row_dots(s, found)
            found -= length[:, None] * y
            used.append((s, y, share, length))
        found = inverse(found).astype(np.float32, copy=False)
        for s, y, share, length in reversed(used):
            found += (length - share * _row_dots(y, found))[:, None] * s
        direction = found * scale
        uphill = ~(_row_dots(direction, gradient) < 0)  # by rounding errors
        direction[uphill] = -gradient[uphill]
        return direction


@dataclass
class Solved:
    """The solutions of the problems of all folds for one C, which the next C starts from.

    They have ``weights`` (n_folds * n_problems, n_columns + 1) and their ``margins`` (n_folds * n_problems, n_samples),
    None if unknown; the C times the mean squared norm, and the memory of steps.
    """

    weights: Array
    margins: Array | None
    n_folds: int
    loss_weight: float = 1.0
    memory: _Memory = field(default_factory=_Memory)


class LinearSVMs:
    """The problems of all classes on the same samples, for several folds at a time, without a copy of float32 samples.

    Rows and weights are scaled so that the mean squared norm of the rows is 1: if rows are divided by s and weights
    multiplied by it, margins are unchanged and the objective is that of C s^2, times s^2. So single precision suffices
    whatever the units of the data.

    ``signs`` (n_problems, n_samples) are the y of each problem: 1 or -1. The other settings are those of
    :class:`epls.L2SVMCV`. ``mean_square`` is the mean squared norm of the rows (x, 1), and ``constant`` replaces the 1
    of the intercept in rows of mean squared norm 1. ``most_steps`` is the largest number of steps of any C, and
    ``n_products`` the number of vectors multiplied by the samples and back.

    ``fold_tol``, the tolerance for cross-validation, is at least 1e-4: the mean squared error of margins is then about
    1e-4 of the mean squared hinge. It changes the predicted class of a few samples in a thousand, as often to the
    correct class as away from it, so the accuracy changes by far less than its standard error.
    """

    block_elements = 2**22  # of the samples that are in double precision at a time

    def __init__(
        self, X: Array, signs: Array, *, intercept_scaling: float | None = None, tol: float = 1e-6, max_iter: int = 2000
    ) -> None:
        self.X, self.signs, self.tol, self.max_iter = X, signs, tol, max_iter
        self.fold_tol = max(tol, _FOLD_TOLERANCE)
        self.most_steps, self.n_products = 0, 0
        with np.errstate(over="ignore"):
            squares = sum(_row_dots(block, block).sum() for _, block in self._blocks(X))
        self.mean_square = float(1 + squares / len(X))
        if not np.isfinite(self.mean_square):
            raise ValueError("the features are too large to be squared: scale them, for example with a StandardScaler")
        self._root = float(np.sqrt(self.mean_square))
        self.constant = _FREE_INTERCEPT if intercept_scaling is None else intercept_scaling / self._root
        self._rows, self._rotation = X, None
        self._factored: tuple[float, Callable[[Array], Array]] | None = None
        if X.shape[1] > 2 * len(X):
            self._rows, self._rotation, self._gram = self._rotated()
        self._single, self._single_scale = self._rows, 1 / self._root
        if self._rows.dtype != np.float32:
            self._single, self._single_scale = np.empty(self._rows.shape, np.float32), 1.0
            np.divide(self._rows, self._root, out=self._single, casting="same_kind")
        if self._rotation is None:
            self._gram = self._gram_matrix()
        self._sums = self._weighted_sum(np.ones((1, len(X))), True)[0, :-1]

    def start(self, n_folds: int) -> Solved:
        """Return a start if nothing is known: zeros."""
        n_problems, (n_samples, n_columns) = n_folds * len(self.signs), self._rows.shape
        return Solved(np.zeros((n_problems, n_columns + 1)), np.zeros((n_problems, n_samples)), n_folds)

    def common(self, solution: Solved) -> Solved:
        """Return the mean of the folds, as a start for all samples."""
        weights = solution.weights.reshape(solution.n_folds, len(self.signs), -1).mean(axis=0)
        return Solved(weights, None, 1, solution.loss_weight)

    def weights(self, solution: Solved) -> tuple[Array, Array]:
        """Return coefficients and intercepts (n_folds * n_problems, ...), in the type of the samples."""
        coef, intercept = solution.weights[:, :-1] / self._root, solution.weights[:, -1] * self.constant
        if self._rotation is not None:
            duals = coef @ self._rotation.T
            coef = np.concatenate([duals @ block.T for _, block in self._blocks(self.X.T)], axis=1)
        return coef.astype(self.X.dtype), intercept.astype(self.X.dtype)

    def predict(self, solution: Solved) -> NDArray[np.intp]:
        """Return the class of every sample by each fold's solution: (n_folds, n_samples)."""
        margins = self._margins(solution.weights, False) if solution.margins is None else solution.margins
        margins = margins.reshape(solution.n_folds, len(self.signs), -1)
        return (margins[:, 0] > 0).astype(np.intp) if len(self.signs) == 1 else margins.argmax(axis=1)

    def solve(self, weights: Array, C: float, start: Solved, tol: float | None = None) -> tuple[Solved, Array]:
        """Return solutions and their objectives (n_folds, n_problems).

        ``weights`` (n_folds, n_samples) are the square roots of each sample's weight in each fold.
        """
        tol, loss_weight = self.tol if tol is None else tol, C * self.mean_square
        n_leaps = int(np.ceil(np.log(max(loss_weight / start.loss_weight, 1)) / np.log(_LARGEST_LEAP)))
        for between in np.geomspace(start.loss_weight, loss_weight, n_leaps + 1)[1:-1]:
            start, _, _ = self._advanced(weights, between / self.mean_square, start, _FOLD_TOLERANCE, False)
        if tol < _DOUBLE_BELOW:  # most of the way in single precision
            start, _, _ = self._advanced(weights, C, start, _FOLD_TOLERANCE, False)
        solution, objective, n_unsolved = self._advanced(weights, C, start, tol, tol < _DOUBLE_BELOW)
        if n_unsolved:
            warnings.warn(
                f"{n_unsolved} of {objective.size} problems with C={C:.3g} did not converge to tol={tol:g} within "
                f"max_iter={self.max_iter} steps: raise max_iter or tol, or use smaller values of C",
                ConvergenceWarning,
                stacklevel=4,
            )
        return solution, objective

    def _advanced(self, weights: Array, C: float, start: Solved, tol: float, double: bool) -> tuple[Solved, Array, int]:
        """Return solutions, objectives, and the number of problems that did not converge."""
        loss_weight = C * self.mean_square
        targets = (weights[:, None] * self.signs).reshape(-1, self.signs.shape[1])  # 0 for samples that do not count
        V, n_problems, memory = start.weights.copy(), len(targets), start.memory.at(loss_weight / start.loss_weight)
        M = self._margins(V, double) if double or start.margins is None else start.margins.copy()
        inverse = self._inverse_hessian(2 * loss_weight * float(np.mean(targets**2 * (np.abs(targets) > targets * M))))
        objective, unsolved = np.empty(n_problems), np.arange(n_problems)
        step: Array = np.empty((0, V.shape[1]))
        before = step
        for n_steps in range(self.max_iter + 1):
            y, v = targets[unsolved], V[unsolved]
            slack = np.abs(y) - y * M[unsolved]
            hinge = np.maximum(slack, 0)
            gradient = v - 2 * loss_weight * self._weighted_sum(y * hinge, double)
            objective[unsolved] = 0.5 * _row_dots(v, v) + loss_weight * _row_dots(hinge, hinge)
            if n_steps:
                memory.add(unsolved, n_problems, step, gradient - before)
            above = _row_dots(gradient, gradient) > 2 * tol * objective[unsolved]
            if n_steps == self.max_iter or not above.any():
                break
            unsolved, v, slack, before = unsolved[above], v[above], slack[above], gradient[above]
            step = memory.direction(unsolved, before, inverse)
            change = self._margins(step, double)
            lengths = np.empty(len(step))
            lines = (slack, y[above] * change, _row_dots(v, step), _row_dots(step, step), lengths)
            by_rows(step_lengths, lines, loss_weight, _SLOPE_TOLERANCE)
            step *= lengths[:, None]
            V[unsolved] += step
            M[unsolved] += lengths[:, None] * change
            self.n_products += len(unsolved)
        self.most_steps = max(self.most_steps, n_steps)
        solution = Solved(V, M, start.n_folds, loss_weight, memory)
        return solution, objective.reshape(len(weights), -1) / self.mean_square, int(above.sum())

    def _rotated(self) -> tuple[Array, Array, Array]:
        """Return the samples in coordinates in which Z'Z is diagonal, the way back to the samples, and the diagonal."""
        gram: Array = np.zeros((len(self.X), len(self.X)))
        for _, block in self._blocks(self.X.T):
            add_inner_products(gram, block.T)
        eigenvalues, vectors = eigh(gram, driver="evd", overwrite_a=True)
        kept = eigenvalues > len(gram) * np.finfo(np.float64).eps * eigenvalues[-1]  # the others are rounding
        eigenvalues, vectors = eigenvalues[kept], vectors[:, kept]
        return vectors * np.sqrt(eigenvalues), vectors / np.sqrt(eigenvalues), eigenvalues / self.mean_square

    def _inverse_hessian(self, curvature: float) -> Callable[[Array], Array]:
        """Multiply rows by the inverse of 1 + curvature Z'Z, the Hessian if all samples have this curvature."""
        if self._rotation is not None:
            return self._inverse_of_rotated(curvature)
        curvature = max(curvature, 1e-30)  # 0 if no sample is on the wrong side of its margin
        if self._factored is not None and 2 / 3 < curvature / self._factored[0] < 3 / 2:
            return self._factored[1]
        self._factored = None  # freed before the next: with 20,000 features it takes 1.6 GB
        n_features, dtype = len(self._gram), self._gram.dtype
        added = float(np.finfo(dtype).eps)
        while True:
            matrix = np.zeros((n_features + 1, n_features + 1), dtype)  # only the lower part is used
            np.multiply(self._gram, dtype.type(curvature), out=matrix[:-1, :-1])
            matrix[-1, :-1] = curvature * self.constant * self._sums
            matrix[-1, -1] = curvature * self.constant**2 * len(self.X)
            diagonal = np.einsum("ii->i", matrix)
            diagonal += 1
            diagonal *= 1 + added
            try:
                factor_lower(matrix)
                break
            except LinAlgError:  # caused by rounding: a larger diagonal is a worse preconditioner, but works
                added *= 10

        def inverse(rows: Array) -> Array:
            return cho_solve((matrix.T, False), rows.astype(dtype).T, overwrite_b=True, check_finite=False).T

        self._factored = curvature, inverse
        return inverse

    def _inverse_of_rotated(self, curvature: float) -> Callable[[Array], Array]:
        """Multiply rows by the same inverse, of a matrix that is diagonal but for the last row and column."""
        diagonal, beside = 1 + curvature * self._gram, curvature * self.constant * self._sums
        ratios = beside / diagonal
        corner = 1 + curvature * self.constant**2 * len(self.X) - beside @ ratios

        def inverse(rows: Array) -> Array:
            last = (rows[:, -1:] - rows[:, :-1] @ ratios[:, None]) / corner
            return np.hstack([rows[:, :-1] / diagonal - last * ratios, last])

        return inverse

    def _gram_matrix(self) -> Array:
        """Return the lower part of Z'Z without the intercept, in double precision if that is cheap."""
        n_features = self.X.shape[1]
        dtype = np.dtype(np.float64 if n_features <= _MANY_FEATURES else np.float32)
        rows, scale = (self._single, self._single_scale) if dtype == np.float32 else (self.X, 1 / self._root)
        gram = np.zeros((n_features, n_features), dtype)
        for some in row_blocks(len(rows), max(n_features // 4, self.block_elements // n_features)):
            add_inner_products(gram, (rows[some] * dtype.type(scale)).T)
        return gram

    def _blocks(self, X: Array) -> Iterator[tuple[slice, Array]]:
        """Iterate over blocks of rows, in double precision."""
        for some in row_blocks(len(X), max(1, self.block_elements // X.shape[1])):
            yield some, X[some].astype(np.float64, copy=False)

    def _margins(self, V: Array, double: bool) -> Array:
        if double:
            parts = [(V[:, :-1] / self._root) @ block.T for _, block in self._blocks(self._rows)]
            margins = np.concatenate(parts, axis=1)
        else:
            margins = ((V[:, :-1] * self._single_scale).astype(np.float32) @ self._single.T).astype(np.float64)
        margins += V[:, -1:] * self.constant
        return margins

    def _weighted_sum(self, weights: Array, double: bool) -> Array:
        """Return sums of rows, in double precision within blocks or only from block to block."""
        n_samples, n_columns = self._rows.shape
        found = np.empty((len(weights), n_columns + 1))
        found[:, -1] = weights.sum(axis=1) * self.constant
        if double:
            total: Any = sum(weights[:, some] @ block for some, block in self._blocks(self._rows))
            found[:, :-1] = total / self._root
            return found
        single, total = weights.astype(np.float32), np.zeros((len(weights), n_columns))
        for some in row_blocks(n_samples, max(1, 4 * self.block_elements // n_columns)):
            total += single[:, some] @ self._single[some]
        found[:, :-1] = total * self._single_scale
        return found


def _row_dots(A: Array, B: Array) -> Array:
    """Return the inner product of each row of one with the same row of the other."""
    return np.einsum("ij,ij->i", A, B)
