"""Numbers as small pictures: filters side by side, bars for vectors, channels as colors, and PNG files of them."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state

from .types import Array

_BAR_TILE = 24  # pixels: height and width of the picture of a component that is not an image


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
    shape = (*patch_shape, 1) if len(patch_shape) == 2 else tuple(patch_shape)
    if len(shape) != 3 or flat.shape[1] != int(np.prod(shape)):
        raise ValueError(
            f"components have {flat.shape[1]} features, which does not match patch_shape={tuple(patch_shape)}: give "
            f"(height, width) or (height, width, channels) of the patches that they were learned from"
        )
    if n_filters is not None and n_filters < 1:
        raise ValueError(f"n_filters={n_filters}: give at least 1, or None for all")
    if n_filters is not None and n_filters < len(flat):
        flat = flat[check_random_state(random_state).permutation(len(flat))[:n_filters]]
    return side_by_side(filter_pictures(flat.reshape(-1, *shape)), int(np.ceil(np.sqrt(len(flat)))))


def side_by_side(tiles: NDArray[np.uint8], n_columns: int) -> NDArray[np.uint8]:
    """Arrange tiles (n, height, width, 1 or 3 channels) in rows with black lines between them: (height, width, 3)."""
    _, height, width, _ = tiles.shape
    n_rows = -(-len(tiles) // n_columns)
    picture = np.zeros((n_rows * (height + 1) + 1, n_columns * (width + 1) + 1, 3), np.uint8)
    for k, tile in enumerate(tiles):
        row, column = divmod(k, n_columns)
        top, left = row * (height + 1) + 1, column * (width + 1) + 1
        picture[top : top + height, left : left + width] = tile
    return picture


def filter_pictures(filters: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Convert filters (n, height, width, channels) to bytes, with one or three channels. Zero is mid gray."""
    filters = false_colors(filters)
    largest = np.abs(filters).max(axis=(1, 2, 3), keepdims=True)
    scaled = filters / np.where(largest > 0, largest, 1) / 2 + 0.5
    return np.rint(scaled * 255).astype(np.uint8)


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


def bar_tiles(components: Array) -> NDArray[np.uint8]:
    """Draw components of vectors: a bar for each feature, up or down. A shared bar shows the strongest feature."""
    n_bars = min(components.shape[1], _BAR_TILE)
    groups = np.array_split(np.arange(components.shape[1]), n_bars)
    bars = np.stack([_strongest(components[:, group]) for group in groups], axis=1)
    largest = np.abs(bars).max(axis=1, keepdims=True)
    heights = np.rint(bars / np.where(largest > 0, largest, 1) * (_BAR_TILE // 2)).astype(int)
    bar_of_column = np.arange(_BAR_TILE) * n_bars // _BAR_TILE
    level = (_BAR_TILE // 2 - np.arange(_BAR_TILE))[None, :, None]  # of each pixel row, upwards from the middle
    height_at = heights[:, bar_of_column][:, None, :]
    tiles = np.full((len(components), _BAR_TILE, _BAR_TILE, 3), 128, np.uint8)
    tiles[(level > 0) & (level <= height_at)] = (255, 190, 90)
    tiles[(level <= 0) & (level > height_at)] = (70, 150, 230)
    return tiles


def _strongest(columns: Array) -> Array:
    return np.take_along_axis(columns, np.abs(columns).argmax(axis=1)[:, None], axis=1)[:, 0]


def png_file(pixels: NDArray[np.uint8]) -> bytes:
    """Return a picture (height, width, 3) as the content of a PNG file. Pillow is not needed.

    Examples
    --------
    >>> png_file(np.zeros((2, 3, 3), np.uint8))[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # the first byte of a row says that it is not filtered
    rows[:, 1:] = pixels.reshape(height, -1)
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0),  # 8 bits of red, green and blue
        b"IDAT": zlib.compress(rows.tobytes(), 9),
        b"IEND": b"",
    }
    chunks = [struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in parts.items()]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
