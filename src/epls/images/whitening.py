"""ZCA whitening, for learners that need it. EPLS does not."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.moments import center_and_scale, second_moments
from ..utils.fields import Floats, Saved
from ..utils.sklearn import POSITIVE, fit_context
from ..utils.threads import product, threads_for
from ..utils.types import Array


class ZCAWhitening(Saved, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Make features uncorrelated and equal in variance, with as little change as possible.

    x becomes (x - mean) V diag(1 / sqrt(eigenvalues + regularization)) V', with eigenvalues and eigenvectors V of the
    covariance matrix.

    Parameters
    ----------
    regularization : float, default=0.1
        Added to the eigenvalues, so that directions without signal are not amplified. The default is the value of
        Coates and Ng for contrast-normalised patches.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The mean of the training samples. It is subtracted from each sample.
    matrix_ : ndarray of shape (n_features, n_features)
        The symmetric whitening matrix. Centred samples are multiplied by it.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 2)) @ [[3, 1], [1, 1]]
    >>> white = ZCAWhitening(regularization=1e-6).fit_transform(X)
    >>> bool(np.allclose(np.cov(white.T), np.eye(2), atol=1e-3))
    True
    """

    saved: ClassVar[dict[str, Any]] = {"mean_": Floats("n_features"), "matrix_": Floats("n_features", "n_features")}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"regularization": [POSITIVE]}

    def __init__(self, regularization: float = 0.1) -> None:
        self.regularization = regularization

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: Any = None) -> ZCAWhitening:
        """Compute the mean and the covariance of the samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            At least two samples.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        data = np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2))
        mean, _ = center_and_scale(data)
        moments = second_moments(data, mean) / (len(data) - 1)
        with threads_for(moments.shape[0] ** 3):
            eigenvalues, vectors = np.linalg.eigh(moments)
            # A covariance has no negative eigenvalues, except by rounding.
            factors = 1 / np.sqrt(np.maximum(eigenvalues, 0) + self.regularization)
            self.mean_ = mean.astype(data.dtype)
            self.matrix_ = ((vectors * factors) @ vectors.T).astype(data.dtype)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Whiten samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The whitened samples: float32 for float32 samples, otherwise float64.
        """
        check_is_fitted(self)
        data = np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))
        return self.whitened(data)

    def whitened(self, X: Array) -> Array:
        """Do :meth:`transform` without its checks, which take longer than the work itself for small blocks."""
        return product(X - self.mean_.astype(X.dtype, copy=False), self.matrix_.astype(X.dtype, copy=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
