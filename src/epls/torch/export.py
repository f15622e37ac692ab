"""Learned layers as torch modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from ..algorithm.layer import layer_of
from ..images.features import ImageTransformer
from ..images.patches import patch_filters
from .coder import ImageNetwork
from .engine import in_torch


def to_module(model: Any, *, patch_shape: tuple[int, ...] | None = None, stride: int = 1) -> nn.Module:
    """Return the ``transform`` of a model as a module for raw samples or images.

    The weights of a layer contain centring and scaling. If the mean of the data is a thousand times their spread or
    more, this loses digits. In that case, centre the data first.

    Parameters
    ----------
    model : EPLS, another learner that is one layer of units, ImageFeatures, or DeepFeatures
        A fitted model.
    patch_shape : (height, width) or (height, width, channels) or None, default=None
        For a learner of flattened patches. If given, the module computes the codes at every position of images. The
        learner must have been fitted to raw patches. If patches were normalised one by one, give the ``ImageFeatures``
        instead.
    stride : int, default=1
        With ``patch_shape``, the number of pixels from one patch to the next.

    Returns
    -------
    torch.nn.Sequential or ImageNetwork
        For a learner, a ``Linear`` or ``Conv2d``, which computes net inputs, and its activation, in the type of the
        model. It maps samples (N, n_features) to codes (N, n_components), or images (N, channels, rows, columns) to
        codes (N, n_components, ...). For features, a network from images (N, channels, height, width) to features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS
    >>> to_module(EPLS(20, max_iter=3).fit(load_digits().data))
    Sequential(
      (0): Linear(in_features=64, out_features=20, bias=True)
      (1): Sigmoid()
    )
    """
    if isinstance(model, ImageTransformer):
        if patch_shape is not None:
            raise ValueError("patch_shape is for a learner of patches; features of images have their own: leave it out")
        return ImageNetwork(model.coders(), model.grid, model.mirror)
    layer = layer_of(model)
    dtype = torch.float64 if model.components_.dtype == np.float64 else torch.float32
    weights = layer.weights
    if patch_shape is None:
        units: Any = nn.Linear(weights.shape[1], len(weights), dtype=dtype)
    else:
        weights = np.ascontiguousarray(patch_filters(weights, patch_shape))
        units = nn.Conv2d(weights.shape[1], len(weights), weights.shape[2:], stride=stride, dtype=dtype)
    with torch.no_grad():
        units.weight.copy_(torch.from_numpy(weights))
        units.bias.copy_(torch.from_numpy(layer.intercept - layer.center))
    return nn.Sequential(units, in_torch(layer.activation).module())
