"""A learner that is one layer of units, as its bare numbers: what dense encoding and other frameworks compute with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .activations import Activation

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Layer:
    """Outputs f(weights·x - center + intercept), for samples as they come: centring and scaling are in the numbers.

    Attributes
    ----------
    weights : ndarray of shape (n_components, n_features)
        The bases, divided by the scale of the data.
    center : ndarray of shape (n_components,)
        The projections of the mean sample.
    intercept : ndarray of shape (n_components,)
        The biases. With the mirrored bases (``split_sign``), outputs are f(-(weights·x - center) + intercept).
    activation : Activation
        The function f.
    """

    weights: Array
    center: Array
    intercept: Array
    activation: Activation

    def after(self, mean: Array, matrix: Array) -> Layer:
        """The layer that gives for x what this one gives for (x - mean) @ matrix."""
        weights = self.weights @ matrix.T
        return replace(self, weights=weights, center=self.center + weights @ mean)


def layer_of(model: Any) -> Layer:
    """The bare numbers of a fitted learner that is one layer of units."""
    if not hasattr(model, "as_layer"):
        raise ValueError(
            f"a {type(model).__name__} is not one layer of units: give a fitted EPLS, SparseAutoencoder or SparseRBM"
        )
    layer: Layer = model.as_layer()
    return layer


def patch_filters(weights: Array, patch_shape: tuple[int, ...]) -> Array:
    """Bases of flattened patches as filters (n_components, channels, height, width), as convolutions have them."""
    shape = (*patch_shape, 1) if len(patch_shape) == 2 else tuple(patch_shape)
    if len(shape) != 3 or int(np.prod(shape)) != weights.shape[1]:
        raise ValueError(
            f"the bases have {weights.shape[1]} values, which is not patch_shape={tuple(patch_shape)}: give (height, "
            f"width) or (height, width, channels) of the patches that they were learned from"
        )
    return np.ascontiguousarray(weights.reshape(-1, *shape).transpose(0, 3, 1, 2))
