"""The mean of the features and one scale for all of them, in one pass and little memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

_BLOCK_ELEMENTS = 2**21


class Moments:
    """The mean and the spread of samples that come in parts, in float64.

    Deviations are taken from the first sample, so that those of constants are exactly 0.
    """

    def __init__(self) -> None:
        self.n_samples = 0
        self._squares, self._differs = 0.0, False
        self._first, self._mean = np.zeros(0), np.zeros(0)

    def add(self, array: Array) -> None:
        """Take more samples into account, some at a time: memory maps are not copied."""
        n_rows = max(1, _BLOCK_ELEMENTS // max(array.shape[1], 1))
        for start in range(0, len(array), n_rows):
            part = Moments()
            block = array[start : start + n_rows].astype(np.float64)
            part.n_samples = len(block)
            part._first = self._first if self.n_samples > 0 else block[0].copy()
            block -= part._first
            part._differs = bool(block.any())
            part._mean = block.mean(axis=0)
            block -= part._mean
            with np.errstate(over="ignore", invalid="ignore"):  # told of in the end
                # Not with the BLAS, whose sums depend on the number of threads.
                part._squares = float(np.einsum("ij,ij->", block, block))
            self.merge(part)

    def merge(self, other: Moments) -> None:
        """Take the samples of another one into account."""
        if other.n_samples == 0:
            return
        if self.n_samples == 0:
            self.__dict__.update(other.__dict__)
            return
        n_total = self.n_samples + other.n_samples
        shift = other._first - self._first
        with np.errstate(over="ignore", invalid="ignore"):
            away = other._mean + shift - self._mean
            # Two groups' squared deviations add up to the whole's but for the distance of their means.
            self._squares += (
                other._squares + float(np.einsum("i,i->", away, away)) * self.n_samples * other.n_samples / n_total
            )
            self._mean = self._mean + away * (other.n_samples / n_total)
        self._differs = self._differs or other._differs or bool(shift.any())
        self.n_samples = n_total

    def center_and_scale(self) -> tuple[Array, float]:
        """The mean of every feature, and the root of the features' mean variance; 1 for constant data."""
        scale = float(np.sqrt(self._squares / max(self.n_samples * self._mean.size, 1)))
        if not np.isfinite(scale):
            raise ValueError(
                "the data are too large to be squared in double precision: divide them by their largest value"
            )
        if scale == 0 and self._differs:
            raise ValueError(
                "the data are too small to be squared in double precision: multiply them by a large number"
            )
        return self._first + self._mean, scale or 1.0


def center_and_scale(arrays: Iterable[Array]) -> tuple[Array, float, int]:
    """The mean of every feature, the root of the features' mean variance, and the number of samples."""
    moments = Moments()
    for array in arrays:
        moments.add(array)
    return *moments.center_and_scale(), moments.n_samples
