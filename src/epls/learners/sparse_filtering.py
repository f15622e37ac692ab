"""Sparse filtering: features that are sparse for each sample and equally active, with no other objective."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..data.moments import second_moments
from ..data.samples import Samples
from ..kernels.sparsity import sparse_filtering_codes, sparse_filtering_derivatives
from ..solvers.lbfgs import minimize_over_epochs, sums_over_blocks
from ..utils.fields import COUNT, CURVE, Floats
from ..utils.threads import product
from ..utils.types import Array, Float64
from .base import Learner

_EPSILON = 1e-8  # as published; smooths the absolute value at 0, where it has no derivative


class SparseFiltering(Learner):
    """Sparse filtering: few codes are large for each sample, and all codes are large equally often.

    Minimises the mean over the samples of the sum of their codes. The codes are soft absolute values F = sqrt((w·x)^2 +
    1e-8). Each feature is divided by its norm over all training samples, then each sample by its norm over the features
    (Ngiam et al. 2011). It does not model the data: the codes need not reconstruct them.

    Every iteration of L-BFGS uses all samples. The samples are not centred. They are divided by a single number, so
    their unit does not matter.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of components, at most the number of samples. None uses 100, or the number of samples if less.
    max_iter : int, default=200
        The maximum number of iterations. Too few reduce accuracy; too many rarely do.
    tol : float, default=1e-7
        Learning stops early when an iteration reduces the objective by no more than this fraction of its first value.
    random_state : int, RandomState instance or None, default=None
        Determines the initial components, which are drawn from a normal distribution.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components w.
    feature_norms_ : ndarray of shape (n_components,)
        The norms of the features over the training samples.
    loss_curve_ : list of float
        The objective after each iteration: from 1, with one active unit per sample, to sqrt(n_components).
    n_iter_ : int
        The number of iterations.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> codes = SparseFiltering(20, max_iter=50, random_state=0).fit_transform(X)
    >>> bool(np.allclose((codes**2).sum(axis=1), 1))
    True
    """

    saved: ClassVar[dict[str, Any]] = Learner.saved | {
        "feature_norms_": Floats("n_components", above=0),
        "n_iter_": COUNT,
        "loss_curve_": CURVE,
    }

    def __init__(
        self, n_components: int | None = None, *, max_iter: int = 200, tol: float = 1e-7, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    feature_norms_: Array

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        X = samples.array()
        start = random.standard_normal((self.checked_n_components(len(X)), X.shape[1]))
        moments = second_moments(X)
        scale = float(np.sqrt(np.trace(moments) / X.size)) or 1.0

        def scaled_objective(components: Float64) -> tuple[float, Float64]:
            value, gradient = objective(components / scale, X, moments)
            return value, gradient / scale

        components, curve = minimize_over_epochs(scaled_objective, start, self.epochs(self.max_iter), self.tol)
        components /= scale
        return {
            "components_": components.astype(X.dtype),
            "feature_norms_": feature_norms(components, moments, len(X)).astype(X.dtype),
            "loss_curve_": curve,
            "n_iter_": max(len(curve), 1),
        }

    def encode(self, X: Array) -> Array:
        codes = super().encode(X)
        sparse_filtering_codes(codes, (1 / self.feature_norms_).astype(X.dtype), X.dtype.type(_EPSILON))
        return codes


def feature_norms(components: Float64, moments: Float64, n_samples: int, epsilon: float = _EPSILON) -> Float64:
    """Return the norms over the samples of the features sqrt((w·x)^2 + epsilon); ``moments`` is X'X.

    The square of a feature contains no root. Its sum over the samples is w X'X w' + n_samples * epsilon, which needs no
    pass over the samples.
    """
    squares: Float64 = np.einsum("ij,ij->i", product(components, moments), components) + n_samples * epsilon
    return np.sqrt(squares)


def objective(components: Float64, X: Array, moments: Float64, epsilon: float = _EPSILON) -> tuple[float, Float64]:
    """Return the mean over the samples of the sum of their codes, and its gradient with respect to the components.

    Products with the samples are computed in the type of the samples.
    """
    norms = feature_norms(components, moments, len(X), epsilon)
    inverse_norms = (1 / norms).astype(X.dtype)

    def derivatives(products: Array) -> Float64:
        through_norms = np.empty(len(components), X.dtype)
        value = sparse_filtering_derivatives(products, inverse_norms, X.dtype.type(epsilon), through_norms)
        return np.concatenate([[value], through_norms], dtype=np.float64)

    sums, gradient = sums_over_blocks(X, components.astype(X.dtype), derivatives)
    # A feature's norm also grows with its component: d norm / d w = w X'X / norm.
    gradient -= (sums[1:] / norms**2)[:, None] * product(components, moments)
    return float(sums[0]) / len(X), gradient / len(X)
