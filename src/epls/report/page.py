"""What all pages share: the template that becomes one file, small pictures, and charts in the colors of the page."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..images.reading import ImageCollection
from ..plotting import false_colors, tiled
from ..utils.optional import require
from ..utils.types import Array

_OUTLIERS = (0.5, 99.5)  # percent
_BAR_TILE = 24  # pixels: height and width of the picture of a component of vectors
_THUMBNAIL = 160  # pixels


def page(
    kind: str, title: str, content: dict[str, Any], *, scripts: Sequence[str] = (), styles: Sequence[str] = ()
) -> str:
    """Return the HTML of a page: style, script and content in one file, so that it works offline.

    ``kind`` selects the body. The scripts, by default the one of this kind, show the content, which has plain values
    and arrays.
    """
    style = "".join(_asset(f"{name}.css") for name in ("report", *styles))
    script = "".join(_asset(f"{name}.js") for name in ("common", *(scripts or (kind,))))
    # A "<" in the content could end the script early, as in "</script>".
    data = json.dumps(content, separators=(",", ":"), allow_nan=False, default=_plain).replace("<", "\\u003c")
    title = title.encode("utf-8", "backslashreplace").decode()  # file names need not be valid UTF-8
    return _asset("page.html").format(
        title=escape(title),
        version=escape(__version__),
        style=style,
        body=_asset(f"{kind}.html"),
        data=data,
        script=script,
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _plain(values: NDArray[Any]) -> list[Any]:
    """Return the numbers of an array, with as many digits as a page needs."""
    return [short(value) for value in values] if values.dtype.kind == "f" else values.tolist()


def short(value: Any) -> float:
    """Return a number with as many digits as a page needs."""
    return float(f"{float(value):.4g}")


def packed(values: Any, dtype: Any) -> str:
    """Encode numbers as text for a typed array in the page. It is much smaller and faster than JSON."""
    little: NDArray[Any] = np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode()


def png(pixels: NDArray[np.uint8]) -> str:
    """Return a picture (height, width, 3) as a data address."""
    return _data_address(_picture(pixels), "png", optimize=True)


def jpeg(pixels: NDArray[np.uint8]) -> str:
    """Return a photograph (height, width, 3) as a data address, in separate blocks of 8 x 8 pixels."""
    return _data_address(_picture(pixels), "jpeg", quality=80, subsampling=0, optimize=True)


def thumbnail_of(picture: NDArray[np.uint8], name: str) -> dict[str, Any]:
    """Return a picture made small, its name and its size."""
    small = _picture(picture)
    small.thumbnail((_THUMBNAIL, _THUMBNAIL))
    url = _data_address(small, "jpeg", quality=70)
    return {"url": url, "name": name, "height": picture.shape[0], "width": picture.shape[1]}


def resized(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Resize a picture (height, width, 3) to a square."""
    return np.asarray(_picture(pixels).resize((side, side)))


def _picture(pixels: NDArray[np.uint8]) -> Any:
    image = require("PIL.Image", "images", "a page with pictures")
    return image.fromarray(np.ascontiguousarray(pixels))


def _data_address(picture: Any, kind: str, **options: Any) -> str:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def sheet_of(tiles: NDArray[np.uint8], *, photographs: bool = False) -> dict[str, Any]:
    """Return tiles as one nearly square picture, either lossless or as a photograph."""
    picture = tiled(tiles)
    rows, columns = (whole // part for whole, part in zip(picture.shape[:2], tiles.shape[1:3], strict=True))
    return {"url": jpeg(picture) if photographs else png(picture), "columns": columns, "rows": rows}


def shrunk(tiles: NDArray[Any], longest_side: int) -> NDArray[Any]:
    """Average blocks of pixels of tiles (n, height, width, channels) until no side is longer than the limit."""
    step = -(-max(tiles.shape[1:3]) // longest_side)
    if step == 1:
        return tiles
    height, width = (-(-side // step) for side in tiles.shape[1:3])
    edges = ((0, 0), (0, height * step - tiles.shape[1]), (0, width * step - tiles.shape[2]), (0, 0))
    padded = np.pad(tiles, edges, mode="edge")
    means = padded.reshape(len(tiles), height, step, width, step, -1).mean(axis=(2, 4))
    return np.rint(means).astype(tiles.dtype) if tiles.dtype.kind in "ui" else means.astype(tiles.dtype)


def as_picture(pixels: NDArray[Any], value_range: tuple[float, float]) -> NDArray[np.uint8]:
    """Convert pixels (..., channels) of any type to red, green and blue, dark and bright at the given values."""
    colors = false_colors(pixels)
    if colors.dtype != np.uint8:
        low, high = value_range
        scaled = (colors.astype(np.float64) - low) / ((high - low) or 1.0)
        colors = np.rint(np.clip(scaled, 0, 1) * 255).astype(np.uint8)
    return colors if colors.shape[-1] == 3 else np.repeat(colors, 3, axis=-1)


def values_of(images: ImageCollection) -> tuple[float, float]:
    """Return the pixel values to draw as black and white. For gray or color bytes, they are known in advance."""
    if images[0].dtype == np.uint8 and images.n_channels in (1, 3):
        return 0.0, 255.0
    ranges = [_shown_range(false_colors(images[k]), images.n_channels) for k in range(len(images))]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _shown_range(pixels: NDArray[Any], n_channels: int) -> tuple[float, float]:
    if n_channels not in (1, 3):  # a few outliers in a band would leave the rest dark
        low, high = np.percentile(pixels, _OUTLIERS)
        return float(low), float(high)
    return (0.0, 255.0) if pixels.dtype == np.uint8 else (float(pixels.min()), float(pixels.max()))


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

    def number(value: float) -> str:
        return f"{value:.0f}" if float(value).is_integer() else f"{value:.3g}"

    return (
        f'<svg viewBox="0 0 300 140" role="img" aria-label="{escape(y_label)} by {escape(x_label)}">{marks}'
        f'<path class="axis" d="M40 10 V110 H292"/>{text(36, 114, number(y_range[0]), "end")}'
        f"{text(36, 19, number(y_range[1]), 'end')}{text(40, 124, number(x_range[0]), 'middle')}"
        f"{text(290, 124, number(x_range[1]), 'end')}{text(165, 134, x_label, 'middle')}{text(44, 9, y_label, 'start')}"
        f"</svg>"
    )
