"""From the pixels of an image to codes, features and a map: what a layer does, as a value, and in NumPy.

A :class:`PatchCoder` says how: patches are cut out, normalised, whitened and encoded, and their codes are pooled. Image
features make it of what they learned. This file computes with it in NumPy, :mod:`epls.torch.coder` in torch, and
:mod:`epls.onnx` writes it to a file.

The codes at all positions of an image are computed in blocks of positions and pooled at once, so a photograph with
millions of positions needs no more memory than a small image.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..algorithm.activations import LOGISTIC, RELU
from ..algorithm.layer import FoldedLayer, UnitLayer
from ..data.encoding import BlockEncoder, checked_encoder
from ..kernels.dense import LANES, gather_centered, pool_logistic, pool_rectified, take_channels
from ..utils.threads import BLOCK_ROWS, row_blocks
from ..utils.types import Array, Indices
from .patches import Preparation
from .pooling import Cells, Geometry, RegionGrid, log_scaled, pool_sums, require_map

#: Called with the number of a group's first code, positions, and codes (n_positions, n_codes).
SeeCodes: TypeAlias = Callable[[int, Indices, Array], None]
#: A function from an image, a grid and whether a map is wanted to the features and the map; None if it is not wanted.
StackEncoder: TypeAlias = Callable[[NDArray[Any], int, bool], tuple[Array, Array | None]]

# Beyond that, products of pixels that an ImageCollection accepts might exceed single precision. No learner goes there.
_LARGEST_WEIGHT = 1e15
_LONGEST_STRETCH = 16  # positions whose outputs are added in single precision before they are in double


@dataclass(frozen=True)
class GroupCoder:
    """How patches of one group of channels are encoded.

    ``block_encoders`` creates the functions from prepared patches to codes that NumPy uses; see
    :meth:`epls.encoders.base.Encoder.block_encoders`. ``layer`` or ``centers`` describe the same codes to others.
    """

    preparation: Preparation
    name: str  # of the encoder, for error messages
    n_codes: int
    block_encoders: Callable[[np.dtype[np.floating]], Callable[[], BlockEncoder]]
    typical_code: float  # the mean absolute code of patches of the training images: the scale of pooled codes
    layer: UnitLayer | None = None  # of units whose outputs are the codes
    centers: Array | None = None  # (n_components, n_values), of codes max(0, mean distance - distance)
    split_sign: bool = False  # whether the codes of mirrored components follow

    def folded(self) -> FoldedLayer:
        """Return the layer of units whose outputs for normalised patches are the codes; it contains the whitening."""
        if self.layer is None:
            raise ValueError(
                f"the codes of {self.name} are not the outputs of one layer of units, which other libraries can "
                f"compute: use the soft threshold, or the natural encoder of EPLS, SparseAutoencoder or SparseRBM"
            )
        folded, mean, matrix = self.layer.folded(), self.preparation.mean, self.preparation.matrix
        if mean is None or matrix is None:
            return folded
        return folded.after(mean.astype(np.float64), matrix.astype(np.float64))


@dataclass(frozen=True)
class PatchCoder:
    """How a layer turns an image into features and a map. The codes of all groups follow one another."""

    geometry: Geometry
    n_channels: int
    groups: tuple[GroupCoder, ...]
    channels: Indices | None = None  # (n_groups, n), those that each group sees; None is for one group of all
    pooling: str = "log"  # over regions, to features; see :class:`epls.ImageFeatures`
    map_pooling: str = "log"  # over cells, to the map; see :class:`epls.Layer`

    @property
    def n_codes(self) -> int:
        """The number of codes at a position, over all groups."""
        return sum(group.n_codes for group in self.groups)

    @property
    def patch_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the patches of a group."""
        size = self.geometry.patch_size
        return size, size, self.n_channels if self.channels is None else self.channels.shape[1]

    @property
    def patch_values(self) -> int:
        """The number of values of a patch."""
        return int(np.prod(self.patch_shape))


def stack_encoders(coders: Sequence[PatchCoder], *, exact: bool = False) -> Callable[[], StackEncoder]:
    """Return a function that creates encoders of a stack of layers, one for each thread.

    An encoder returns the features of all layers side by side, and the map of the last layer. For ``exact`` see
    :func:`dense_encoders`.
    """
    makers = [dense_encoders(coder, exact=exact) for coder in coders]

    def new_encoder() -> StackEncoder:
        encoders = [make() for make in makers]

        def encode(image: NDArray[Any], grid: int, with_map: bool) -> tuple[Array, Array | None]:
            found: list[Array] = []
            for encoder in encoders:
                features, below = encoder.encode(image, grid, with_map or encoder is not encoders[-1])
                found.append(features.ravel())
                image = image if below is None else below
            return np.concatenate(found), image if with_map else None

        return encode

    return new_encoder


