"""Pooled outputs of logistic units: the dense encoding of a stack, whose products are small.

:class:`~epls.images.dense.DenseEncoder` serves all encoders. It makes normalised patches, standardised patches and
codes one after the other, which takes longer than the products of some hundred units. Here, patches are only centred:
their contrast, the standardisation and the intercept are applied to the products (:mod:`epls.kernels.dense`). The
results are as near to those in double precision, but their last bits differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algorithm.activations import LOGISTIC
from ..encoders.natural import NaturalEncoder
from ..kernels.dense import LANES, gather_centered, log_of_multiples, pool_logistic, take_channels
from ..utils.threads import BLOCK_ROWS, row_blocks
from ..utils.types import Array, Indices
from .dense import patch_layer
from .pooling import Cells, PatchPositions, RegionGrid

if TYPE_CHECKING:
    from .layers import Layer

# Beyond that, products of pixels that an ImageCollection accepts might exceed single precision. No learner finds such.
_LARGEST_WEIGHT = 1e15
_LONGEST_STRETCH = 16  # positions whose outputs are added in single precision before they are in double


class LogisticUnits:
    """The units of all groups of a layer as arrays, for all threads.

    Parameters
    ----------
    layer : Layer
        Fitted, and one that :meth:`can_be_of` accepts.
    """

    def __init__(self, layer: Layer) -> None:
        self.patch_size, self.stride = layer.patch_size, layer.stride
        self.size, self.step, self.takes_log = layer.pool, layer.cell_step, layer.pooling == "log"
        self.channels = None if layer.n_groups is None else np.stack(layer.channels_)
        self.contrast_floors = [part.contrast_floor_ for part in layer.features_]
        # 1 / (1 + exp(-z)) is 1 / (1 + 2**y): weights and intercept are those of y.
        folded = [patch_layer(part) for part in layer.features_]
        self.weights = [np.ascontiguousarray(one.weights.T * -np.log2(np.e), np.float32) for one in folded]
        self.intercepts = [((one.center - one.intercept) * np.log2(np.e)).astype(np.float32) for one in folded]
        self.firsts = [0, *accumulate(len(intercept) for intercept in self.intercepts)]
        typical_codes = [part.typical_code_ for part in layer.features_]
        self.inverse_typical = np.repeat(1 / np.array(typical_codes), np.diff(self.firsts)).astype(np.float32)

    @staticmethod
    def can_be_of(layer: Layer) -> bool:
        """Whether all groups of a fitted layer have logistic units, and the pooling that these have here."""
        if layer.pooling == "max" or len(set(map(len, layer.channels_))) > 1:
            return False
        for part in layer.features_:
            encoder = part.encoder_
            if not isinstance(encoder, NaturalEncoder) or encoder.split_sign or not encoder.is_layer:
                return False
            if part.pooling != "log" or encoder.as_layer().activation is not LOGISTIC:
                return False
            if max(np.abs(patch_layer(part).weights).max(), 1 / part.typical_code_) > _LARGEST_WEIGHT:
                return False
        return True


class UnitPools:
    """Pools the outputs of the units of a layer, for one thread: its buffers are allocated once.

    Parameters
    ----------
    units : LogisticUnits
        The units.
    """

    def __init__(self, units: LogisticUnits) -> None:
        self._units = units
        n_values = max(len(weights) for weights in units.weights)
        self._patches = np.empty(BLOCK_ROWS * (n_values + LANES), np.float32)
        self._factors = np.empty(BLOCK_ROWS, np.float32)
        self._net = np.empty(BLOCK_ROWS * max(map(len, units.intercepts)), np.float32)
        self._places_of = lru_cache(1)(self._new_places)  # most images have one size

    def features_and_map(self, image: NDArray[Any], grid: int, with_map: bool) -> tuple[Array, Array | None]:
        """The features (grid * grid, n_codes) of an image, and its map, if that is asked for."""
        units, n_codes = self._units, self._units.firsts[-1]
        places = self._places_of(*image.shape[:2], grid)
        cells = Cells(places.shape, units.size, units.step) if with_map else None
        room = np.empty((0, 0, n_codes), np.float32) if cells is None else cells.room(n_codes)
        sums = np.zeros((grid * grid, n_codes))
        for group, lines in enumerate(self._lines_of_groups(image)):
            self._add(group, lines, places, sums, room)
        features = (sums / places.regions.counts[:, None]).astype(np.float32)
        log_of_multiples(features, units.inverse_typical)
        if cells is None:
            return features, None
        map_of_image = cells.pooled(room)
        if units.takes_log:
            log_of_multiples(map_of_image.reshape(-1, n_codes), units.inverse_typical)
        else:
            map_of_image *= units.inverse_typical
        return features, map_of_image

    def _lines_of_groups(self, image: NDArray[Any]) -> Iterable[NDArray[Any]]:
        """For each group, the image (height, width * channels) of its channels."""
        channels = self._units.channels
        if channels is None:
            return [image.reshape(len(image), -1)]
        lines = np.empty((len(channels), len(image), image.shape[1] * channels.shape[1]), image.dtype)
        take_channels(image, channels, lines)
        return lines

    def _add(self, group: int, lines: NDArray[Any], places: _Places, sums: Array, room: Array) -> None:
        """Add the outputs of a group at all positions to the sums of the regions, and to the cells."""
        units, weights, regions, ends = self._units, self._units.weights[group], places.regions, places.ends
        n_values, n_units = weights.shape
        for some in places.blocks:
            start, stop, n_rows = some.start, some.stop, some.stop - some.start
            patches = self._patches[: n_rows * (n_values + LANES)].reshape(n_rows, -1)
            factors, net = self._factors[:n_rows], self._net[: n_rows * n_units].reshape(n_rows, n_units)
            floor = units.contrast_floors[group]
            gather_centered(lines, start, stop, ends.size, units.patch_size, units.stride, floor, patches, factors)
            np.matmul(patches[:, :n_values], weights, out=net)
            pool_logistic(
                *(net, factors, units.intercepts[group], start, ends, regions.of_row, regions.of_column),
                *(sums, units.firsts[group], room, units.size, units.step),
            )

    def _new_places(self, height: int, width: int, grid: int) -> _Places:
        units = self._units
        positions = PatchPositions(height, width, units.patch_size, units.stride)
        regions = RegionGrid(positions.shape, grid)
        ends = _stretch_ends(positions.shape[1], regions.column_cuts, units.size, units.step)
        return _Places(positions.shape, list(row_blocks(len(positions), BLOCK_ROWS)), regions, ends)


class _Places(NamedTuple):
    """Where the positions of images of some size are.

    ``blocks`` are the numbers of positions that are encoded at a time; ``ends`` are those of :func:`_stretch_ends`.
    """

    shape: tuple[int, int]
    blocks: list[slice]
    regions: RegionGrid
    ends: Indices


def _stretch_ends(n_columns: int, region_cuts: list[int], size: int, step: int) -> Indices:
    """For each column of positions, where the stretch of columns ends that lie in the same region and cells."""
    cuts = {*region_cuts, *range(0, n_columns, step), *range(size, n_columns, step), n_columns}
    cuts |= {cut for start, stop in pairwise(sorted(cuts)) for cut in range(start, stop, _LONGEST_STRETCH)}
    ordered = np.array(sorted(cuts))
    ends: Indices = ordered[np.searchsorted(ordered, np.arange(n_columns), side="right")]
    return ends
