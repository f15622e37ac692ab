"""What the learners that are one layer of units share: their codes, and standardised mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..algorithm.activations import LOGISTIC, Activation
from ..algorithm.layer import Buffer, UnitLayer, standardize
from ..data.coder import BlockEncoder
from ..data.samples import Samples
from ..utils.fields import COUNT, CURVE, Floats, Number
from ..utils.types import Array
from .base import Learner


class LayerLearner(Learner):
    """A learner whose codes are f(w·x + b) of centred and scaled samples."""

    intercept_: Array
    mean_: Array
    scale_: float
    loss_curve_: list[float]
    n_iter_: int
    saved: ClassVar[dict[str, Any]] = {
        "components_": Floats("n_components", "n_features"),
        "intercept_": Floats("n_components"),
        "mean_": Floats("n_features"),
        "scale_": Number(above=0),
        "loss_curve_": CURVE,
        "n_iter_": COUNT,
    }

    def as_layer(self) -> UnitLayer:
        """The bare numbers of :meth:`transform`.

        Returns
        -------
        UnitLayer
            Weights, intercept, activation, mean and scale.
        """
        check_is_fitted(self)
        return UnitLayer(self.components_, self.intercept_, self._activation(), self.mean_, self.scale_)

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        """What makes functions from samples of a type to codes, one for each thread."""
        return self.as_layer().block_encoders(dtype)

    def _activation(self) -> Activation:
        return LOGISTIC


def standardized_batches(samples: Samples, batch_size: int, random: np.random.RandomState) -> Iterator[Array]:
    """Centred and scaled mini-batches of an epoch, (n, n_features + 1), the last column 1; each valid until the next.

    Batches have equal sizes, to within one: a mean over the few samples of a remainder would say nothing.
    """
    center, scale = samples.moments.center_and_scale()
    buffer = Buffer(samples.shape[1] + 1, samples.dtype)
    for X, rows in samples.epoch(random, batch_size, even=True):
        inputs = buffer.rows(len(rows))
        standardize(X, rows, center, scale, inputs)
        inputs[:, -1] = 1
        yield inputs