def dense_encoders(coder: PatchCoder, *, exact: bool = False) -> Callable[[], DenseEncoder]:
    """Return a function that creates encoders of images, one for each thread.

    Layers of logistic or rectified units have a faster way, whose results differ from the usual ones in the last bits.
    ``exact`` encoders do without it.
    """
    if not exact and _has_fast_units(coder):
        return lambda: _FoldedEncoder(coder)
    makers = [group.block_encoders(np.dtype(np.float32)) for group in coder.groups]
    return lambda: _ExactEncoder(coder, [make() for make in makers])


class DenseEncoder(ABC):
    """Encodes the patches at all positions of one image after the other, in one thread; buffers are allocated once."""

    def __init__(self, coder: PatchCoder, patch_values: int) -> None:
        self._coder = coder
        self._patches = np.empty((BLOCK_ROWS, patch_values), np.float32)
        self._places_of = lru_cache(1)(partial(_Places, coder))  # most images have one size
        typical, n_codes = zip(*((group.typical_code, group.n_codes) for group in coder.groups), strict=True)
        self._typical_codes = np.repeat(np.array(typical, np.float32), n_codes)

    def encode(
        self, image: NDArray[Any], grid: int, with_map: bool, see: SeeCodes | None = None
    ) -> tuple[Array, Array | None]:
        """Return the features (grid * grid, n_codes) of an image, and its map (rows, columns, n_codes) if asked for.

        ``see`` is called with the number of the first code of a group, some positions, and the group's codes there,
        which are valid only until it returns. It needs an exact encoder.
        """
        if with_map:
            require_map(*self._coder.geometry.map_shape(*image.shape[:2]), self._coder.n_codes)
        places, first = self._places_of(*image.shape[:2], grid, with_map), 0
        # In float64, because float32 is not precise enough for the millions of patches of a photograph.
        sums = np.zeros((len(places.regions.counts), self._coder.n_codes))
        cells = places.cells.empty(self._coder.n_codes) if with_map else None
        for number, (group, part) in enumerate(zip(self._coder.groups, self._images_of_groups(image), strict=True)):
            codes = slice(first, first + group.n_codes)
            of_group = None if cells is None else cells[:, :, codes]
            self._add(number, part, places, sums[:, codes], of_group, None if see is None else partial(see, first))
            first = codes.stop
        pooling, typical = self._coder.pooling, self._typical_codes
        features = pool_sums(sums.astype(np.float32), places.regions.counts, pooling, typical)
        if cells is None:
            return features, None
        pooled = places.cells.pooled(cells)
        if self._coder.map_pooling == "log":
            return features, log_scaled(pooled, typical)
        return features, np.divide(pooled, typical, out=pooled)

    def _images_of_groups(self, image: NDArray[Any]) -> Sequence[NDArray[Any]] | NDArray[Any]:
        """Return, for each group, the image (height, width, n) of its channels."""
        channels = self._coder.channels
        if channels is None:
            return [image]
        height, width = image.shape[:2]
        lines = np.empty((len(channels), height, width * channels.shape[1]), image.dtype)
        take_channels(image, channels, lines)
        return lines.reshape(len(channels), height, width, -1)

    @abstractmethod
    def _add(
        self, number: int, image: NDArray[Any], places: _Places, sums: Array, cells: Array | None, see: Any
    ) -> None:
        """Add the codes of a group at all positions of its image to the regions' ``sums`` and to the ``cells``."""


class _ExactEncoder(DenseEncoder):
    """Computes the codes of any encoder; each of ``encoders`` encodes the prepared patches of a group."""

    def __init__(self, coder: PatchCoder, encoders: Sequence[BlockEncoder]) -> None:
        super().__init__(coder, coder.patch_values)
        pairs = zip(encoders, coder.groups, strict=True)
        self._encoders = [checked_encoder(encode, group.n_codes, group.name) for encode, group in pairs]

    def _add(
        self, number: int, image: NDArray[Any], places: _Places, sums: Array, cells: Array | None, see: Any
    ) -> None:
        geometry, preparation = self._coder.geometry, self._coder.groups[number].preparation
        for some in row_blocks(places.n_positions, BLOCK_ROWS):
            positions = places.regions.order(some.start, some.stop)
            corners, patches = geometry.corners(positions, places.shape[1]), self._patches[: len(positions)]
            codes = self._encoders[number](preparation.cut(image, corners, geometry.patch_size, patches))
            places.regions.add(codes, positions, sums)
            if cells is not None:
                places.cells.add(codes, positions, cells)
            if see is not None:
                see(positions, codes)


