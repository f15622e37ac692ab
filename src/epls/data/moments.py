"""Mean, scale and second moments of samples, in one pass, with little memory, in double precision; rows of norm 1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..utils.threads import map_blocks, row_blocks
from ..utils.types import Array, Float64

_BLOCK_ELEMENTS = 2**21
_BLOCK_ROWS = 2048


class Moments:
    """The mean and the spread of samples that come in parts.

    Deviations are from the first sample, so those of constants are exactly 0.
    """

    def __init__(self) -> None:
        self.n_samples = 0
        self._squares, self._differs = 0.0, False
        self._first, self._mean = np.zeros(0), np.zeros(0)

    def add(self, array: Array) -> None:
        """Add more samples, a few at a time, so that memory maps are not copied."""
        for rows in row_blocks(len(array), max(1, _BLOCK_ELEMENTS // max(array.shape[1], 1))):
            part = Moments()
            block = array[rows].astype(np.float64)
            part.n_samples = len(block)
            part._first = self._first if self.n_samples > 0 else block[0].copy()
            block -= part._first
            part._differs = bool(block.any())
            part._mean = block.mean(axis=0)
            block -= part._mean
            with np.errstate(over="ignore", invalid="ignore"):  # reported at the end
                # Not by the BLAS, whose sums depend on the number of threads.
                part._squares = float(np.einsum("ij,ij->", block, block))
            self.merge(part)

    def merge(self, other: Moments) -> None:
        """Add the samples of another object."""
        if other.n_samples == 0:
            return
        if self.n_samples == 0:
            self.__dict__.update(other.__dict__)
            return
        n_total = self.n_samples + other.n_samples
        shift = other._first - self._first
        with np.errstate(over="ignore", invalid="ignore"):
            away = other._mean + shift - self._mean
            # The squared deviations of two groups add up to those of all samples, plus a term for the distance of
            # means.
            self._squares += (
                other._squares + float(np.einsum("i,i->", away, away)) * self.n_samples * other.n_samples / n_total
            )
            self._mean = self._mean + away * (other.n_samples / n_total)
        self._differs = self._differs or other._differs or bool(shift.any())
        self.n_samples = n_total

    @property
    def are_equal(self) -> bool:
        """Whether all samples are the same."""
        return not self._differs

    def numbers(self) -> Float64:
        """Return these moments as an array of numbers, to send them to another process."""
        return np.concatenate([[self.n_samples, self._squares, self._differs], self._first, self._mean])

    @classmethod
    def from_numbers(cls, numbers: Float64) -> Moments:
        """Return the moments with these :meth:`numbers`."""
        moments = cls()
        moments.n_samples, moments._squares, moments._differs = int(numbers[0]), float(numbers[1]), bool(numbers[2])
        moments._first, moments._mean = np.split(numbers[3:], 2)
        return moments

    def center_and_scale(self) -> tuple[Array, float]:
        """Return the mean of every feature, and the root of the features' mean variance; 1 for constant data."""
        scale = float(np.sqrt(self._squares / max(self.n_samples * self._mean.size, 1)))
        _check_moments(np.isfinite(scale), scale > 0 or not self._differs)
        return self._first + self._mean, scale or 1.0


def moments_of(arrays: Iterable[Array]) -> Moments:
    """Return the moments of samples in several arrays."""
    moments = Moments()
    for array in arrays:
        moments.add(array)
    return moments


def center_and_scale(X: Array) -> tuple[Array, float]:
    """Return the mean of every feature, and the root of the features' mean variance."""
    return moments_of([X]).center_and_scale()


def second_moments(X: Array, center: Array | float = 0.0, scale: float = 1.0) -> Float64:
    """Return the sum of x x' over all samples x, after they are centred and divided by a scale."""
    moments = np.zeros((X.shape[1], X.shape[1]))

    def of_block(rows: slice) -> Float64:
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            block = (X[rows].astype(np.float64) - center) / scale
            return block.T @ block

    with np.errstate(over="ignore", invalid="ignore"):
        for found in map_blocks(lambda: of_block, len(X), _BLOCK_ROWS):
            moments += found
    _check_moments(bool(np.isfinite(moments).all()), bool(moments.any() or not np.any(center != X)))
    return moments


def check_squares(X: Any, subject: str = "the samples have", dtype: Any = None, *, small: bool = True) -> None:
    """Raise an error if finite samples are so large or so small that distances between them cannot be computed.

    ``X`` may be sparse. ``dtype`` is the type in which it will be used, by default its own. If ``small``, samples whose
    squares are all 0 are an error, too. The ``subject`` begins the message.
    """
    if dtype is None:
        dtype = X.dtype if X.dtype.kind == "f" else np.float64
    largest = max(float(X.max()), -float(X.min()))
    most = float(np.sqrt(float(np.finfo(dtype).max) / (16 * X.shape[1])))
    least = max(float(np.finfo(dtype).tiny), float(np.sqrt(np.finfo(np.float64).tiny))) if small else 0.0
    if largest > most or 0 < largest < least:
        size = "large" if largest > most else "small"
        raise ValueError(
            f"{subject} values of up to {largest:.2g}, which are too {size} to be squared in {np.dtype(dtype)}: scale "
            f"them to about 1"
        )


def unit_rows(rows: Array) -> Array:
    """Return rows scaled to unit norm, in the same type; those of norm 0 are unchanged."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0).astype(np.float64)
    # Squares of very large or small numbers overflow or underflow in every type.
    scaled = rows / np.where(largest > 0, largest, 1)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(norms > 0, norms, 1), rows.dtype)


def _check_moments(finite: bool, some: bool) -> None:
    """Raise an error if squares overflow or underflow in double precision."""
    if not finite:
        raise ValueError("the data are too large to be squared in double precision: divide them by their largest value")
    if not some:
        raise ValueError("the data are too small to be squared in double precision: multiply them by a large number")
