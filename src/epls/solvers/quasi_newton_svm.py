"""Many linear SVMs with squared hinge loss on the same large samples, solved together by a quasi-Newton method.

The problems are those of :mod:`epls.solvers.newton_svm`, whose rotation takes too long for thousands of features and
needs further copies of the samples. Here the samples are not changed. Products with them take most of the time, and
these ideas keep their number small:

1. The inverse Hessian starts as that of a problem where all samples have equal weight, I + c Z'Z. For each C, its
   Cholesky factor takes a twentieth of the time of the Gram matrix (50,000 x 6,400). The differences between classes
   remain to be learned.
2. Limited-memory BFGS learns it from the gradients. Each step takes one product with the samples and one back. It needs
   about half as many steps as Newton's method with conjugate gradients needs products.
3. What was learned for one C is reused for the next: a Hessian is I + C A, so a change y of the gradient along a step s
   becomes s + (C'/C) (y - s).
4. Margins are linear in the weights. They are kept, so predictions of held-out samples need no further product.
5. Cross-validation needs no more accuracy than its noise allows: see :attr:`QuasiNewtonSVMs.fold_tol`. Single precision
   suffices for that. The final problems are solved in double precision, a block of samples at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, get_blas_funcs

from ..utils.threads import row_blocks
from ..utils.types import Array
from .svms import LinearSVMs, derivatives, find_step_lengths, pick, row_dots, slacks, warn_unsolved

# The gap bounds the error of the margins: its mean square is about this fraction of the mean squared hinge, so margins
# are off by a hundredth of a hinge, in either direction.
_FOLD_TOLERANCE = 1e-4
_DOUBLE_BELOW = 1e-5  # single precision reaches this tolerance in all but the worst conditioned problems
_MEMORY = 16  # steps; with 8, large C take a third longer
_STEPS_OF_ONE = 10  # per step of Newton's method, which needs dozens of products where a step here needs one
_MANY_FEATURES = 2000  # finding this many eigenvectors takes longer than solving the problems
_MANY_ELEMENTS = 2**25  # rotated rows in double precision would take more than 256 MB


def is_large(n_samples: int, n_features: int) -> bool:
    """Return whether data of this shape are solved faster without rotation.

    If there are many more features than samples, the Gram matrix of the samples is smaller.
    """
    many = min(n_samples, n_features) > _MANY_FEATURES or n_samples * n_features > _MANY_ELEMENTS
    return many and n_features <= 2 * n_samples


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
        found, used = -gradient, []
        for all_steps, all_changes in zip(reversed(self.steps), reversed(self.changes), strict=True):
            s, y = all_steps[problems], all_changes[problems]
            energy = row_dots(s, y)
            share = np.divide(1.0, energy, out=np.zeros(len(s)), where=energy > 0)[:, None]
            length = share * row_dots(s, found)[:, None]
            found -= length * y
            used.append((s, y, share, length))
        found = inverse(found)
        for s, y, share, length in reversed(used):
            found += (length - share * row_dots(y, found)[:, None]) * s
        uphill = row_dots(found, gradient) >= 0  # only because of rounding
        found[uphill] = -gradient[uphill]
        return found


@dataclass
class Solved:
    """The solutions of the problems of all folds for one C, which the next C starts from.

    They have ``weights`` (n_folds * n_problems, n_features + 1) and their ``margins`` (n_folds * n_problems,
    n_samples), None if unknown; the C times the mean squared norm, and the memory of steps.
    """

    weights: Array
    margins: Array | None
    n_folds: int
    loss_weight: float = 1.0
    memory: _Memory = field(default_factory=_Memory)


class QuasiNewtonSVMs(LinearSVMs):
    """The problems of all classes without a copy of float32 samples; see :class:`~.svms.LinearSVMs`.

    There are up to ten times ``max_iter`` steps. ``fold_tol`` is at least 1e-4: the mean squared error of margins is
    then about 1e-4 of the mean squared hinge. It changes the predicted class of a few samples in a thousand, as often
    to the correct class as away from it, so the accuracy changes by far less than its standard error.
    """

    block_elements = 2**22

    def __init__(self, X: Array, signs: Array, **settings: Any) -> None:
        super().__init__(X, signs, **settings)
        self.fold_tol = max(self.tol, _FOLD_TOLERANCE)
        self.max_steps = _STEPS_OF_ONE * self.max_iter
        root = np.sqrt(self.mean_square)
        self._single, self._single_scale = X, 1 / root
        if X.dtype != np.float32:
            self._single, self._single_scale = np.empty(X.shape, np.float32), 1.0
            np.divide(X, root, out=self._single, casting="same_kind")
        self._factored: tuple[float, Callable[[Array], Array]] | None = None
        self._gram, self._sums = self._gram_matrix(), self._weighted_sum(np.ones((1, len(X))), True)[0, :-1]

    def start(self, n_folds: int) -> Solved:
        """Return a start if nothing is known: zeros."""
        n_problems, (n_samples, n_features) = n_folds * len(self.signs), self.X.shape
        return Solved(np.zeros((n_problems, n_features + 1)), np.zeros((n_problems, n_samples)), n_folds)

    def common(self, solution: Solved) -> Solved:
        """Return the mean of the folds, as a start for all samples."""
        return Solved(solution.weights.reshape(solution.n_folds, len(self.signs), -1).mean(axis=0), None, 1)

    def weights(self, solution: Solved) -> tuple[Array, Array]:
        """Return coefficients and intercepts (n_folds * n_problems, ...), in the type of the samples."""
        coef, intercept = solution.weights[:, :-1] / np.sqrt(self.mean_square), solution.weights[:, -1] * self.constant
        return coef.astype(self.X.dtype), intercept.astype(self.X.dtype)

    def solve(self, weights: Array, C: float, start: Solved, tol: float | None = None) -> tuple[Solved, Array]:
        """Return solutions and their objectives (n_folds, n_problems)."""
        tol = self.tol if tol is None else tol
        if tol < _DOUBLE_BELOW:  # most of the way in single precision
            start, _, _ = self._advanced(weights, C, start, _FOLD_TOLERANCE, False)
        solution, objective, n_unsolved = self._advanced(weights, C, start, tol, tol < _DOUBLE_BELOW)
        limit = f"max_iter={self.max_iter} times {_STEPS_OF_ONE} steps"
        warn_unsolved(n_unsolved, objective.size, C, limit, tol)
        return solution, objective

    def _advanced(self, weights: Array, C: float, start: Solved, tol: float, double: bool) -> tuple[Solved, Array, int]:
        """Return solutions, objectives, and the number of problems that did not converge."""
        loss_weight = C * self.mean_square
        targets = self._targets(weights)
        V, n_problems, memory = start.weights.copy(), len(targets), start.memory.at(loss_weight / start.loss_weight)
        M = self._margins(V, double) if double or start.margins is None else start.margins.copy()
        inverse = self._inverse_hessian(2 * loss_weight * float(np.mean(targets**2 * (np.abs(targets) > targets * M))))
        objective, unsolved = np.empty(n_problems), np.arange(n_problems)
        step: Array = np.empty((0, V.shape[1]))
        before = step
        for n_steps in range(self.max_steps + 1):
            slack = slacks(targets[unsolved], M[unsolved])
            gradient, objective[unsolved], square = derivatives(
                V[unsolved], targets[unsolved], slack, loss_weight, lambda sums: self._weighted_sum(sums, double)
            )
            if n_steps:
                memory.add(unsolved, n_problems, step, gradient - before)
            above = square > 2 * tol * objective[unsolved]
            if n_steps == self.max_steps or not above.any():
                break
            unsolved, slack, before = pick(above, unsolved, slack, gradient)
            step = memory.direction(unsolved, before, inverse)
            change = self._margins(step, double)
            lengths = find_step_lengths(V[unsolved], step, slack, targets[unsolved] * change, loss_weight)[:, None]
            step *= lengths
            V[unsolved] += step
            M[unsolved] += lengths * change
            self.n_products += len(unsolved)
        self.most_steps = max(self.most_steps, n_steps)
        solution = Solved(V, M, start.n_folds, loss_weight, memory)
        return solution, objective.reshape(len(weights), -1) / self.mean_square, int(above.sum())

    def _inverse_hessian(self, curvature: float) -> Callable[[Array], Array]:
        """Multiply rows by the inverse of 1 + curvature Z'Z, the Hessian if all samples have this curvature."""
        curvature = max(curvature, 1e-30)  # 0 if no sample is on the wrong side of its margin
        if self._factored is not None and 2 / 3 < curvature / self._factored[0] < 3 / 2:
            return self._factored[1]
        self._factored = None  # freed before the next: with 20,000 features it takes 1.6 GB
        n_features, dtype = len(self._gram), self._gram.dtype
        added = float(np.finfo(dtype).eps)
        while True:
            matrix = np.empty((n_features + 1, n_features + 1), dtype, order="F")  # only the lower part is used
            np.multiply(self._gram, dtype.type(curvature), out=matrix[:-1, :-1])
            matrix[-1, :-1] = curvature * self.constant * self._sums
            matrix[-1, -1] = curvature * self.constant**2 * len(self.X)
            diagonal = np.einsum("ii->i", matrix)
            diagonal += 1
            diagonal *= 1 + added
            try:
                factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
                break
            except LinAlgError:  # caused by rounding: a larger diagonal is a worse preconditioner, but works
                added *= 10

        def inverse(rows: Array) -> Array:
            scale = np.abs(rows).max(axis=1, keepdims=True)  # so that nothing underflows in single precision
            scale[scale == 0] = 1
            found = cho_solve(factor, (rows / scale).astype(dtype).T, overwrite_b=True, check_finite=False)
            return found.T * scale

        self._factored = curvature, inverse
        return inverse

    def _gram_matrix(self) -> Array:
        """Return the lower part of Z'Z without the intercept, in double precision if that is cheap."""
        n_features = self.X.shape[1]
        dtype = np.dtype(np.float64 if n_features <= _MANY_FEATURES else np.float32)
        syrk = get_blas_funcs("syrk", dtype=dtype)
        rows, scale = (self._single, self._single_scale) if dtype == np.float32 else (self.X, self.mean_square**-0.5)
        gram = np.zeros((n_features, n_features), dtype, order="F")
        for some in row_blocks(len(rows), max(n_features // 4, self.block_elements // n_features)):
            block = (rows[some] * dtype.type(scale)).T
            gram = syrk(1.0, block, 1.0, gram, lower=1, overwrite_c=1)
        return gram

    def _fold_margins(self, solution: Solved) -> Array:
        margins = self._margins(solution.weights, False) if solution.margins is None else solution.margins
        return margins.reshape(solution.n_folds, len(self.signs), -1)

    def _margins(self, V: Array, double: bool) -> Array:
        root = np.sqrt(self.mean_square)
        if double:
            parts = [(V[:, :-1] / root) @ block.T for _, block in self._blocks(self.X)]
            margins = np.concatenate(parts, axis=1)
        else:
            margins = ((V[:, :-1] * self._single_scale).astype(np.float32) @ self._single.T).astype(np.float64)
        margins += V[:, -1:] * self.constant
        return margins

    def _weighted_sum(self, weights: Array, double: bool) -> Array:
        """Return sums of rows, in double precision within blocks or only from block to block."""
        found = np.empty((len(weights), self.X.shape[1] + 1))
        found[:, -1] = weights.sum(axis=1) * self.constant
        if double:
            total: Any = sum(weights[:, some] @ block for some, block in self._blocks(self.X))
            found[:, :-1] = total / np.sqrt(self.mean_square)
            return found
        single, total = weights.astype(np.float32), np.zeros((len(weights), self.X.shape[1]))
        for some in row_blocks(len(self.X), max(1, 4 * self.block_elements // self.X.shape[1])):
            total += single[:, some] @ self._single[some]
        found[:, :-1] = total * self._single_scale
        return found
