"""Learn a convolutional layer from whole images in one call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import nn

from ..algorithm.engines.torch.activations import in_torch
from ..algorithm.layer import layer_of
from ..images.patches import Preparation, contrast_floor_of, patches_per_image, sample_patches, usual_n_patches
from ..images.reading import ImageCollection
from ..images.samples import ImagePatchSamples
from ..learners.epls import EPLS
from .export import conv2d_of

_RANGE_PATCHES = 1000  # enough to estimate the range of the pixels
_FAR_ABOVE = 2.0**34  # times Coates and Ng's floor: then the variance of a patch is lost in rounding


def fit_convolution(
    images: torch.Tensor | Sequence[Any],
    n_components: int,
    kernel_size: int,
    *,
    stride: int = 1,
    n_patches: int | None = None,
    random_state: Any = None,
    **settings: Any,
) -> nn.Sequential:
    """Learn a convolutional layer with EPLS, without labels. Each mini-batch consists of patches of one image.

    The mean of each patch is subtracted, so units do not depend on brightness. Contrast is not normalised, because a
    convolution cannot divide by it (:class:`epls.ImageFeatures` does both). The weights contain these steps, so the
    layer accepts raw images. Each image provides one mini-batch of patches from random positions, or several if there
    are few images.

    For several layers, or layers of another kind, train a network with :class:`EPLSLoss`.

    Parameters
    ----------
    images : Tensor of shape (N, channels, height, width), or sequence of Tensors of shape (channels, height, width)
        Images. The images of a sequence may have different sizes, but each must be at least as large as a patch. A
        ``Dataset`` of torch is also supported; for pairs (image, label), the image is used. Images are read one at a
        time, again in every epoch.
    n_components : int
        The number of units: the number of output channels.
    kernel_size : int
        Height and width of a patch.
    stride : int, default=1
        The number of pixels from patch to patch in the returned layer. Training uses patches from all positions.
    n_patches : int or None, default=None
        The number of patches in an epoch. None uses 100 for each unit, and at least 50,000.
    random_state : int, RandomState instance or None, default=None
        Determines the patches, the first weights and the order of the images.
    **settings
        Other parameters of :class:`epls.EPLS`, such as ``max_iter`` or ``device``.

    Returns
    -------
    torch.nn.Sequential
        A ``Conv2d`` with biases, followed by the activation. It maps images (N, channels, rows, columns) to outputs (N,
        n_components, ...), in float32 on the CPU.

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> images = torch.tensor(load_digits().images[:, None], dtype=torch.float32)
    >>> layer = fit_convolution(images, 20, 5, n_patches=4000, max_iter=3, random_state=0)
    >>> layer
    Sequential(
      (0): Conv2d(1, 20, kernel_size=(5, 5), stride=(1, 1))
      (1): Sigmoid()
    )
    >>> layer(images).shape
    torch.Size([1797, 20, 4, 4])
    """
    random = check_random_state(random_state)
    model = EPLS(n_components, random_state=random.randint(2**31 - 1), **settings)
    collection = ImageCollection(_ChannelsLast(images), kernel_size)  # type: ignore[arg-type]
    n_patches = n_patches or usual_n_patches(model)
    pixels = sample_patches(collection, _RANGE_PATCHES, kernel_size, random_state=random)
    # Patches are divided by sqrt(variance + floor). A floor far above the variance leaves the contrast unchanged. Its
    # root is a power of two, so nothing is rounded.
    root = 2.0 ** math.ceil(math.log2(contrast_floor_of(pixels) * _FAR_ABOVE) / 2)
    of_image = patches_per_image(model, n_patches, len(collection))
    sizes = {"patch_size": kernel_size, "n_patches": n_patches, "patches_per_image": of_image}
    model.fit_samples(ImagePatchSamples(collection, Preparation(root**2), random=random, **sizes))

    n_values = kernel_size**2 * collection.n_channels
    without_mean = (np.eye(n_values) - 1 / n_values) / root
    layer = layer_of(model).after(np.zeros(n_values), without_mean)
    conv = conv2d_of(layer, (kernel_size, kernel_size, collection.n_channels), stride, torch.float32)
    return nn.Sequential(conv, in_torch(layer.activation).module())


class _ChannelsLast:
    """Images of torch as arrays (height, width, channels), converted on access."""

    def __init__(self, images: Any) -> None:
        if isinstance(images, torch.Tensor) and images.ndim != 4:
            raise ValueError(
                f"images have shape {tuple(images.shape)}, but must have shape (N, channels, height, width) or be a "
                f"sequence of single images: channels come before rows and columns"
            )
        if not hasattr(images, "__len__") or not hasattr(images, "__getitem__"):
            raise TypeError(f"images must be a tensor, a sequence of tensors or a Dataset, got {type(images).__name__}")
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, number: int) -> NDArray[Any]:
        item = self._images[number]
        image = item[0] if isinstance(item, tuple | list) else item
        if not isinstance(image, torch.Tensor) or image.ndim != 3:
            kind = tuple(image.shape) if isinstance(image, torch.Tensor) else type(image).__name__
            raise ValueError(f"image {number} must be a tensor of shape (channels, height, width), got {kind}")
        array: NDArray[Any] = image.movedim(0, 2).numpy(force=True)
        return array
