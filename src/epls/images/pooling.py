"""Where the patches of an image lie, and over which of them codes are pooled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Indices = NDArray[np.intp]


class PatchPlaces:
    """The patches of an image of some size, numbered region by region of a grid, and in each row by row.

    Along a side, positions are cut at round(k * positions / grid): with a grid of 2, in the four quadrants. Places are
    computed when they are asked for: a photograph has millions.

    Attributes
    ----------
    row_cuts, column_cuts : list of int
        The first row and column of positions of each region of the grid, and the end.
    counts : ndarray of int of shape (grid * grid,)
        The patches in each region.
    """

    def __init__(self, height: int, width: int, patch_size: int, stride: int, grid: int) -> None:
        self._stride = stride
        sides = []
        for side in (height, width):
            n_positions = (side - patch_size) // stride + 1
            sides.append([int(k * n_positions / grid + 0.5) for k in range(grid + 1)])
        rows, columns = (np.array(cuts) for cuts in sides)
        self.row_cuts, self.column_cuts = sides
        self._first_row, self._first_column = np.repeat(rows[:-1], grid), np.tile(columns[:-1], grid)
        self._n_columns = np.tile(np.diff(columns), grid)
        self.counts: Indices = np.repeat(np.diff(rows), grid) * self._n_columns
        self._ends = np.cumsum(self.counts)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def block(self, start: int, stop: int) -> tuple[Indices, Indices, Indices]:
        """The top and left corners, in pixels, of some patches, and the regions that they are in."""
        numbers = np.arange(start, min(stop, len(self)))
        regions = np.searchsorted(self._ends, numbers, side="right")
        rows, columns = np.divmod(numbers - (self._ends - self.counts)[regions], self._n_columns[regions])
        tops = (self._first_row[regions] + rows) * self._stride
        return tops, (self._first_column[regions] + columns) * self._stride, regions


def smallest_side(patch_size: int, stride: int, grid: int) -> int:
    """The least height and width of an image that has a patch in each region."""
    return patch_size + (grid - 1) * stride


def pool(sums: Array, counts: Indices, pooling: str, typical_code: float) -> Array:
    """Pooled codes, as ``ImageFeatures`` describes them, from sums over regions of shape (..., n_regions, n_codes)."""
    if pooling == "sum":
        return sums
    means = sums / counts[:, None].astype(sums.dtype)
    if pooling == "mean":
        return means
    # Codes of some learners have a sign; those of EPLS do not.
    return np.copysign(np.log1p(np.abs(means) / sums.dtype.type(typical_code)), means)
