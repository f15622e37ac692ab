"""The mean of the features and one scale for all of them, in one pass and little memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

_BLOCK_ELEMENTS = 2**21


def center_and_scale(arrays: Iterable[Array]) -> tuple[Array, float, int]:
    """The mean of every feature, the root of the features' mean variance, and the number of samples.

    Computed in float64, block by block, so that memory maps are not copied. The scale of constant data is 1.
    """
    n_samples, squares, differs = 0, 0.0, False
    first, mean = (
        np.zeros(0),
        np.zeros(0),
    )  # deviations are taken from the first sample: those of constants are exactly 0
    for array in arrays:
        n_rows = max(1, _BLOCK_ELEMENTS // max(array.shape[1], 1))
        if n_samples == 0 and len(array) > 0:
            first, mean = array[0].astype(np.float64), np.zeros(array.shape[1])
        for start in range(0, len(array), n_rows):
            block = array[start : start + n_rows].astype(np.float64)
            block -= first
            differs = differs or bool(block.any())
            block_mean = block.mean(axis=0)
            block -= block_mean
            # Two groups' squared deviations add up to the whole's but for the distance of their means.
            away = block_mean - mean
            n_total = n_samples + len(block)
            with np.errstate(over="ignore", invalid="ignore"):  # told of below
                squares += float(np.vdot(block, block) + np.vdot(away, away) * n_samples * len(block) / n_total)
            mean += away * (len(block) / n_total)
            n_samples = n_total
    scale = float(np.sqrt(squares / max(n_samples * mean.size, 1)))
    if not np.isfinite(scale):
        raise ValueError("the data are too large to be squared in double precision: divide them by their largest value")
    if scale == 0 and differs:
        raise ValueError("the data are too small to be squared in double precision: multiply them by a large number")
    return first + mean, scale or 1.0, n_samples
