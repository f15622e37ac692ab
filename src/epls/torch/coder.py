"""Features of images in torch, on any device and differentiable: what :mod:`epls.images.coder` computes in NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from ..images.coder import GroupCoder, PatchCoder
from ..images.patches import patch_filters
from ..images.pooling import RegionGrid, n_features_of, require_map, smallest_side
from ..images.reading import ImageCollection
from ..images.stack import layers_up_to
from ..utils.types import Array
from .engine import in_torch, resolve_device

_STRIP_ELEMENTS = 2**22  # of patches and codes at a time


class ImageNetwork(nn.Module):
    """The ``transform`` of fitted image features as a network, for images of any size.

    Weights, centers and biases of all layers are parameters, so that a loss on the features trains them further. The
    groups of channels, the contrast floors and the typical codes stay as they were learned; the ``state_dict`` has
    them. :func:`to_module` makes the network of a model.

    Parameters
    ----------
    coders : sequence of PatchCoder
        How each layer encodes its images, from the images upwards; see :meth:`epls.DeepFeatures.coders`. Encoders must
        be "soft_threshold", "triangle", or "natural" with a layer of units.
    grid : int, default=2
        Codes are pooled over grid x grid regions.
    mirror : bool, default=False
        Whether the features of an image and of its mirror image are averaged.

    Attributes
    ----------
    layers : torch.nn.ModuleList
        The layers, from the images upwards; each has ``groups``, one for each group of channels.
    n_features : int
        The number of features of an image.

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS, DeepFeatures, Layer
    >>> images = load_digits().images[:500]
    >>> first = Layer(EPLS(20, max_iter=3), patch_size=3, pool=2, n_patches=2000)
    >>> second = Layer(EPLS(10, max_iter=3), patch_size=2, n_groups=3, group_size=8, n_patches=2000)
    >>> network = ImageNetwork(DeepFeatures([first, second], random_state=0).fit(images).coders())
    >>> pixels = torch.tensor(images[:100, None], dtype=torch.float32)
    >>> network(pixels).shape
    torch.Size([100, 200])
    >>> network.maps(pixels, layer=2).shape
    torch.Size([100, 30, 1, 1])
    """

    def __init__(self, coders: Sequence[PatchCoder], grid: int = 2, mirror: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(CoderModule(coder) for coder in coders)
        self.grid, self.mirror, self.n_channels = grid, mirror, coders[0].n_channels
        self.n_features = n_features_of(sum(coder.n_codes for coder in coders), grid)
        self._geometries = [coder.geometry for coder in coders]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Compute the features of images.

        Parameters
        ----------
        images : Tensor of shape (N, channels, height, width)
            Images, with values on the scale of those that the features were learned from.

        Returns
        -------
        Tensor of shape (N, n_features)
            The features of the first layer, region by region, then those of the next.
        """
        return self.views(images).mean(dim=1)

    def views(self, images: torch.Tensor) -> torch.Tensor:
        """Compute features (N, n_views, n_features): of images and, if ``mirror`` is set, of their mirror images."""
        self._check(images, smallest_side(self._geometries, self.grid))
        views = [images, images.flip(3)] if self.mirror else [images]
        return torch.stack([self._features(view) for view in views], dim=1)

    def maps(self, images: torch.Tensor, layer: int = 1) -> torch.Tensor:
        """Compute the maps of images: the inputs of the layer above.

        Parameters
        ----------
        images : as for :meth:`forward`
            Images.
        layer : int, default=1
            The number of the layer. Layer 1 is the one that sees the images.

        Returns
        -------
        Tensor of shape (N, n_codes, rows, columns)
            The pooled codes. Those of ``DeepFeatures.maps`` have the codes last.
        """
        modules = layers_up_to(layer, list(self.layers))
        self._check(images, smallest_side(self._geometries[:layer], 1, with_map=True))
        for module in modules:
            images = module(images, 1, with_map=True)[1]
        return images

    def _features(self, images: torch.Tensor) -> torch.Tensor:
        found = []
        for layer in self.layers:
            features, images = layer(images, self.grid, with_map=layer is not self.layers[-1])
            found.append(features.flatten(1))
        return torch.cat(found, dim=1)

    def _check(self, images: torch.Tensor, least: int) -> None:
        if images.ndim != 4 or images.shape[1] != self.n_channels or min(images.shape[2:]) < least:
            raise ValueError(
                f"images have shape {tuple(images.shape)}, but must have shape (N, {self.n_channels}, height, width) "
                f"with a height and width of at least {least}: channels come before rows and columns"
            )

    def n_elements(self, height: int, width: int) -> float:
        """Return roughly how many numbers an image of some size takes at a time."""
        most = 0.0
        for layer in self.layers:
            rows, columns = layer.geometry.positions(height, width)
            most = max(most, rows * columns * layer.n_elements)
            height, width = (max(0, side) for side in layer.geometry.map_shape(height, width))
            most = max(most, rows * width * layer.n_codes)
        return most