class _FoldedEncoder(DenseEncoder):
    """Computes the outputs of logistic or rectified units, and pools them, in a fraction of the time.

    An :class:`_ExactEncoder` makes normalised patches, whitened or standardised patches and codes one after the other,
    which takes longer than the products of some hundred units. Here, patches are only centred: their contrast and the
    intercept are applied to the products (:mod:`epls.kernels.dense`), and weights contain the whitening. The results
    are as near to those in double precision, but their last bits differ.
    """

    def __init__(self, coder: PatchCoder) -> None:
        super().__init__(coder, coder.patch_values + LANES)
        layers = [group.folded() for group in coder.groups]
        units = [_pooled_units(layer) for layer in layers]
        self._weights, self._pools = [weights for weights, _ in units], [pool for _, pool in units]
        self._factors = np.empty(BLOCK_ROWS, np.float32)
        self._net = np.empty(BLOCK_ROWS * max(weights.shape[1] for weights in self._weights), np.float32)

    def _add(
        self, number: int, image: NDArray[Any], places: _Places, sums: Array, cells: Array | None, see: Any
    ) -> None:
        assert see is None  # there is no array of codes to see
        geometry, regions, ends = self._coder.geometry, places.regions, places.stretch_ends
        floor = self._coder.groups[number].preparation.contrast_floor
        size, stride, weights = geometry.patch_size, geometry.stride, self._weights[number]
        n_values, n_units = weights.shape
        lines = image.reshape(len(image), -1)
        cells = np.empty((0, 0, 0), np.float32) if cells is None else cells
        for some in row_blocks(places.n_positions, BLOCK_ROWS):
            n_rows = some.stop - some.start
            patches, factors = self._patches[:n_rows], self._factors[:n_rows]
            net = self._net[: n_rows * n_units].reshape(n_rows, n_units)
            gather_centered(lines, some.start, some.stop, ends.size, size, stride, floor, patches, factors)
            np.matmul(patches[:, :n_values], weights, out=net)
            places_of_codes = (sums, cells, geometry.pool, geometry.pool_stride)
            self._pools[number](net, factors, some.start, ends, regions.of_row, regions.of_column, *places_of_codes)


def _pooled_units(layer: FoldedLayer) -> tuple[Array, Callable[..., None]]:
    """Return weights (n_values, n_units), and what pools the outputs, given the products with them."""
    if layer.activation is LOGISTIC:  # 1 / (1 + exp(-z)) is 1 / (1 + 2**y): weights and intercepts are those of y
        to_y, pool = -np.log2(np.e), pool_logistic
        intercepts = [(layer.intercept - layer.center) * to_y]
    else:
        to_y, pool = 1.0, pool_rectified
        intercepts = [layer.center, layer.intercept]
    numbers = [values.astype(np.float32) for values in intercepts]
    return np.ascontiguousarray(layer.weights.T * to_y, np.float32), lambda net, factors, *where: pool(
        net, factors, *numbers, *where
    )


class _Places:
    """The positions of the patches of images of one size, and the areas that their codes are pooled over."""

    def __init__(self, coder: PatchCoder, height: int, width: int, grid: int, with_map: bool) -> None:
        self.shape = coder.geometry.positions(height, width)
        self.n_positions = self.shape[0] * self.shape[1]
        self.regions = RegionGrid(self.shape, grid)
        geometry = coder.geometry
        self.cells = Cells(self.shape, geometry.pool, geometry.pool_stride, coder.map_pooling == "max")
        cuts = {*self.regions.column_cuts, *(self.cells.column_cuts if with_map else ())}
        self.stretch_ends = _stretch_ends(self.shape[1], cuts)


def _has_fast_units(coder: PatchCoder) -> bool:
    """Return whether all codes are outputs of units that :class:`_FoldedEncoder` has, pooled in a way that it has."""
    if coder.pooling != "log" or coder.map_pooling == "max":
        return False
    for group in coder.groups:
        activation = None if group.layer is None else group.layer.activation
        if activation is not RELU and (activation is not LOGISTIC or group.split_sign):
            return False
        if max(np.abs(group.folded().weights).max(), 1 / group.typical_code) > _LARGEST_WEIGHT:
            return False
    return True


def _stretch_ends(n_columns: int, cuts: set[int]) -> Indices:
    """For each column of positions, where the stretch of columns ends that lie in the same region and cells."""
    cuts = cuts | {n_columns}
    cuts |= {cut for start, stop in pairwise(sorted(cuts)) for cut in range(start, stop, _LONGEST_STRETCH)}
    ordered = np.array(sorted(cuts))
    ends: Indices = ordered[np.searchsorted(ordered, np.arange(n_columns), side="right")]
    return ends
