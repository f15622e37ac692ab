"""What the learners of logistic units that are trained by mini-batches share: the batches, and the codes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..algorithm.activations import LOGISTIC
from ..algorithm.engines.numpy import apply_activation, gather_batch
from ..algorithm.layer import Layer
from ..data.moments import center_and_scale
from ..utils.threads import RowThreads
from .base import Learner

Array = NDArray[np.floating]


class Minibatches:
    """Centred and scaled samples, some at a time, in a new order each epoch.

    Batches have equal sizes, to within one: a mean over the few samples of a remainder would say nothing.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The samples, which stay as they are.
    batch_size : int
        The most samples of a batch.
    """

    def __init__(self, X: Array, batch_size: int) -> None:
        self.X = X
        self.center, self.scale, n_samples = center_and_scale([X])
        self.n_batches = -(-n_samples // batch_size)
        self.n_rows = -(-n_samples // self.n_batches)
        self._inputs = np.ones((self.n_rows, X.shape[1] + 1), X.dtype)

    def epoch(self, random: np.random.RandomState) -> Iterator[Array]:
        """Inputs of shape (n, n_features + 1), the last column 1; valid until the next."""
        for indices in np.array_split(random.permutation(len(self.X)), self.n_batches):
            inputs = self._inputs[: len(indices)]
            gather_batch(self.X, indices, self.center, self.scale, inputs)
            yield inputs

    def n_epochs(self, max_iter: int | None, fewest_epochs: int, fewest_steps: int) -> int:
        """``max_iter``; None is the fewest epochs that are also enough steps."""
        return max_iter or max(fewest_epochs, -(-fewest_steps // self.n_batches))


class LogisticLearner(Learner):
    """A learner whose codes are f(w·x + b) of centred and scaled samples, f being the logistic function."""

    intercept_: Array
    mean_: Array
    scale_: float
    loss_curve_: list[float]
    n_iter_: int
    _saved_arrays: ClassVar[tuple[str, ...]] = ("components_", "intercept_", "mean_")
    _saved_values: ClassVar[tuple[str, ...]] = ("scale_", "loss_curve_", "n_iter_")

    def as_layer(self) -> Layer:
        """The bare numbers of :meth:`transform`, in which centring and scaling are contained.

        Returns
        -------
        Layer
            weights, center, intercept and activation, in float64.
        """
        check_is_fitted(self)
        weights = self.components_.astype(np.float64) / self.scale_
        return Layer(weights, weights @ self.mean_, self.intercept_.astype(np.float64), LOGISTIC)

    def _codes(self, X: Array) -> Array:
        # Centred first, unlike in a layer: of samples far from 0, float32 would lose what makes them differ.
        inputs = np.empty_like(X)
        gather_batch(X, np.arange(len(X)), self.mean_, self.scale_, inputs)
        codes = inputs @ self.components_.T.astype(X.dtype, copy=False)
        codes += self.intercept_.astype(X.dtype, copy=False)
        with RowThreads() as threads:
            apply_activation(LOGISTIC, codes, threads)
        return codes

    def _restore_fitted_state(self, arrays: dict[str, Array], plain: dict[str, Any]) -> None:
        super()._restore_fitted_state(arrays, plain)
        if not (isinstance(self.scale_, float) and 0 < self.scale_ < np.inf):
            raise ValueError(f"scale_={self.scale_!r} must be a finite number above 0")
        if not (isinstance(self.loss_curve_, list) and isinstance(self.n_iter_, int)):
            raise ValueError("loss_curve_ or n_iter_ is not what a model has")

    def _shapes(self, n_components: int, n_features: int) -> dict[str, tuple[int, ...]]:
        return {"intercept_": (n_components,), "mean_": (n_features,)}
