"""Positions of patches in an image, and pooling of the codes there.

The codes at all positions are the *map* of the image, (rows, columns, n_codes). It comes in blocks of positions. A pool
adds each block to the areas that contain it. :class:`RegionGrid` has a few regions, whose sums become features.
:class:`Cells` has many small squares, which become the pixels of the next layer's images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.codes import add_to_cells, add_to_regions, raise_cells
from ..utils.types import Array, Indices

if TYPE_CHECKING:
    from .features import ImageFeatures

FINEST_GRID = 1000  # no photograph has room for more regions


class PatchPositions:
    """The positions of the patches of an image, numbered row by row.

    Corners are computed on demand, because a photograph has millions of positions.

    Parameters
    ----------
    height, width : int
        The size of the image.
    patch_size : int
        Height and width of a patch.
    stride : int
        The number of pixels from one patch to the next.

    Attributes
    ----------
    shape : (int, int)
        Rows and columns of the map.

    Examples
    --------
    >>> positions = PatchPositions(6, 9, patch_size=4, stride=2)
    >>> positions.shape
    (2, 3)
    >>> positions.corners(np.array([1, 2, 3]))
    (array([0, 0, 2]), array([2, 4, 0]))
    """

    def __init__(self, height: int, width: int, patch_size: int, stride: int) -> None:
        self._stride = stride
        self.shape = ((height - patch_size) // stride + 1, (width - patch_size) // stride + 1)

    def __len__(self) -> int:
        return self.shape[0] * self.shape[1]

    def corners(self, positions: Indices) -> tuple[Indices, Indices]:
        """Return the top and left pixels of the patches at some positions."""
        rows, columns = np.divmod(positions, self.shape[1])
        return rows * self._stride, columns * self._stride


class RegionGrid:
    """Sum codes over a grid of regions of a map.

    Along a side, positions are cut at round(k * positions / grid): with a grid of 2, into the four quadrants. Regions
    are numbered row by row.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns of the map, at least ``grid`` each.
    grid : int
        The number of rows and of columns of regions.

    Attributes
    ----------
    row_cuts, column_cuts : list of int
        The first row and column of each region of the grid, and the end.
    counts : ndarray of int of shape (grid * grid,)
        The number of positions in each region.
    of_row, of_column : ndarray of int
        The region of a position is the sum of the values for its row and its column.

    Examples
    --------
    >>> regions = RegionGrid((4, 3), grid=2)
    >>> regions.counts
    array([4, 2, 4, 2])
    >>> regions.order(0, 6)  # the rows of the map begin at 0, 3, 6 and 9
    array([0, 1, 3, 4, 2, 5])
    >>> sums = np.zeros((4, 1))
    >>> regions.add(np.ones((3, 1), np.float32), np.array([2, 3, 4]), sums)
    >>> sums[:, 0]
    array([2., 1., 0., 0.])
    """

    def __init__(self, shape: tuple[int, int], grid: int) -> None:
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
    """Pool the codes of a map over small squares of positions, to a smaller map.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns of the map, at least ``size`` each.
    size : int
        Height and width of a cell, in positions.
    stride : int
        The number of positions from one cell to the next. If it is less than ``size``, cells overlap. Positions after
        the last whole cell of a row or column are dropped.
    largest : bool, default=False
        Whether a cell takes the largest of its codes instead of their mean.

    Attributes
    ----------
    shape : (int, int)
        Rows and columns of the smaller map.

    Examples
    --------
    >>> cells = Cells((5, 4), size=2, stride=2)
    >>> cells.shape
    (2, 2)
    >>> room = cells.room(1)
    >>> cells.add(np.arange(20, dtype=np.float32)[:, None], np.arange(20), room)
    >>> cells.pooled(room)[..., 0]
    array([[ 2.5,  4.5],
           [10.5, 12.5]], dtype=float32)
    """

    def __init__(self, shape: tuple[int, int], size: int, stride: int, largest: bool = False) -> None:
        self._n_columns, self._size, self._stride, self._largest = shape[1], size, stride, largest
        rows, columns = ((side - size) // stride + 1 for side in shape)
        self.shape = (rows, columns)

    def room(self, n_codes: int) -> Array:
        """Return empty cells for a map with this many codes."""
        return np.full((*self.shape, n_codes), -np.inf if self._largest else 0, np.float32)

    def add(self, codes: Array, positions: Indices, room: Array) -> None:
        """Add a block of codes (n_positions, n_codes) at some positions to the cells."""
        rows, columns = np.divmod(positions, self._n_columns)
        (raise_cells if self._largest else add_to_cells)(codes, rows, columns, self._size, self._stride, room)

    def pooled(self, room: Array) -> Array:
        """Return the smaller map after all positions have been added."""
        return room if self._largest else np.divide(room, np.float32(self._size**2), out=room)


def smallest_side(patch_size: int, stride: int, grid: int) -> int:
    """Return the smallest height and width of an image that has a patch in each region."""
    return patch_size + (grid - 1) * stride


def image_regions(features: ImageFeatures, height: int, width: int) -> RegionGrid:
    """Return the regions that the codes of an image of some size are pooled over."""
    return RegionGrid(PatchPositions(height, width, features.patch_size, features.stride).shape, features.grid)


def pool_sums(features: ImageFeatures, sums: Array, counts: Indices) -> Array:
    """Return pooled codes from sums over areas, according to the ``pooling`` of fitted features.

    Parameters
    ----------
    features : ImageFeatures
        Fitted features.
    sums : ndarray of shape (..., n_areas, n_codes)
        Sums of codes. If the features are averaged over mirror images, (..., 2, n_areas, n_codes).
    counts : ndarray of int of shape (n_areas,)
        The number of positions in each area, such as the ``counts`` of :func:`image_regions`.

    Returns
    -------
    ndarray of shape (..., n_areas * n_codes)
        For sums over the regions of an image, the result of ``features.transform`` for it.
    """
    pooled = sums
    if features.pooling != "sum":
        pooled = sums / counts[:, None].astype(sums.dtype)
    if features.pooling == "log":
        pooled = log_scaled(pooled, features.typical_code_)
    pooled = pooled.reshape(*sums.shape[:-2], -1)
    return pooled.mean(axis=-2) if features.mirror else pooled


def typical_code(encoder: Any, patches: Array, pooling: str) -> float:
    """Return the mean absolute code of some prepared patches."""
    typical = float(np.abs(encoder.transform(patches)).mean())
    if typical == 0 and pooling == "log":
        raise ValueError(
            f"all codes of patches by {type(encoder).__name__} are 0, so log pooling has no scale: "
            f"lower the encoder's threshold, or use more components"
        )
    return typical


def log_scaled(codes: Array, typical_code: float) -> Array:
    """Compute log(1 + code / typical), with the sign of the code, since some learners have signed codes."""
    return np.copysign(np.log1p(np.abs(codes) / codes.dtype.type(typical_code)), codes)
