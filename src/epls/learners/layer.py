"""A learner that is one layer of units, as its bare numbers: what dense encoding and other frameworks compute with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..activations import Activation

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
