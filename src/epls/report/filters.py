"""Properties of a filter of an image patch, in numbers: its orientation, frequency and color."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..utils.types import Array

_FFT_SIDE = 64  # padded, to resolve frequencies more finely than the patch does


@dataclass(frozen=True)
class FilterStatistics:
    """The strongest wave in each filter.

    Attributes
    ----------
    orientation : ndarray of shape (n,)
        The direction of the crests in degrees, 0 to 180: 0 is a horizontal edge, 45 rises to the right.
    frequency : ndarray of shape (n,)
        Waves per pixel, 0 to 0.71. At 0.5, the sign changes from each pixel to the next.
    color : ndarray of shape (n,)
        The fraction of the filter's energy that is not gray: 0 for gray filters.
    """

    orientation: Array
    frequency: Array
    color: Array


def filter_statistics(filters: Array) -> FilterStatistics:
    """Compute statistics of filters of shape (n, height, width, channels)."""
    gray = filters.mean(axis=3)
    energy = np.square(filters).sum(axis=(1, 2, 3))
    gray_energy = np.square(gray).sum(axis=(1, 2)) * filters.shape[3]
    color = np.clip(1 - gray_energy / np.where(energy > 0, energy, 1), 0, 1) * (energy > 0)
    # Look for the wave in the mix of channels with the most energy: a red-green edge has no gray.
    side = max(_FFT_SIDE, *filters.shape[1:3])
    power = np.zeros((len(filters), side, side))
    for channel in range(filters.shape[3]):
        centered = filters[..., channel] - filters[..., channel].mean(axis=(1, 2), keepdims=True)
        power += np.square(np.abs(np.fft.fft2(centered, s=(side, side))))
    power[:, 0, 0] = 0
    peaks = power.reshape(len(filters), -1).argmax(axis=1)
    down, right = np.fft.fftfreq(side)[np.stack(np.unravel_index(peaks, (side, side)))]
    # Crests are perpendicular to the wave, and the rows of a picture count downwards.
    orientation = np.round(np.degrees(np.arctan2(right, down)), 9) % 180
    return FilterStatistics(orientation, np.hypot(down, right), color)
