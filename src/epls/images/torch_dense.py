"""Features of images in torch: what :class:`epls.ImageFeatures` computes, on any device and differentiable."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn
from torch.nn import functional

from ..algorithm.engines.torch.activations import in_torch
from ..algorithm.layer import patch_filters
from ..encoders.triangle import TriangleEncoder
from ..utils.types import Array, Indices
from .dense import patch_layer
from .pooling import PatchPositions, RegionGrid, smallest_side

if TYPE_CHECKING:
    from .collection import ImageCollection
    from .features import ImageFeatures


_STRIP_ELEMENTS = 2**22  # of patches and codes at a time


class DenseFeatures(nn.Module):
    """The ``transform`` of fitted image features as a module, for images of any size.

    Every patch is cut out and normalised as in NumPy. A convolution with the raw image, corrected for each patch's mean
    and variance, would need less memory, but in single precision the differences of large numbers cost bright patches
    of little contrast several digits. Large images are encoded in strips.

    Parameters
    ----------
    features : ImageFeatures
        Fitted, with an encoder that is "soft_threshold", "triangle", or "natural" with a layer of units.

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS, ImageFeatures
    >>> images = load_digits().images[:100]
    >>> features = ImageFeatures(EPLS(20, max_iter=3), patch_size=5, n_patches=2000, random_state=0).fit(images)
    >>> DenseFeatures(features)(torch.tensor(images[:, None], dtype=torch.float32)).shape
    torch.Size([100, 80])
    """

    def __init__(self, features: ImageFeatures) -> None:
        super().__init__()
        check_is_fitted(features)
        self.patch_size, self.stride, self.grid = features.patch_size, features.stride, features.grid
        self.n_channels = features.n_channels_
        self.contrast_floor = float(features.contrast_floor_)
        self.pooling, self.typical_code = features.pooling, float(features.typical_code_)
        self.mirror = features.mirror
        # Of a patch and its codes: what is held of every position that is looked at.
        self.n_elements = self.n_channels * self.patch_size**2 + features.encoder_.n_codes
        kind = _TriangleCodes if isinstance(features.encoder_, TriangleEncoder) else _LayerCodes
        self.encode = kind(features)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The features of images.

        Parameters
        ----------
        images : Tensor of shape (N, channels, height, width)
            Images, with values on the scale of those that the features were learned from.

        Returns
        -------
        Tensor of shape (N, grid * grid * n_codes)
            The features.
        """
        if self.mirror:
            return (self._pooled(images) + self._pooled(images.flip(3))) / 2
        return self._pooled(images)

    def _pooled(self, images: torch.Tensor) -> torch.Tensor:
        """The features of images, without those of mirror images."""
        sums = self.region_sums(images)
        if self.pooling == "sum":
            return sums.flatten(1)
        counts = self.regions(images).counts
        means = sums / torch.from_numpy(counts).to(sums.dtype).to(sums.device)[:, None]
        if self.pooling == "log":
            means = means.sign() * torch.log1p(means.abs() / self.typical_code)
        return means.flatten(1)

    def region_sums(self, images: torch.Tensor) -> torch.Tensor:
        """The sums of codes over each region, (N, n_regions, n_codes)."""
        regions = self.regions(images)
        columns = regions.column_cuts
        strip = max(1, _STRIP_ELEMENTS // (len(images) * columns[-1] * self.n_elements))
        sums = []
        for first, end in pairwise(regions.row_cuts):
            parts = []
            for row in range(first, end, strip):
                codes = self._codes(images, row, min(row + strip, end))
                parts.append(torch.stack([c.sum((2, 3)) for c in codes.split(np.diff(columns).tolist(), dim=3)], dim=1))
            sums.append(torch.stack(parts).sum(dim=0))
        return torch.cat(sums, dim=1)

    def _codes(self, images: torch.Tensor, row: int, end: int) -> torch.Tensor:
        """The codes (N, n_codes, rows, columns) of some rows of patches."""
        lines = images[:, :, row * self.stride : (end - 1) * self.stride + self.patch_size].to(self.encode.weight.dtype)
        patches = functional.unfold(lines, self.patch_size, stride=self.stride)
        patches = patches - patches.mean(dim=1, keepdim=True)
        patches = patches / (patches.square().mean(dim=1, keepdim=True) + self.contrast_floor).sqrt()
        return self.encode(patches).unflatten(2, (end - row, -1))

    def regions(self, images: torch.Tensor) -> RegionGrid:
        """The regions that the codes of images are pooled over."""
        least = smallest_side(self.patch_size, self.stride, self.grid)
        if images.ndim != 4 or images.shape[1] != self.n_channels or min(images.shape[2:]) < least:
            raise ValueError(
                f"images have shape {tuple(images.shape)}; needed is (N, {self.n_channels}, height, width) with a "
                f"height and width of at least {least}: channels come before rows and columns"
            )
        height, width = images.shape[2:]
        return RegionGrid(PatchPositions(height, width, self.patch_size, self.stride).shape, self.grid)


class _LayerCodes(nn.Module):
    """Codes of patches (N, n_values, L) that are outputs of a layer of units; whitening is in its numbers."""

    def __init__(self, features: ImageFeatures) -> None:
        super().__init__()
        layer = patch_layer(features)
        self.split_sign = features.encoder_.split_sign
        self.weight = nn.Parameter(_float32(_channels_first(layer.weights, features)))
        self.center = nn.Parameter(_float32(layer.center[:, None]))
        self.intercept = nn.Parameter(_float32(layer.intercept[:, None]))
        self.activation = in_torch(layer.activation).module()

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        net = self.weight @ patches
        codes: torch.Tensor = self.activation(net + (self.intercept - self.center))
        if self.split_sign:
            codes = torch.cat([codes, self.activation(self.intercept + self.center - net)], dim=1)
        return codes


class _TriangleCodes(nn.Module):
    """Codes max(0, mean distance - distance) of patches (N, n_values, L)."""

    def __init__(self, features: ImageFeatures) -> None:
        super().__init__()
        units, whitening = features.encoder_.components(), features.whitening_
        self.whitening: nn.Module = nn.Identity()
        if whitening is None:
            units = _channels_first(units, features)
        else:
            self.whitening = _Whitening(features)
        units = np.concatenate([units, -units]) if features.encoder_.split_sign else units
        self.weight = nn.Parameter(_float32(units))

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        samples = self.whitening(patches)
        squares = samples.square().sum(dim=1, keepdim=True)
        found = squares - 2 * (self.weight @ samples) + self.weight.square().sum(dim=1)[:, None]
        # Where a sample all but equals a unit, the difference of large numbers has no correct digit left.
        n, k, place = torch.nonzero(found < 1e-3 * squares, as_tuple=True)
        found = found.index_put((n, k, place), (samples[n, :, place] - self.weight[k]).square().sum(dim=1))
        distances = found.clamp(min=torch.finfo(found.dtype).tiny).sqrt()  # the root of 0 has no slope
        return (distances.mean(dim=1, keepdim=True) - distances).clamp(min=0)


class _Whitening(nn.Module):
    def __init__(self, features: ImageFeatures) -> None:
        super().__init__()
        whitening: Any = features.whitening_
        matrix = _channels_first(whitening.matrix_.T.astype(np.float64), features)
        self.register_buffer("matrix", _float32(matrix))
        self.register_buffer("offset", _float32(whitening.matrix_.T.astype(np.float64) @ whitening.mean_)[:, None])

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        return self.matrix @ patches - self.offset


def sums_and_counts(
    features: ImageFeatures, images: ImageCollection, start: int, device: torch.device
) -> Iterator[tuple[Array, Indices]]:
    """For each image, the sums of codes over its regions and the number of positions in each, found on a device."""
    module = DenseFeatures(features).to(device)
    for group in _of_one_size(images, start, module):
        pixels = torch.from_numpy(np.stack(group).astype(np.float32)).to(device).movedim(3, 1)
        with torch.inference_mode():
            sums = module.region_sums(pixels)
            if features.mirror:
                sums = torch.stack([sums, module.region_sums(pixels.flip(3))], dim=1)
        counts = module.regions(pixels).counts
        yield from ((found, counts) for found in sums.numpy(force=True))


def _of_one_size(images: ImageCollection, start: int, module: DenseFeatures) -> Iterator[list[NDArray[Any]]]:
    """Images that follow one another and have one size, as many as are worth a strip."""
    group: list[NDArray[Any]] = []
    for number in range(start, len(images)):
        image = images[number]
        n_pixels = image.shape[0] * image.shape[1] / module.stride**2
        if group and (
            image.shape != group[0].shape or (len(group) + 1) * n_pixels * module.n_elements > _STRIP_ELEMENTS
        ):
            yield group
            group = []
        group.append(image)
    if group:
        yield group


def _channels_first(rows: Array, features: ImageFeatures) -> Array:
    """Values of patches in the order in which torch cuts patches out."""
    shape = (features.patch_size, features.patch_size, features.n_channels_)
    return patch_filters(rows, shape).reshape(rows.shape)


def _float32(array: Array) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float32)
