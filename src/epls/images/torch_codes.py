"""Codes of the patches of images in torch, on any device and differentiable: what :mod:`epls.images.dense` computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn
from torch.nn import functional

from ..encoders.triangle import TriangleEncoder
from ..utils.optional import torch_room
from ..utils.types import Array
from .dense import patch_layer
from .patches import patch_filters
from .pooling import RegionGrid

if TYPE_CHECKING:
    from .collection import ImageCollection
    from .features import ImageFeatures

_STRIP_ELEMENTS = 2**22  # of patches and codes at a time


class PatchCodes(nn.Module):
    """The codes of the patches at all positions of images, pooled over areas.

    Every patch is cut out and normalised as in NumPy. A convolution with the raw image, corrected for each patch's mean
    and variance, would need less memory, but in single precision the differences of large numbers cost bright patches
    of little contrast several digits. Large images are encoded in strips.

    Parameters
    ----------
    features : ImageFeatures
        Fitted, with an encoder that is "soft_threshold", "triangle", or "natural" with a layer of units.
    """

    contrast_floor: torch.Tensor
    typical_code: torch.Tensor

    def __init__(self, features: ImageFeatures) -> None:
        super().__init__()
        check_is_fitted(features)
        self.patch_size, self.stride = features.patch_size, features.stride
        self.n_channels, self.pooling = features.n_channels_, features.pooling
        self.register_buffer("contrast_floor", _float32(features.contrast_floor_))
        self.register_buffer("typical_code", _float32(features.typical_code_))
        # Of a patch and its codes: what is held of every position that is looked at.
        self.n_elements = self.n_channels * self.patch_size**2 + features.encoder_.n_codes
        kind = _TriangleCodes if isinstance(features.encoder_, TriangleEncoder) else _LayerCodes
        self.encode = kind(features)

    def sums_over(self, images: torch.Tensor, regions: RegionGrid, cells: CellStrips | None = None) -> torch.Tensor:
        """The sums of codes over each region, (N, n_regions, n_codes); ``cells`` are given the codes strip by strip."""
        columns = regions.column_cuts
        strip = max(1, _STRIP_ELEMENTS // (len(images) * columns[-1] * self.n_elements))
        sums = []
        for first, end in pairwise(regions.row_cuts):
            parts = []
            for row in range(first, end, strip):
                codes = self._codes(images, row, min(row + strip, end))
                parts.append(torch.stack([c.sum((2, 3)) for c in codes.split(np.diff(columns).tolist(), dim=3)], dim=1))
                if cells is not None:
                    cells.add(codes)
            sums.append(torch.stack(parts).sum(dim=0))
        return torch.cat(sums, dim=1)

    def _codes(self, images: torch.Tensor, row: int, end: int) -> torch.Tensor:
        """The codes (N, n_codes, rows, columns) of some rows of patches."""
        lines = images[:, :, row * self.stride : (end - 1) * self.stride + self.patch_size].to(self.encode.weight.dtype)
        patches = functional.unfold(lines, self.patch_size, stride=self.stride)
        patches = patches - patches.mean(dim=1, keepdim=True)
        patches = patches / (patches.square().mean(dim=1, keepdim=True) + self.contrast_floor).sqrt()
        return self.encode(patches).unflatten(2, (end - row, -1))

    def pooled(self, sums: torch.Tensor, regions: RegionGrid) -> torch.Tensor:
        """Pooled codes from sums over regions, both (N, n_regions, n_codes), as ``pooling`` asks for."""
        if self.pooling == "sum":
            return sums
        means = sums / torch.from_numpy(regions.counts).to(sums.dtype).to(sums.device)[:, None]
        return self.log_scaled(means) if self.pooling == "log" else means

    def log_scaled(self, codes: torch.Tensor) -> torch.Tensor:
        """log(1 + code / typical), with the sign of the code."""
        return codes.sign() * torch.log1p(codes.abs() / self.typical_code)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        for name in ("contrast_floor", "typical_code"):  # version 0.1.0 did not save them
            state_dict.setdefault(prefix + name, getattr(self, name))
        super()._load_from_state_dict(state_dict, prefix, *others)


class CellStrips:
    """Codes that come as strips of rows, pooled over small squares of positions as in :class:`.pooling.Cells`.

    Parameters
    ----------
    size : int
        Height and width of a cell, in positions.
    stride : int
        Positions from one cell to the next.
    largest : bool, default=False
        Whether a cell has the largest of its codes instead of their mean.

    Examples
    --------
    >>> import torch
    >>> cells, codes = CellStrips(size=2, stride=2), torch.arange(20.0).reshape(1, 1, 5, 4)
    >>> for strip in codes.split(1, dim=2):
    ...     cells.add(strip)
    >>> cells.pooled()[0, 0]
    tensor([[ 2.5000,  4.5000],
            [10.5000, 12.5000]])
    """

    def __init__(self, size: int, stride: int, largest: bool = False) -> None:
        self._size, self._stride = size, stride
        self._pool: Callable[..., torch.Tensor] = functional.max_pool2d if largest else functional.avg_pool2d
        self._found: list[torch.Tensor] = []
        self._rest: list[torch.Tensor] = []  # rows of cells that are not complete
        self._skipped = 0  # rows between two cells that are still to come

    def add(self, codes: torch.Tensor) -> None:
        """Take the next rows of codes, (N, n_codes, rows, columns)."""
        n_skipped = min(self._skipped, codes.shape[2])
        self._skipped -= n_skipped
        rows = torch.cat([*self._rest, codes[:, :, n_skipped:]], dim=2)
        n_cells = max(0, (rows.shape[2] - self._size) // self._stride + 1)
        if n_cells:
            self._found.append(self._pool(rows, self._size, self._stride))
        n_done = n_cells * self._stride
        self._skipped += max(0, n_done - rows.shape[2])
        self._rest = [rows[:, :, n_done:]]

    def pooled(self) -> torch.Tensor:
        """The smaller map (N, n_codes, rows, columns), when all rows have been added."""
        return torch.cat(self._found, dim=2)


class _LayerCodes(nn.Module):
    """Codes of patches (N, n_values, L) that are outputs of a layer of units; whitening is in its numbers."""

    def __init__(self, features: ImageFeatures) -> None:
        super().__init__()
        layer = patch_layer(features)
        self.split_sign = features.encoder_.split_sign
        self.weight = nn.Parameter(_float32(_channels_first(layer.weights, features)))
        self.center = nn.Parameter(_float32(layer.center[:, None]))
        self.intercept = nn.Parameter(_float32(layer.intercept[:, None]))
        self.activation = torch_room("engine").in_torch(layer.activation).module()
        self.half = False

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        net = (self.weight.bfloat16() @ patches.bfloat16()).float() if self.half else self.weight @ patches
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


def compute_in_half(module: nn.Module) -> None:
    """Make the products of layers of units in a module bfloat16."""
    for part in module.modules():
        if isinstance(part, _LayerCodes):
            part.half = True


def batches_of_one_size(
    images: ImageCollection, start: int, n_elements: Callable[[int, int], float], device: torch.device
) -> Iterator[torch.Tensor]:
    """Images (N, channels, height, width) that follow one another and have one size, as many as are worth a strip.

    ``n_elements`` tells how many elements an image of some height and width takes.
    """
    group: list[NDArray[Any]] = []

    def on_device() -> torch.Tensor:
        return torch.from_numpy(np.stack(group).astype(np.float32)).to(device).movedim(3, 1)

    for number in range(start, len(images)):
        image = images[number]
        is_full = (len(group) + 1) * n_elements(*image.shape[:2]) > _STRIP_ELEMENTS
        if group and (image.shape != group[0].shape or is_full):
            yield on_device()
            group = []
        group.append(image)
    if group:
        yield on_device()


def check_images(images: torch.Tensor, n_channels: int, least: int) -> None:
    """Raise an error if images are not (N, channels, height, width) of a least height and width."""
    if images.ndim != 4 or images.shape[1] != n_channels or min(images.shape[2:]) < least:
        raise ValueError(
            f"images have shape {tuple(images.shape)}, but must have shape (N, {n_channels}, height, width) with a "
            f"height and width of at least {least}: channels come before rows and columns"
        )


def _channels_first(rows: Array, features: ImageFeatures) -> Array:
    """Values of patches in the order in which torch cuts patches out."""
    shape = (features.patch_size, features.patch_size, features.n_channels_)
    return patch_filters(rows, shape).reshape(rows.shape)


def _float32(array: Array | float) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float32)
