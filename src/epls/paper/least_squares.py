"""A linear classifier with squared loss that chooses its penalty in closed form."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, eigh, eigvalsh

from ..evaluation.svm import OneVsAll
from ..solvers.symmetric import add_inner_products, factor_lower
from ..utils.sklearn import fit_context
from ..utils.threads import row_blocks
from ..utils.types import Array

# Penalties as multiples of the mean squared norm of the centred rows, in half decades. The error is smooth in the
# penalty and has one minimum, so the search walks from the middle, first to smaller penalties, then to larger ones
# unless it has found a smaller error by then. It turns back where the error has risen twice.
_RELATIVE_ALPHAS = np.logspace(2, -5, 15)
_MIDDLE = 4
_ENOUGH_RISES = 2
_EXACT_FEATURES = 4000  # up to here, the number of free parameters is exact; above, random vectors estimate it
_PROBES = 32
_LEAST_ROWS = 2048  # with fewer rows at a time, adding up their products takes as long as the products
_TRIANGLE_ROWS = 512
_BLOCK_ELEMENTS = 2**24  # values of samples that are centred in double precision at a time


class LeastSquaresCV(OneVsAll):
    """Linear one-vs-all classifier with squared loss that chooses its penalty by cross-validation.

    Minimises sum_i (y_i - w.x_i - b)^2 + alpha ||w||^2 for each class, with y = 1 for its samples and -1 for the
    others. It chooses the penalty with the least squared error in leave-one-out cross-validation, which has a closed
    form. With more samples than features, it uses generalised cross-validation, which approximates it. Both depend less
    on the particular samples than accuracy does. Features should be on a common scale (``StandardScaler``).

    Besides those of :class:`OneVsAll`, it learns ``alpha_``, the chosen penalty, and ``alphas_`` and ``errors_``: the
    penalties that were tried, in falling order, and their mean squared errors, summed over the classes.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> LeastSquaresCV:
        """Choose the penalty, then fit all samples with it."""
        data, _, signs = self._checked(X, y)
        targets = signs.T
        target_means = targets.mean(axis=0)
        kind = _ManyFeatures if len(data) <= data.shape[1] else _ManySamples
        problem = kind(data, targets - target_means)
        self.alphas_, self.errors_ = _walked(problem)
        self.alpha_ = float(self.alphas_[self.errors_.argmin()])
        coef = problem.coef(self.alpha_)
        self.coef_ = coef.astype(data.dtype)
        self.intercept_ = (target_means - coef @ problem.means).astype(data.dtype)
        return self


def _walked(problem: _ManyFeatures | _ManySamples) -> tuple[Array, Array]:
    """Return the penalties that were tried, in falling order, and their errors."""
    alphas = _RELATIVE_ALPHAS * problem.mean_square
    errors = {_MIDDLE: problem.error(alphas[_MIDDLE])}
    for numbers in (range(_MIDDLE + 1, len(alphas)), range(_MIDDLE - 1, -1, -1)):
        if min(errors.values()) < errors[_MIDDLE]:
            break
        n_rises = 0
        for number in numbers:
            error = problem.error(alphas[number])
            n_rises = n_rises + 1 if error >= min(errors.values()) else 0
            errors[number] = error
            if n_rises == _ENOUGH_RISES:
                break
    tried = sorted(errors)
    return alphas[tried], np.array([errors[number] for number in tried])


class _Problem:
    """Least squares with centred samples and targets, for any penalty.

    ``mean_square`` is the mean squared norm of the centred rows, or 1 if all rows are equal. A subclass has
    ``error(alpha)``, the squared error in cross-validation, and ``coef(alpha)``, the weights (n_classes, n_features).
    """

    def __init__(self, X: Array, targets: Array) -> None:
        self.X, self.targets = X, targets
        with np.errstate(over="ignore"):
            self.means: Array = X.mean(axis=0, dtype=np.float64)
            self._matrix = self._inner_products()
            square = float(np.trace(self._matrix)) / len(X)
        if not np.isfinite(square):
            raise ValueError("the features are too large to be squared: scale them, for example with a StandardScaler")
        self.mean_square = square or 1.0

    def _inner_products(self) -> Array:
        """Return the inner products of the centred rows or columns, in the lower triangle."""
        raise NotImplementedError


