"""What a filter of an image patch looks like, in numbers: its orientation, how fine it is, how colorful."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..utils.types import Array

_FFT_SIDE = 64  # padded, so that frequencies are told finer than the patch's own


@dataclass(frozen=True)
class FilterStatistics:
    """The strongest wave in each filter.

    Attributes
    ----------
    orientation : ndarray of shape (n,)
        The direction of its crests in degrees, 0 to 180: 0 is a horizontal edge, 45 rises to the right.
    frequency : ndarray of shape (n,)
        Waves per pixel, 0 to 0.71; 0.5 changes its sign from each pixel to the next.
    color : ndarray of shape (n,)
        The share of the filter's energy that is not gray: 0 for gray filters.
    """

    orientation: Array
    frequency: Array
    color: Array


def filter_statistics(filters: Array) -> FilterStatistics:
    """Statistics of filters of shape (n, height, width, channels)."""
    gray = filters.mean(axis=3)
    energy = np.square(filters).sum(axis=(1, 2, 3))
    gray_energy = np.square(gray).sum(axis=(1, 2)) * filters.shape[3]
    color = np.clip(1 - gray_energy / np.where(energy > 0, energy, 1), 0, 1) * (energy > 0)
    # The wave is sought in the channel mix that has most of it: a red-green edge has no gray.
    side = max(_FFT_SIDE, *filters.shape[1:3])
    power = np.zeros((len(filters), side, side))
    for channel in range(filters.shape[3]):
        centered = filters[..., channel] - filters[..., channel].mean(axis=(1, 2), keepdims=True)
        power += np.square(np.abs(np.fft.fft2(centered, s=(side, side))))
    power[:, 0, 0] = 0
    peaks = power.reshape(len(filters), -1).argmax(axis=1)
    down, right = np.fft.fftfreq(side)[np.stack(np.unravel_index(peaks, (side, side)))]
    # Crests are at right angles to the wave, and pictures' rows count downwards.
    orientation = np.round(np.degrees(np.arctan2(right, down)), 9) % 180
    return FilterStatistics(orientation, np.hypot(down, right), color)
