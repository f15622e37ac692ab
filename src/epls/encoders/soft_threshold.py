"""Products with the components, minus a threshold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..algorithm.activations import RELU
from ..algorithm.layer import UnitLayer
from ..data.encoding import BlockEncoder
from ..data.moments import unit_rows
from ..kernels.codes import shrink
from ..utils.sklearn import NOT_NEGATIVE
from .base import Encoder


class SoftThresholdEncoder(Encoder):
    """Codes max(0, d·x - alpha), with components d scaled to unit norm: the encoder of Coates and Ng.

    Parameters
    ----------
    dictionary : fitted learner or array-like of shape (n_components, n_features)
        The components. ``ImageFeatures`` sets it.
    alpha : float, default=0.25
        The threshold. The default is the published value for whitened patches.
    split_sign : bool, default=True
        Whether the codes max(0, -d·x - alpha) are appended.

    Examples
    --------
    >>> SoftThresholdEncoder([[1.0, 0.0], [0.0, 1.0]], alpha=0.5).transform([[2.0, -1.0]])
    array([[1.5, 0. , 0. , 0.5]])
    """

    meta_parameters = ("alpha",)
    _parameter_constraints: ClassVar[dict[str, Any]] = Encoder._parameter_constraints | {"alpha": [NOT_NEGATIVE]}

    def __init__(self, dictionary: Any = None, *, alpha: float = 0.25, split_sign: bool = True) -> None:
        super().__init__(dictionary, split_sign=split_sign)
        self.alpha = alpha

    def as_layer(self) -> UnitLayer:
        """Return the codes as a layer of rectified linear units."""
        if not 0 <= self.alpha < np.inf:
            raise ValueError(f"alpha={self.alpha} must be a number of at least 0")
        weights = unit_rows(self.components().astype(np.float64))
        n_units, n_features = weights.shape
        return UnitLayer(weights, np.full(n_units, -float(self.alpha)), RELU, mean=np.zeros(n_features))

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        """Return a function that creates encoders for samples of a type."""
        columns = np.ascontiguousarray(self.as_layer().weights.T, dtype)
        threshold = dtype.type(self.alpha)
        return self.product_encoders(columns, lambda samples, products, codes: shrink(products, threshold, codes))