class _ManyFeatures(_Problem):
    """For at most as many samples as features: eigenvectors of the samples' inner products serve all penalties."""

    def __init__(self, X: Array, targets: Array) -> None:
        super().__init__(X, targets)
        self._values, self._vectors = eigh(self._matrix, driver="evd", overwrite_a=True)
        self._values = np.maximum(self._values, 0)
        self._rotated = self._vectors.T @ targets

    def _inner_products(self) -> Array:
        products: Array = np.zeros((len(self.X), len(self.X)))
        for some in row_blocks(self.X.shape[1], max(1, _BLOCK_ELEMENTS // len(self.X))):
            add_inner_products(products, self.X[:, some] - self.means[some])
        return products

    def error(self, alpha: float) -> float:
        inverse = 1 / (self._values + alpha)
        residuals = alpha * (self._vectors @ (inverse[:, None] * self._rotated))
        # One minus the influence of a sample on its own output. Its influence through the intercept is 1 / n.
        others = alpha * (np.square(self._vectors) @ inverse) - 1 / len(self.X)
        return float(np.square(residuals / np.maximum(others, 1e-12)[:, None]).sum(axis=1).mean())

    def coef(self, alpha: float) -> Array:
        duals = (self._vectors @ (self._rotated / (self._values + alpha)[:, None])).T
        blocks = row_blocks(self.X.shape[1], max(1, _BLOCK_ELEMENTS // len(self.X)))
        return np.concatenate([duals @ (self.X[:, some] - self.means[some]) for some in blocks], axis=1)


class _ManySamples(_Problem):
    """For more samples than features: a Cholesky factor of the features' inner products for each penalty."""

    def __init__(self, X: Array, targets: Array) -> None:
        super().__init__(X, targets)
        self._right = np.zeros((X.shape[1], targets.shape[1]))
        for some, block in self._centered():
            self._right += block.T @ targets[some]
        self._diagonal = np.diag(self._matrix).copy()
        exact = X.shape[1] <= _EXACT_FEATURES
        self._values = np.maximum(eigvalsh(self._matrix), 0) if exact else None
        self._probes = np.random.RandomState(0).choice([-1.0, 1.0], (X.shape[1], _PROBES))

    def _inner_products(self) -> Array:
        products: Array = np.zeros((self.X.shape[1], self.X.shape[1]))
        for _, centered in self._centered():
            add_inner_products(products, centered.astype(self.X.dtype).T)  # float32 is exact enough within a block
        return products

    def _centered(self) -> Any:
        for some in row_blocks(len(self.X), max(_LEAST_ROWS, _BLOCK_ELEMENTS // self.X.shape[1])):
            yield some, self.X[some] - self.means

    def _solved(self, alpha: float, right: Array) -> Array:
        """Solve with the penalty. The factor is kept in the upper triangle: a copy would double the memory."""
        for some in row_blocks(len(self._matrix), _TRIANGLE_ROWS):
            below = np.tril(self._matrix[some, some], -1)
            self._matrix[some, some] = below + below.T
            self._matrix[some, some.stop :] = self._matrix[some.stop :, some].T
        self._matrix[np.diag_indices_from(self._matrix)] = self._diagonal + alpha
        # LAPACK wants columns: for it, the upper triangle of the rows is a lower one.
        factor = self._matrix.T
        factor_lower(factor)
        solved: Array = cho_solve((factor, True), right, check_finite=False)
        return solved

    def error(self, alpha: float) -> float:
        n_samples, n_classes = self.targets.shape
        solved = self._solved(alpha, np.c_[self._right, self._probes])
        weights, probed = solved[:, :n_classes], solved[:, n_classes:]
        if self._values is None:
            kept = self.X.shape[1] - alpha * float((self._probes * probed).sum()) / _PROBES
        else:
            kept = float((self._values / (self._values + alpha)).sum())
        # The squared residuals without another pass over the samples: (X'X + alpha) weights = right.
        squares = np.square(self.targets).sum() - (weights * (self._right + alpha * weights)).sum()
        return max(float(squares), 0.0) / n_samples / (1 - (1 + kept) / n_samples) ** 2

    def coef(self, alpha: float) -> Array:
        return self._solved(alpha, self._right).T
