"""Positions of patches in an image, and pooling of the codes there.

The codes at all positions, (rows, columns, n_codes), come in blocks of positions. A pool adds each block to the areas
that contain it. :class:`RegionGrid` has a few regions, whose sums become features. :class:`Cells` has many small
squares, which form the *map* of the image: the pixels of the next layer's images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..kernels.codes import add_to_cells, add_to_regions
from ..utils.types import Array, Indices

FINEST_GRID = 1000  # no photograph has more regions
#: The largest number of features and of map values of an image. A small model file could otherwise require any number.
MOST_FEATURES, MOST_MAP_VALUES = 2**23, 2**26


@dataclass(frozen=True)
class Geometry:
    """The sizes of a layer's patches, in pixels, and of the cells of its map, in positions of patches."""

    patch_size: int
    stride: int = 1
    pool: int = 1
    pool_stride: int = 1

    def positions(self, height: int, width: int) -> tuple[int, int]:
        """Return how many rows and columns of positions the patches of an image have."""
        return (height - self.patch_size) // self.stride + 1, (width - self.patch_size) // self.stride + 1

    def corners(self, positions: Indices, n_columns: int) -> tuple[Indices, Indices]:
        """Return the top and left pixels of the patches at some positions, which are numbered row by row."""
        rows, columns = np.divmod(positions, n_columns)
        return rows * self.stride, columns * self.stride

    def map_shape(self, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of the map of an image; not positive if the image is too small for a map."""
        rows, columns = self.positions(height, width)
        return (rows - self.pool) // self.pool_stride + 1, (columns - self.pool) // self.pool_stride + 1


def receptive_fields(layers: Sequence[Geometry]) -> list[tuple[int, int]]:
    """Return, for each layer, the side of the part of an image that a patch sees, and the pixels between patches."""
    found = []
    sees, step = 1, 1  # of a pixel of the layer's images
    for layer in layers:
        sees, step = sees + step * (layer.patch_size - 1), step * layer.stride
        found.append((sees, step))
        sees, step = sees + step * (layer.pool - 1), step * layer.pool_stride
    return found


def smallest_side(layers: Sequence[Geometry], grid: int, *, with_map: bool = False) -> int:
    """Return the smallest height and width of images that have a patch in each region of all layers.

    There are grid x grid regions. With ``with_map``, the last layer must also have a map, as all others do.
    """
    fields = receptive_fields(layers)
    least = max(sees + step * (grid - 1) for sees, step in fields)
    sees, step = fields[-1]
    return max(least, sees + step * (layers[-1].pool - 1)) if with_map else least


def n_features_of(n_codes: int, grid: int) -> int:
    """Return the number of features of an image with this many codes per position, in all layers, if it is allowed."""
    if (n_features := grid**2 * n_codes) > MOST_FEATURES:
        raise ValueError(
            f"{grid} x {grid} regions of {n_codes:,} codes are {n_features:,} features of an image, but at most "
            f"{MOST_FEATURES:,} are allowed: choose a smaller grid"
        )
    return n_features


def require_map(rows: int, columns: int, n_codes: int) -> None:
    """Raise an error if a map of this size would take too much memory."""
    if (n_values := rows * columns * n_codes) > MOST_MAP_VALUES:
        raise ValueError(
            f"{rows:,} x {columns:,} cells of {n_codes:,} codes are {n_values:,} values of a map, but at most "
            f"{MOST_MAP_VALUES:,} are allowed: give smaller images, or learn layers with a larger pool or stride"
        )


class RegionGrid:
    """Sum codes over a grid of regions of so many rows and columns of positions, at least grid x grid.

    Along a side, positions are cut at round(k * positions / grid): with a grid of 2, into the four quadrants. Regions
    are numbered row by row, and ``counts`` has the number of positions in each. The region of a position is the sum of
    ``of_row`` for its row and ``of_column`` for its column.

    Examples
    --------
    >>> regions = RegionGrid((4, 3), grid=2)
    >>> regions.counts
    array([4, 2, 4, 2])
    >>> regions.order(0, 6)  # the rows of the map begin at 0, 3, 6 and 9
    array([0, 1, 3, 4, 2, 5])
    """

    def __init__(self, shape: tuple[int, int], grid: int) -> None:
        # The first row and column of each region of the grid, and the end.
        self.row_cuts, self.column_cuts = ([int(k * n / grid + 0.5) for k in range(grid + 1)] for n in shape)
        rows, columns = np.diff(self.row_cuts), np.diff(self.column_cuts)
        self.counts: Indices = np.outer(rows, columns).ravel()
        self._ends = np.cumsum(self.counts)
        self._n_columns = shape[1]
        self._first_row, self._first_column = np.repeat(self.row_cuts[:-1], grid), np.tile(self.column_cuts[:-1], grid)
        self._columns = np.tile(columns, grid)
        self.of_row, self.of_column = np.repeat(grid * np.arange(grid), rows), np.repeat(np.arange(grid), columns)

    def order(self, start: int, stop: int) -> Indices:
        """Return the positions from the ``start``-th to before the ``stop``-th: region by region, each row by row.

        The order is fixed, because the last digit of a product depends on which rows a BLAS library multiplies
        together.
        """
        numbers = np.arange(start, stop)
        regions = np.searchsorted(self._ends, numbers, side="right")
        rows, columns = np.divmod(numbers - (self._ends - self.counts)[regions], self._columns[regions])
        positions: Indices = (self._first_row[regions] + rows) * self._n_columns + self._first_column[regions] + columns
        return positions

    def add(self, codes: Array, positions: Indices, sums: Array) -> None:
        """Add a block of codes (n_positions, n_codes) at some positions to ``sums`` (n_regions, n_codes)."""
        rows, columns = np.divmod(positions, self._n_columns)
        add_to_regions(codes, self.of_row[rows] + self.of_column[columns], sums)


class Cells:
    """Pool the codes of a map over squares of ``size`` positions a side, to a smaller map of some ``shape``.

    A cell begins every ``stride`` positions; if that is less than ``size``, cells overlap. Positions after the last
    whole cell of a row or column are dropped. A cell takes the mean of its codes, or the largest.
    """

    def __init__(self, shape: tuple[int, int], size: int, stride: int, largest: bool = False) -> None:
        self._n_columns, self._size, self._stride, self._largest = shape[1], size, stride, largest
        rows, columns = ((side - size) // stride + 1 for side in shape)
        self.shape = (rows, columns)
        self.column_cuts = [*range(0, shape[1], stride), *range(size, shape[1], stride)]  # where cells begin and end

    def empty(self, n_codes: int) -> Array:
        """Return empty cells for a map with this many codes."""
        return np.full((*self.shape, n_codes), -np.inf if self._largest else 0, np.float32)

    def add(self, codes: Array, positions: Indices, cells: Array) -> None:
        """Add a block of codes (n_positions, n_codes) at some positions to the cells."""
        rows, columns = np.divmod(positions, self._n_columns)
        add_to_cells(codes, rows, columns, self._size, self._stride, self._largest, cells)

    def pooled(self, cells: Array) -> Array:
        """Return the smaller map after all positions have been added."""
        return cells if self._largest else np.divide(cells, np.float32(self._size**2), out=cells)


def pool_sums(sums: Array, counts: Indices, pooling: str, typical_code: float | Array) -> Array:
    """Return pooled codes from sums (..., n_areas, n_codes) over areas with ``counts`` positions, in the same shape.

    ``pooling`` is that of :class:`epls.ImageFeatures`, and ``typical_code`` the scale of log pooling, the same for
    all codes or one for each.
    """
    if pooling == "sum":
        return sums
    means = sums / counts[:, None].astype(sums.dtype)
    return log_scaled(means, typical_code) if pooling == "log" else means


def log_scaled(codes: Array, typical_code: float | Array) -> Array:
    """Compute log(1 + code / typical), with the sign of the code, since some learners have signed codes."""
    scaled = np.abs(codes)
    scaled /= np.asarray(typical_code, codes.dtype)
    return np.copysign(np.log1p(scaled, out=scaled), codes, out=scaled)
