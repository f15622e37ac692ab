"""Where the patches of an image lie, and over which of them codes are pooled."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Indices = NDArray[np.intp]


class Positions(NamedTuple):
    """The patches of an image, region by region."""

    tops: Indices
    lefts: Indices
    regions: Indices  # the number of each patch's region, in rising order
    counts: Indices  # how many patches each region has


@lru_cache(maxsize=64)
def positions(height: int, width: int, patch_size: int, stride: int, grid: int) -> Positions:
    """All patches of an image of some size, and the regions of a grid that they are in.

    Positions are cut at round(k * positions / grid): with a grid of 2, in the four quadrants.
    """
    pieces = []
    for side in (height, width):
        starts = np.arange(0, side - patch_size + 1, stride)
        if len(starts) < grid:
            raise ValueError(
                f"an image of {height} x {width} pixels has {len(starts)} position(s) of a patch of {patch_size} x "
                f"{patch_size} at stride {stride} along a side: too few for a grid of {grid} x {grid} regions"
            )
        cuts = [int(k * len(starts) / grid + 0.5) for k in range(grid + 1)]
        pieces.append(np.split(starts, cuts[1:-1]))
    regions = [(rows, columns) for rows in pieces[0] for columns in pieces[1]]
    counts = np.array([len(rows) * len(columns) for rows, columns in regions])
    return Positions(
        tops=np.concatenate([np.repeat(rows, len(columns)) for rows, columns in regions]),
        lefts=np.concatenate([np.tile(columns, len(rows)) for rows, columns in regions]),
        regions=np.repeat(np.arange(len(regions)), counts),
        counts=counts,
    )


def pool(sums: Array, counts: Indices, pooling: str, typical_code: float) -> Array:
    """Pooled codes, as ``ImageFeatures`` describes them, from sums over regions of shape (..., n_regions, n_codes)."""
    if pooling == "sum":
        return sums
    means = sums / counts[:, None].astype(sums.dtype)
    if pooling == "mean":
        return means
    # Codes of some learners have a sign; those of EPLS do not.
    return np.copysign(np.log1p(np.abs(means) / sums.dtype.type(typical_code)), means)
