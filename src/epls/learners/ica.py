"""Independent component analysis: as many components as the samples have directions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.decomposition import FastICA

from ..data.moments import center_and_scale, second_moments
from ..data.samples import Samples
from ..utils.constraints import AT_LEAST_ONE, NOT_NEGATIVE
from ..utils.fields import COUNT, Floats
from ..utils.types import Array, Float64
from .base import Learner

# Of the largest variance: a direction with less has no signal. Patches without their mean have one such direction.
_NO_VARIANCE = 1e-10


class ICA(Learner):
    """Independent component analysis: codes that are as independent of one another as a linear map can make them.

    Whitens the samples, then finds the rotation that makes the mean of log cosh of every code differ most from a normal
    distribution's, by scikit-learn's parallel FastICA (Hyvärinen 1999). The codes W (x - mean) are signed, uncorrelated
    and of unit variance. There can be no more of them than features.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of components, at most that of the features and that of the samples: as many leading principal
        components are kept. None keeps all.
    max_iter : int, default=200
        The largest number of iterations.
    tol : float, default=1e-4
        Learning ends before ``max_iter`` if, in an iteration, no component of the whitened samples turned further than
        this (1 - the cosine). If that is not reached, a ``ConvergenceWarning`` says so; codes that are normally
        distributed never do, as every rotation of them is as good.
    random_state : int, RandomState instance or None, default=None
        Decides the rotation at the start.

    Attributes
    ----------
    components_ : ndarray of shape (n_components or fewer, n_features)
        The components W. There are fewer if the samples vary in fewer directions: those whose variance is below 1e-10
        of the largest, or below what rounding the samples makes of it, are left out.
    mean_ : ndarray of shape (n_features,)
        The mean of the samples.
    n_iter_ : int
        The number of iterations.
    n_features_in_ : int
        The number of features.

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
    saved: ClassVar[dict[str, Any]] = Learner.saved | {"mean_": Floats("n_features"), "n_iter_": COUNT}
    _parameter_constraints: ClassVar[dict[str, Any]] = Learner._parameter_constraints | {
        "max_iter": [AT_LEAST_ONE],
        "tol": [NOT_NEGATIVE],
    }

    def __init__(
        self, n_components: int | None = None, *, max_iter: int = 200, tol: float = 1e-4, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    mean_: Array

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        """Learn, and return the attributes of the fitted estimator by name."""
        X = samples.array()
        most = min(X.shape)
        if self.n_components is not None and self.n_components > most:
            raise ValueError(
                f"n_components={self.n_components} is more than ICA can find in {len(X)} samples of {X.shape[1]} "
                f"features: give n_components of at most {most}, or None"
            )
        mean, scale = center_and_scale(X)
        # At most, of a sum over the features: patches whose own mean was subtracted vary by this along (1, 1, ..., 1).
        rounding = float(np.finfo(X.dtype).eps * X.shape[1] * (1 + np.abs(mean).max() / scale))
        whitening = _whitening(second_moments(X, mean, scale) / len(X), rounding)[: self.n_components]
        if len(whitening) == 0:
            raise ValueError("all samples are equal: ICA has no direction to find")

        # FastICA's own whitening divides by variances of 0, and drops directions without a part of the first feature.
        white = (X - mean.astype(X.dtype)) @ (whitening / scale).T.astype(X.dtype)
        for _ in self.epochs(1):  # FastICA does not tell how far it is
            rotation = FastICA(whiten=False, max_iter=self.max_iter, tol=self.tol, random_state=random).fit(white)
        return {
            "components_": (rotation.components_ @ whitening / scale).astype(X.dtype),
            "mean_": mean.astype(X.dtype),
            "n_iter_": rotation.n_iter_,
        }

    def encode(self, X: Array) -> Array:
        """The codes of some samples."""
        codes: Array = (X - self.mean_.astype(X.dtype, copy=False)) @ self.components_.T.astype(X.dtype, copy=False)
        return codes


def _whitening(covariance: Float64, rounding: float) -> Float64:
    """What makes samples white, one row for each direction in which they vary, from the largest variance on.

    ``rounding`` is the error of a product of a sample and a direction.
    """
    variances, directions = np.linalg.eigh(covariance)
    varies = variances > max(_NO_VARIANCE * variances[-1], rounding**2)
    whitening: Float64 = (directions[:, varies] / np.sqrt(variances[varies])).T[::-1]
    return whitening
