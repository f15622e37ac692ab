"""Small pictures of all images of a page in a few sheets, and simple measures of how images look."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..images.reading import ImageCollection, resized
from ..plotting import tiled
from ..utils.threads import map_tasks
from ..utils.types import Array, Progress
from .page import as_picture, jpeg, packed, values_of

_BYTES = 15_000_000  # of all pictures together, approximately
_BYTES_PER_PIXEL = 0.5
_SIDES = (24, 224)
_SHEET_SIDE = 2048  # pixels: what a phone can decode at a time
_RANGE_FROM = 200  # images that determine what is dark and what is bright, if that is unknown
FINGERPRINT = 32  # pixels per side, to compare images

#: The words for more and less of each measure of :func:`looks`.
LOOKS = [
    ("brighter", "darker"),
    ("more contrast", "less contrast"),
    ("more colorful", "less colorful"),
    ("warmer colors", "colder colors"),
    ("finer detail", "smoother"),
    ("brighter at the top", "darker at the top"),
    ("brighter in the middle", "darker in the middle"),
]


def thumbnails_of(images: ImageCollection, progress: Progress) -> tuple[NDArray[np.uint8], dict[str, Any]]:
    """Read each image once and create its small picture. With many images, the pictures are smaller.

    Returned are even smaller pictures, all square, to compare images, (n_images, 32, 32, 3); and the content of a page:
    sheets of tiles, each with a picture at its upper left, the size of each picture, and the mean color of each image.
    """
    n_images = len(images)
    longest = max(max(shape[:2]) for shape in images.shapes())
    side = tile_side(n_images, longest)
    some = images.some(np.unique(np.linspace(0, n_images - 1, min(_RANGE_FROM, n_images)).astype(int)))
    values = values_of(some)
    across = _SHEET_SIDE // side
    per_sheet = across * across
    sizes, colors = np.empty((n_images, 2), np.uint8), np.empty((n_images, 3), np.uint8)
    fingerprints = np.empty((n_images, FINGERPRINT, FINGERPRINT, 3), np.uint8)
    sheets: list[str] = []
    tiles: list[NDArray[np.uint8]] = []
    made = map_tasks(lambda: lambda number: _small(images[number], values, side), range(n_images))
    for number, picture in enumerate(made):
        sizes[number] = picture.shape[1::-1]
        colors[number] = np.rint(picture.mean(axis=(0, 1)))
        fingerprints[number] = resized(picture, FINGERPRINT, FINGERPRINT)
        tile = np.empty((side, side, 3), np.uint8)
        tile[...] = colors[number]  # the border around a picture must not stand out in compression
        tile[: picture.shape[0], : picture.shape[1]] = picture
        tiles.append(tile)
        if len(tiles) == per_sheet or number == n_images - 1:
            sheets.append(jpeg(tiled(np.stack(tiles), across)))
            tiles.clear()
        progress("draw", number + 1, n_images)
    return fingerprints, {
        "kind": "images",
        "sheets": sheets,
        "side": side,
        "across": across,
        "perSheet": per_sheet,
        "sizes": packed(sizes, np.uint8),
        "colors": packed(colors, np.uint8),
    }


def tile_side(n_images: int, longest: int) -> int:
    """Return the height and width of the pictures of this many images, in whole blocks of JPEG's 8 pixels."""
    affordable = np.sqrt(_BYTES / n_images / _BYTES_PER_PIXEL)
    return int(np.clip(8 * (affordable // 8), _SIDES[0], max(_SIDES[0], min(_SIDES[1], 8 * -(-longest // 8)))))


def _small(image: NDArray[Any], values: tuple[float, float], side: int) -> NDArray[np.uint8]:
    colors = as_picture(image, values)
    height, width = colors.shape[:2]
    scale = side / max(height, width)
    if scale >= 1:  # pixels of tiny images become squares, which JPEG does not blur
        times = int(scale)
        return np.ascontiguousarray(colors.repeat(times, axis=0).repeat(times, axis=1))
    return resized(np.ascontiguousarray(colors), max(1, round(height * scale)), max(1, round(width * scale)))


def looks(fingerprints: NDArray[np.uint8]) -> Array:
    """Measure what people would notice first in a small picture: a column for each of ``LOOKS``."""
    pixels = fingerprints.astype(np.float32)
    gray = pixels.mean(axis=3)
    brightness = gray.mean(axis=(1, 2))
    edges = np.abs(np.diff(gray, axis=1)).mean(axis=(1, 2)) + np.abs(np.diff(gray, axis=2)).mean(axis=(1, 2))
    contrast = gray.std(axis=(1, 2))
    quarter, half = FINGERPRINT // 4, FINGERPRINT // 2
    middle = gray[:, quarter:-quarter, quarter:-quarter].mean(axis=(1, 2))
    color = np.ptp(pixels, axis=3).mean(axis=(1, 2))
    warmth = (pixels[..., 0] - pixels[..., 2]).mean(axis=(1, 2))
    top = gray[:, :half].mean(axis=(1, 2)) - gray[:, half:].mean(axis=(1, 2))
    return np.stack([brightness, contrast, color, warmth, edges / (contrast + 4), top, middle - brightness], axis=1)