class CoderModule(nn.Module):
    """One layer: the codes of each group of channels at all positions, pooled to features and to maps.

    Every patch is cut out and normalised as in NumPy. A convolution with the raw image, corrected for each patch's mean
    and variance, would need less memory, but in single precision the differences of large numbers cost bright patches
    of little contrast several digits. Large images are encoded in strips.
    """

    channels: torch.Tensor | None

    def __init__(self, coder: PatchCoder) -> None:
        super().__init__()
        self.geometry, self.n_codes = coder.geometry, coder.n_codes
        self.pooling, self.map_pooling = coder.pooling, coder.map_pooling
        self.groups = nn.ModuleList(
            (_UnitCodes if group.centers is None else _TriangleCodes)(group, coder.patch_shape)
            for group in coder.groups
        )
        self.register_buffer("channels", None if coder.channels is None else torch.tensor(coder.channels))
        # The memory for a position: the values of its patch, and its codes.
        self.n_elements = int(np.prod(coder.patch_shape)) + max(group.n_codes for group in coder.groups)

    def forward(
        self, images: torch.Tensor, grid: int, with_map: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the features (N, grid * grid, n_codes) of images, and their maps (N, n_codes, rows, columns)."""
        regions = RegionGrid(self.geometry.positions(*images.shape[2:]), grid)
        if with_map:  # rows are pooled last
            require_map(regions.row_cuts[-1], self.geometry.map_shape(*images.shape[2:])[1], self.n_codes)
        features, maps = [], []
        for number, group in enumerate(self.groups):
            part = images if self.channels is None else images[:, self.channels[number]]
            strips: list[torch.Tensor] = []
            sums = self._sums(group, part, regions, strips if with_map else None)
            features.append(self._pooled(group, sums, regions))
            if with_map:  # a strip ends anywhere in a cell, so rows are pooled last
                pooled = self._over_cells(torch.cat(strips, dim=2), 2)
                maps.append(group.log_scaled(pooled) if self.map_pooling == "log" else pooled / group.typical_code)
        return torch.cat(features, dim=2), torch.cat(maps, dim=1) if with_map else None

    def _sums(
        self, group: _PatchCodes, images: torch.Tensor, regions: RegionGrid, strips: list[torch.Tensor] | None
    ) -> torch.Tensor:
        """Return the sums (N, n_regions, n_codes) of codes over each region; add to ``strips`` those for the map."""
        columns = regions.column_cuts
        strip = max(1, _STRIP_ELEMENTS // (len(images) * columns[-1] * self.n_elements))
        sums = []
        for first, end in pairwise(regions.row_cuts):
            parts = []
            for row in range(first, end, strip):
                codes = self._codes(group, images, row, min(row + strip, end))
                parts.append(torch.stack([c.sum((2, 3)) for c in codes.split(np.diff(columns).tolist(), dim=3)], dim=1))
                if strips is not None:
                    strips.append(self._over_cells(codes, 3))
            sums.append(torch.stack(parts).sum(dim=0))
        return torch.cat(sums, dim=1)

    def _over_cells(self, codes: torch.Tensor, axis: int) -> torch.Tensor:
        """Pool codes (N, n_codes, rows, columns) over one side of the cells of a map."""
        windows = codes.unfold(axis, self.geometry.pool, self.geometry.pool_stride)
        return windows.amax(dim=-1) if self.map_pooling == "max" else windows.mean(dim=-1)

    def _codes(self, group: _PatchCodes, images: torch.Tensor, row: int, end: int) -> torch.Tensor:
        """Return the codes (N, n_codes, rows, columns) of some rows of patches."""
        size, stride = self.geometry.patch_size, self.geometry.stride
        lines = images[:, :, row * stride : (end - 1) * stride + size].to(group.weight.dtype)
        codes: torch.Tensor = group(functional.unfold(lines, size, stride=stride))
        return codes.unflatten(2, (end - row, -1))

    def _pooled(self, group: _PatchCodes, sums: torch.Tensor, regions: RegionGrid) -> torch.Tensor:
        if self.pooling == "sum":
            return sums
        means = sums / torch.from_numpy(regions.counts).to(sums.dtype).to(sums.device)[:, None]
        return group.log_scaled(means) if self.pooling == "log" else means


class _PatchCodes(nn.Module):
    """Codes (N, n_codes, L) of patches of pixels (N, n_values, L)."""

    contrast_floor: torch.Tensor
    typical_code: torch.Tensor
    weight: nn.Parameter

    def __init__(self, group: GroupCoder) -> None:
        super().__init__()
        self.register_buffer("contrast_floor", _float32(group.preparation.contrast_floor))
        self.register_buffer("typical_code", _float32(group.typical_code))

    def normalized(self, patches: torch.Tensor) -> torch.Tensor:
        patches = patches - patches.mean(dim=1, keepdim=True)
        return patches / (patches.square().mean(dim=1, keepdim=True) + self.contrast_floor).sqrt()

    def log_scaled(self, codes: torch.Tensor) -> torch.Tensor:
        """Compute log(1 + code / typical), with the sign of the code."""
        return codes.sign() * torch.log1p(codes.abs() / self.typical_code)


class _UnitCodes(_PatchCodes):
    """Codes that are outputs of a layer of units; its weights contain the whitening."""

    def __init__(self, group: GroupCoder, patch_shape: tuple[int, ...]) -> None:
        super().__init__(group)
        layer = group.folded()
        self.split_sign = group.split_sign
        self.weight = nn.Parameter(_float32(_channels_first(layer.weights, patch_shape)))
        self.center = nn.Parameter(_float32(layer.center[:, None]))
        self.intercept = nn.Parameter(_float32(layer.intercept[:, None]))
        self.activation = in_torch(layer.activation).module()

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        net = self.weight @ self.normalized(patches)
        codes: torch.Tensor = self.activation(net + (self.intercept - self.center))
        if self.split_sign:
            codes = torch.cat([codes, self.activation(self.intercept + self.center - net)], dim=1)
        return codes


class _TriangleCodes(_PatchCodes):
    """Codes max(0, mean distance - distance)."""

    matrix: torch.Tensor | None
    offset: torch.Tensor | None

    def __init__(self, group: GroupCoder, patch_shape: tuple[int, ...]) -> None:
        super().__init__(group)
        centers, mean, matrix = group.centers, group.preparation.mean, group.preparation.matrix
        assert centers is not None  # other groups have units
        whitening: tuple[Any, Any] = None, None
        if mean is None or matrix is None:
            centers = _channels_first(centers, patch_shape)
        else:
            rows = matrix.T.astype(np.float64)
            whitening = _float32(_channels_first(rows, patch_shape)), _float32(rows @ mean)[:, None]
        self.register_buffer("matrix", whitening[0])
        self.register_buffer("offset", whitening[1])
        self.weight = nn.Parameter(_float32(np.concatenate([centers, -centers]) if group.split_sign else centers))

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        samples = self.normalized(patches)
        if self.matrix is not None and self.offset is not None:
            samples = self.matrix @ samples - self.offset
        squares = samples.square().sum(dim=1, keepdim=True)
        found = squares - 2 * (self.weight @ samples) + self.weight.square().sum(dim=1)[:, None]
        # Where a sample all but equals a unit, the difference of large numbers has no correct digit left.
        n, k, place = torch.nonzero(found < 1e-3 * squares, as_tuple=True)
        found = found.index_put((n, k, place), (samples[n, :, place] - self.weight[k]).square().sum(dim=1))
        distances = found.clamp(min=torch.finfo(found.dtype).tiny).sqrt()  # the root of 0 has no slope
        return (distances.mean(dim=1, keepdim=True) - distances).clamp(min=0)


def views(
    coders: Sequence[PatchCoder], images: ImageCollection, start: int, grid: int, mirror: bool, device: str
) -> Iterator[Array]:
    """Iterate over the features of images, as :meth:`epls.images.features.ImageTransformer.views` does.

    Images of one size that follow one another are computed together, as many as fit in a strip.
    """
    place = resolve_device(device)
    network = ImageNetwork(coders, grid, mirror).to(place)
    group: list[NDArray[Any]] = []

    def of_group() -> Iterator[Array]:
        pixels = torch.from_numpy(np.stack(group).astype(np.float32)).to(place).movedim(3, 1)
        with torch.inference_mode():
            found = network.views(pixels)
        yield from found.numpy(force=True)

    for number in range(start, len(images)):
        image = images[number]
        is_full = (len(group) + 1) * network.n_elements(*image.shape[:2]) > _STRIP_ELEMENTS
        if group and (image.shape != group[0].shape or is_full):
            yield from of_group()
            group = []
        group.append(image)
    if group:
        yield from of_group()


def _channels_first(rows: Array, patch_shape: tuple[int, ...]) -> Array:
    """Return values of patches in the order in which torch cuts patches out."""
    return patch_filters(rows, patch_shape).reshape(rows.shape)


def _float32(array: Array | float) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float32)
