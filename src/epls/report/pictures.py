"""Small pictures for pages: sheets of tiles, thumbnails, and SVG charts in the colors of the page."""

from __future__ import annotations

import base64
import io
import math
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.tiles import bar_tiles as bar_tiles
from ..utils.types import Array

_OUTLIERS = (0.5, 99.5)  # percent


def data_url(content: bytes, kind: str) -> str:
    """Return a file as a data address for a page."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def png(pixels: NDArray[np.uint8]) -> str:
    """Return a picture (height, width, 3) as a data address for a page."""
    file = io.BytesIO()
    _pillow().fromarray(pixels).save(file, "png", optimize=True)
    return data_url(file.getvalue(), "image/png")


def jpeg(pixels: NDArray[np.uint8]) -> str:
    """Return a photograph (height, width, 3) as a data address, in separate blocks of 8 x 8 pixels."""
    file = io.BytesIO()
    _pillow().fromarray(pixels).save(file, "jpeg", quality=80, subsampling=0, optimize=True)
    return data_url(file.getvalue(), "image/jpeg")


def resized(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Resize a picture (height, width, 3) to a square."""
    return np.asarray(_pillow().fromarray(np.ascontiguousarray(pixels)).resize((side, side)))


def thumbnail(pixels: NDArray[np.uint8], longest_side: int) -> str:
    """Return a photograph (height, width, 3) as a data address, shrunk if it is larger than the limit."""
    picture = _pillow().fromarray(pixels)
    picture.thumbnail((longest_side, longest_side))
    file = io.BytesIO()
    picture.save(file, "jpeg", quality=70)
    return data_url(file.getvalue(), "image/jpeg")


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('pages with pictures require Pillow: pip install "epls[images]"') from error
    return Image


def shrunk(pictures: NDArray[Any], longest_side: int) -> NDArray[Any]:
    """Average blocks of pixels of pictures (n, height, width, channels) until no side is longer than the limit."""
    step = -(-max(pictures.shape[1:3]) // longest_side)
    if step == 1:
        return pictures
    height, width = (-(-side // step) for side in pictures.shape[1:3])
    edges = ((0, 0), (0, height * step - pictures.shape[1]), (0, width * step - pictures.shape[2]), (0, 0))
    padded = np.pad(pictures, edges, mode="edge")
    means = padded.reshape(len(pictures), height, step, width, step, -1).mean(axis=(2, 4))
    return np.rint(means).astype(pictures.dtype) if pictures.dtype.kind in "ui" else means.astype(pictures.dtype)


def sheet(tiles: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], int]:
    """Arrange tiles (n, height, width, 3) in a nearly square picture. Also return the number of tiles in a row."""
    n_columns = max(1, math.ceil(math.sqrt(len(tiles))))
    n_rows = -(-len(tiles) // n_columns)
    _, height, width, _ = tiles.shape
    room = np.zeros((n_rows * n_columns, height, width, 3), np.uint8)
    room[: len(tiles)] = tiles
    picture = room.reshape(n_rows, n_columns, height, width, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(picture.reshape(n_rows * height, n_columns * width, 3)), n_columns


def as_color(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert pictures (..., 1 or 3 channels) to red, green and blue."""
    return pixels if pixels.shape[-1] == 3 else np.repeat(pixels, 3, axis=-1)


def shown_range(pixels: NDArray[Any], n_channels: int) -> tuple[float, float]:
    """Return the dark and the bright value for pictures of pixels, which were converted to one or three channels."""
    if n_channels not in (1, 3):  # a few outliers in a band would leave the rest dark
        low, high = np.percentile(pixels, _OUTLIERS)
        return float(low), float(high)
    return (0.0, 255.0) if pixels.dtype == np.uint8 else (float(pixels.min()), float(pixels.max()))


def as_bytes(pixels: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Convert pixels of any type to bytes, dark at ``low`` and bright at ``high``."""
    if pixels.dtype == np.uint8:
        return pixels
    scaled = (pixels.astype(np.float64) - low) / ((high - low) or 1.0)
    return np.rint(np.clip(scaled, 0, 1) * 255).astype(np.uint8)


def line_chart(values: Array, x_label: str, y_label: str) -> str:
    """Return an SVG of a curve over 1, 2, 3, ...; logarithmic if values differ by more than a factor of ten."""
    low, high = float(np.min(values)), float(np.max(values))
    heights = np.asarray(values, float)
    if 0 < 10 * low < high:
        heights, y_label = np.log(heights), f"{y_label} (logarithmic)"
    heights = (heights - heights.min()) / (np.ptp(heights) or 1.0)
    steps = max(len(values) - 1, 1)
    points = [(40 + 250 * k / steps, 110 - 95 * height) for k, height in enumerate(heights)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return _chart(f'<polyline points="{path}"/>', (1, len(values)), (low, high), x_label, y_label)


def bar_chart(counts: Array, low: float, high: float, x_label: str, y_label: str) -> str:
    """Return an SVG of a histogram of values from ``low`` to ``high``."""
    width, most = 250 / len(counts), max(float(np.max(counts)), 1.0)
    bars = "".join(
        f'<rect x="{40 + k * width:.1f}" y="{110 - 95 * count / most:.1f}" width="{max(width - 1, 0.5):.1f}" '
        f'height="{95 * count / most:.1f}"/>'
        for k, count in enumerate(counts)
    )
    return _chart(bars, (low, high), (0, most), x_label, y_label)


def _chart(marks: str, x_range: tuple[float, float], y_range: tuple[float, float], x_label: str, y_label: str) -> str:
    def text(x: int, y: int, value: str, anchor: str) -> str:
        return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(value)}</text>'

    return (
        f'<svg viewBox="0 0 300 140" role="img" aria-label="{escape(y_label)} by {escape(x_label)}">{marks}'
        f'<path class="axis" d="M40 10 V110 H292"/>{text(36, 114, _short(y_range[0]), "end")}'
        f"{text(36, 19, _short(y_range[1]), 'end')}{text(40, 124, _short(x_range[0]), 'middle')}"
        f"{text(290, 124, _short(x_range[1]), 'end')}{text(165, 134, x_label, 'middle')}{text(44, 9, y_label, 'start')}"
        f"</svg>"
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.3g}"
