"""Learned layers as torch modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from ..algorithm.layer import FoldedLayer, layer_of
from ..images.features import ImageTransformer
from ..images.patches import patch_filters
from ..utils.types import Array
from .coder import ImageNetwork
from .engine import in_torch


def to_linear(model: Any) -> nn.Linear:
    """Return the net inputs w·x + b of a learned layer, as a module for raw samples.

    The weights contain centring and scaling. If the mean of the data is a thousand times their spread or more, this
    loses digits. In that case, centre the data first.

    Parameters
    ----------
    model : EPLS or another learner that is one layer of units
        A fitted model.

    Returns
    -------
    torch.nn.Linear
        A module of the model's type, float32 or float64.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS
    >>> to_linear(EPLS(20, max_iter=3).fit(load_digits().data))
    Linear(in_features=64, out_features=20, bias=True)
    """
    layer = layer_of(model)
    linear = nn.Linear(layer.weights.shape[1], len(layer.weights), dtype=_type(model))
    return _filled(linear, layer.weights, layer)


def to_conv2d(model: Any, patch_shape: tuple[int, ...], *, stride: int = 1) -> nn.Conv2d:
    """Return the net inputs of a learned layer at every position of an image, as a module.

    Parameters
    ----------
    model : EPLS or another learner that is one layer of units
        A model fitted to raw patches, each flattened row by row. If patches were normalised one by one, as in
        ``ImageFeatures``, use :func:`to_module`.
    patch_shape : (height, width) or (height, width, channels)
        The shape of a patch.
    stride : int, default=1
        The number of pixels from one patch to the next.

    Returns
    -------
    torch.nn.Conv2d
        A module from (N, channels, rows, columns) to (N, n_components, ...), of the model's type.
    """
    layer = layer_of(model)
    filters = patch_filters(layer.weights, patch_shape)
    conv = nn.Conv2d(filters.shape[1], len(filters), filters.shape[2:], stride=stride, dtype=_type(model))
    return _filled(conv, filters, layer)


def to_module(model: Any) -> nn.Module:
    """Return the ``transform`` of a model as a module.

    Parameters
    ----------
    model : EPLS, another learner that is one layer of units, ImageFeatures, or DeepFeatures
        A fitted model.

    Returns
    -------
    torch.nn.Sequential or ImageNetwork
        A module from samples (N, n_features) to codes, or from images (N, channels, height, width) to features.
    """
    if isinstance(model, ImageTransformer):
        return ImageNetwork(model.coders(), model.grid, model.mirror)
    return nn.Sequential(to_linear(model), in_torch(layer_of(model).activation).module())


def _filled(module: Any, weights: Array, layer: FoldedLayer) -> Any:
    """Return a module with the weights of a layer."""
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(np.ascontiguousarray(weights)))
        module.bias.copy_(torch.from_numpy(layer.intercept - layer.center))
    return module


def _type(model: Any) -> torch.dtype:
    return torch.float64 if model.components_.dtype == np.float64 else torch.float32
