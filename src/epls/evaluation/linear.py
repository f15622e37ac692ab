"""The common base of linear one-vs-all classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..utils.threads import product
from ..utils.types import Array


class OneVsAll(ClassifierMixin, BaseEstimator):
    """A classifier whose fitted ``coef_`` and ``intercept_`` have a row for each class, or one for two classes."""

    classes_: NDArray[Any]
    coef_: Array
    intercept_: Array

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[np.intp], Array]:
        """Return the samples, the numbers of their classes, and for each problem 1 or -1 for each sample.

        Sets ``classes_``.
        """
        data, labels = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, labels = np.unique(labels, return_inverse=True)
        if len(self.classes_) == 1:
            raise ValueError(
                f"all {len(data)} samples belong to one class, {self.classes_[0]!r}, but a classifier needs two or "
                f"more: give samples of another class too"
            )
        positive = np.arange(len(self.classes_))[1 if len(self.classes_) == 2 else 0 :, None]
        return data, labels, np.where(labels == positive, 1.0, -1.0)

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the margins w.x + b.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            The margin of each class, or of the second class if there are two.
        """
        check_is_fitted(self)
        data = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        margins = product(data, self.coef_.T.astype(data.dtype, copy=False))
        margins += self.intercept_.astype(data.dtype, copy=False)
        return margins[:, 0] if len(self.classes_) == 2 else margins

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class with the largest margin.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            The predicted label of each sample.
        """
        margins = self.decision_function(X)
        return chosen_labels(self.classes_, margins)


def chosen_labels(classes: NDArray[Any], margins: Array) -> NDArray[Any]:
    """Return the label of the largest margin for each sample; a single margin is that of the second of two classes."""
    return classes[(margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)]
