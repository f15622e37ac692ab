"""The base class of learners with one layer of units: their codes, and standardised mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..algorithm.activations import LOGISTIC, Activation
from ..algorithm.half import uses_half
from ..algorithm.layer import Buffer, UnitLayer, standardize
from ..data.coder import BlockEncoder
from ..data.samples import Samples
from ..utils.fields import COUNT, CURVE, Floats, Number
from ..utils.types import Array
from .base import Learner


class LayerLearner(Learner):
    """A learner whose codes are f(w·x + b) of centred and scaled samples."""

    #: The precision of the products in ``transform``: a parameter of EPLS.
    precision: str = "float32"
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
        """Return the layer of units that :meth:`transform` computes.

        Returns
        -------
        UnitLayer
            Weights, intercept, activation, mean and scale.
        """
        check_is_fitted(self)
        return UnitLayer(self.components_, self.intercept_, self._activation(), self.mean_, self.scale_)

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        """Return a function that creates encoders for samples of a type, one for each thread."""
        return self.as_layer().block_encoders(dtype, half=uses_half(self.precision))

    def _activation(self) -> Activation:
        return LOGISTIC


def standardized_batches(samples: Samples, batch_size: int, random: np.random.RandomState) -> Iterator[Array]:
    """Iterate over centred and scaled mini-batches, (n, n_features + 1), last column 1; each is valid until the next.

    The sizes of batches differ by at most one, because a mean over a small remainder would say little.
    """
    center, scale = samples.moments.center_and_scale()
    buffer = Buffer(samples.shape[1] + 1, samples.dtype)
    for X, rows in samples.epoch(random, batch_size, even=True):
        inputs = buffer.rows(len(rows))
        standardize(X, rows, center, scale, inputs)
        inputs[:, -1] = 1
        yield inputs
