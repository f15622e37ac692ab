"""Independent component analysis, with at most as many components as the samples have directions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.decomposition import FastICA

from ..data.moments import center_and_scale, second_moments
from ..data.samples import Samples
from ..utils.fields import COUNT, Floats
from ..utils.threads import product, threads_for
from ..utils.types import Array, Float64
from .base import Learner

# Relative to the largest variance. Directions below it have no signal; patches without their mean have one of these.
_NO_VARIANCE = 1e-10


class ICA(Learner):
    """Independent component analysis: a linear map to codes that are as independent of one another as possible.

    Whitens the samples, then finds a rotation of them with scikit-learn's parallel FastICA (Hyvärinen 1999). The
    rotation makes the mean of log cosh of each code differ as much as possible from that of a normal distribution. The
    codes W (x - mean) are signed, uncorrelated and have unit variance. There can be no more codes than features.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of components, at most the number of features and the number of samples. The same number of leading
        principal components is kept. None keeps all.
    max_iter : int, default=200
        The maximum number of iterations.
    tol : float, default=1e-4
        Learning stops early when no component of the whitened samples turns by more than this in an iteration, measured
        as 1 - cosine. If it never does, a ``ConvergenceWarning`` is issued. Normally distributed codes never converge,
        because every rotation of them is equally good.
    random_state : int, RandomState instance or None, default=None
        Determines the initial rotation.

    Attributes
    ----------
    components_ : ndarray of shape (n_components or fewer, n_features)
        The components W. There are fewer if the samples vary in fewer directions. Directions are dropped if their
        variance is below 1e-10 of the largest, or below the rounding error of the samples.
    mean_ : ndarray of shape (n_features,)
        The mean of the samples.
    n_iter_ : int
        The number of iterations.

    Examples
    --------
    >>> sources = np.random.default_rng(0).laplace(size=(5000, 2))
    >>> codes = ICA(random_state=0).fit_transform(sources @ [[1, 2], [1, -1]])
    >>> abs(np.corrcoef(codes.T, sources.T)[:2, 2:]).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    whitens = True
    complete = True
    in_one_step = True  # FastICA does not report its progress
    saved: ClassVar[dict[str, Any]] = Learner.saved | {"mean_": Floats("n_features"), "n_iter_": COUNT}

    def __init__(
        self, n_components: int | None = None, *, max_iter: int = 200, tol: float = 1e-4, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    mean_: Array

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        X = samples.array()
        most = min(X.shape)
        if self.n_components is not None and self.n_components > most:
            raise ValueError(
                f"n_components={self.n_components} is more than ICA can find in {len(X)} samples of {X.shape[1]} "
                f"features: give n_components of at most {most}, or None"
            )
        mean, scale = center_and_scale(X)
        # An upper bound for a sum over the features: patches minus their own mean vary by this much along (1, 1, ...,
        # 1).
        rounding = float(np.finfo(X.dtype).eps * X.shape[1] * (1 + np.abs(mean).max() / scale))
        whitening = _whitening(second_moments(X, mean, scale) / len(X), rounding)[: self.n_components]
        if len(whitening) == 0:
            raise ValueError("all samples are equal: ICA needs samples that differ")

        # FastICA's own whitening divides by zero variances, and drops directions that do not involve the first feature.
        white = product(X - mean.astype(X.dtype), (whitening / scale).T.astype(X.dtype))
        with threads_for(white.size * white.shape[1]):
            rotation = FastICA(whiten=False, max_iter=self.max_iter, tol=self.tol, random_state=random).fit(white)
        return {
            "components_": (rotation.components_ @ whitening / scale).astype(X.dtype),
            "mean_": mean.astype(X.dtype),
            "n_iter_": rotation.n_iter_,
        }

    def encode(self, X: Array) -> Array:
        return super().encode(X - self.mean_.astype(X.dtype, copy=False))


def _whitening(covariance: Float64, rounding: float) -> Float64:
    """Return a row for each direction in which samples vary by more than their ``rounding``, by falling variance."""
    variances, directions = np.linalg.eigh(covariance)
    varies = variances > max(_NO_VARIANCE * variances[-1], rounding**2)
    whitening: Float64 = (directions[:, varies] / np.sqrt(variances[varies])).T[::-1]
    return whitening
