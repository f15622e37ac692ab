"""Pictures of filters, as arrays and on axes of matplotlib (``pip install "epls[plot]"``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state

from .images.patches import with_channels
from .utils.optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def filter_grid(
    components: ArrayLike,
    patch_shape: tuple[int, ...],
    *,
    n_filters: int | None = 100,
    random_state: Any = 0,
) -> NDArray[np.uint8]:
    """Draw components as small images, side by side.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Components of image patches.
    patch_shape : (height, width) or (height, width, channels)
        The shape of a patch. One channel is shown in gray, three as red, green and blue, and other numbers in
        :func:`false_colors`.
    n_filters : int or None, default=100
        The number of components to show, drawn at random as in the paper's figure. None shows all in order.
    random_state : int, RandomState or None, default=0
        Determines which components are shown.

    Returns
    -------
    ndarray of uint8, (height, width, 3)
        The picture. Zero is mid gray, and each component has its own scale.
    """
    flat = check_array(components, dtype=np.float64)
    shape = with_channels(patch_shape, flat.shape[1])
    if n_filters is not None and n_filters < 1:
        raise ValueError(f"n_filters={n_filters}: give at least 1, or None for all")
    if n_filters is not None and n_filters < len(flat):
        flat = flat[check_random_state(random_state).permutation(len(flat))[:n_filters]]
    lines = ((0, 0), (1, 0), (1, 0), (0, 0))  # black, above and to the left of each filter
    picture = tiled(np.pad(filter_pictures(flat.reshape(-1, *shape)), lines))
    return np.pad(picture, ((0, 1), (0, 1), (0, 0)))


def tiled(tiles: NDArray[np.uint8], n_columns: int | None = None) -> NDArray[np.uint8]:
    """Arrange tiles (n, height, width, 3) in rows of one picture, which is nearly square by default."""
    n_columns = n_columns or int(np.ceil(np.sqrt(len(tiles))))
    n_rows = -(-len(tiles) // n_columns)
    _, height, width, _ = tiles.shape
    room = np.zeros((n_rows * n_columns, height, width, 3), np.uint8)
    room[: len(tiles)] = tiles
    picture = room.reshape(n_rows, n_columns, height, width, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(picture.reshape(n_rows * height, n_columns * width, 3))


def filter_pictures(filters: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Convert filters (n, height, width, channels) to bytes of red, green and blue. Zero is mid gray."""
    filters = false_colors(filters)
    largest = np.abs(filters).max(axis=(1, 2, 3), keepdims=True)
    scaled = filters / np.where(largest > 0, largest, 1) / 2 + 0.5
    return np.broadcast_to(np.rint(scaled * 255).astype(np.uint8), (*filters.shape[:3], 3))


def false_colors(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return pixels with three channels to show as red, green and blue, whatever their number of channels.

    Channels are treated as a spectrum from short to long waves. The first third is averaged to blue, the middle third
    to green, and the last third to red. Thirds share a channel if the number of channels is not a multiple of three.

    Parameters
    ----------
    pixels : ndarray of shape (..., channels)
        Pixels. Those with one channel (gray) or three (red, green, blue) are returned unchanged.

    Returns
    -------
    ndarray of shape (..., 3), or (..., 1) for one channel
        The colors. If they were averaged, they are float32, or float64 for float64 pixels.

    Examples
    --------
    >>> import numpy as np
    >>> false_colors(np.array([[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]]))
    array([[55., 35., 15.]])
    """
    if pixels.shape[-1] in (1, 3):
        return pixels
    dtype = np.float64 if pixels.dtype == np.float64 else np.float32
    thirds = _thirds(pixels.shape[-1])[::-1]
    return np.stack([pixels[..., start:stop].mean(axis=-1, dtype=dtype) for start, stop in thirds], axis=-1)


def colors_shown(n_channels: int) -> str | None:
    """Describe in words how :func:`false_colors` treats this many channels; None if the colors are the image's own.

    Examples
    --------
    >>> colors_shown(50)
    '50 channels, counted from 0: blue is the mean of 0 to 16, green of 16 to 33, red of 33 to 49'
    """
    if n_channels in (1, 3):
        return None
    blue, green, red = (f"{a} to {b - 1}" if b - a > 1 else str(a) for a, b in _thirds(n_channels))
    return f"{n_channels} channels, counted from 0: blue is the mean of {blue}, green of {green}, red of {red}"


def _thirds(n_channels: int) -> list[tuple[int, int]]:
    """Return the first channel and the end of three parts of equal size, with at least one channel each."""
    return [(k * n_channels // 3, -(-(k + 1) * n_channels // 3)) for k in range(3)]


def plot_filters(
    components: ArrayLike,
    patch_shape: tuple[int, ...],
    *,
    n_filters: int | None = 100,
    random_state: Any = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw :func:`filter_grid`, with the same parameters, on matplotlib axes."""
    axes: Axes = (
        ax or require("matplotlib.pyplot", "plot", "plotting").subplots(layout="constrained", figsize=(6, 6))[1]
    )
    axes.imshow(filter_grid(components, patch_shape, n_filters=n_filters, random_state=random_state))
    axes.set_axis_off()
    return axes
