"""Read an image file as an array: bytes, gray or color, or bands with their stored values. Needs Pillow."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..utils.files import NotRegularError, open_regular
from ..utils.optional import require
from .bands import BadImageError, NpyImage, TiffBands, check_sides, is_tiff, quiet_logger, tiff_directories

# The operation that turns an image upright, for each EXIF orientation that is not upright (EXIF 2.3, tag 0x0112).
_UPRIGHT: dict[int, Callable[[NDArray[Any]], NDArray[Any]]] = {
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: image.swapaxes(0, 1)[:, ::-1],
    7: lambda image: image.swapaxes(0, 1)[::-1, ::-1],
    8: lambda image: image.swapaxes(0, 1)[::-1],
}
_ORIENTATION = 0x0112
# Pillow supports more, and passes some of them to other programs, such as PostScript to Ghostscript.
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_GRAY_MODES = ("1", "L", "LA", "La", "I", "F")
#: The largest number of pixels of an image, and of all images that are decoded at the same time. Decoders need up to 12
#: bytes for each, and the result needs 3: a gigabyte in total.
LARGEST_IMAGE = 2**26
# Pixels of these cost more: WebP's decoder keeps three pictures in memory, and Pillow unpacks such BMP in Python.
_LARGEST_WEBP, _LARGEST_PACKED_BMP = 2**25, 2**24
_STRIP = 2**20  # pixels that are converted at a time
_TIFF_TILE = 322, 323  # the tags of a tile's width and height
_SAMPLES_PER_PIXEL, _PLANAR_CONFIGURATION, _EXTRA_SAMPLES = 277, 284, 338
# Warning filters belong to the whole process: only one thread may set them at a time. Pixels are decoded outside of it.
_WARNINGS = threading.Lock()


def require_pillow() -> Any:
    """Return the module PIL.Image, or raise an error that says how to install it."""
    image = require("PIL.Image", "images", "reading image files")
    quiet_logger("PIL")
    return image


class _Room:
    """Limits the number of pixels that all threads together decode at a time."""

    def __init__(self, n_pixels: int) -> None:
        self._left = self._all = n_pixels
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, n_pixels: int) -> Iterator[None]:
        """Wait until there is room, and reserve it."""
        n_pixels = min(n_pixels, self._all)
        with self._changed:
            self._changed.wait_for(lambda: n_pixels <= self._left)
            self._left -= n_pixels
        try:
            yield
        finally:
            with self._changed:
                self._left += n_pixels
                self._changed.notify_all()


_ROOM = _Room(LARGEST_IMAGE)


def decode_image(path: Path, channels: str | None = None, longest_side: int | None = None) -> NDArray[Any]:
    """Read an image file, turned upright according to its EXIF data, as (height, width) or (height, width, channels).

    By default, gray images stay gray, and others (palettes, CMYK, ...) become RGB. Alpha is dropped, 16 bits per pixel
    are rounded to 8, and the first image of an animation is used. TIFF files with other bands and .npy files keep their
    stored values. See :class:`epls.ImageFolder` for ``channels`` ("gray", "color" or "all"), ``longest_side`` and the
    limits: a BadImageError has the reason why a file cannot be used, before an image that is too large is decoded.
    """
    module = require_pillow()
    try:
        # Given a name, Pillow maps uncompressed TIFF files and garbles those that must be rotated.
        with open_regular(path) as file:
            if (bands := _bands(module, path, file, channels)) is not None:
                with _ROOM.taken(bands.n_values // 2):  # reading a value needs up to 8 bytes
                    return _as_stored(module, bands, longest_side)
            image, size = _opened(module, file, longest_side)
            with _ROOM.taken(image.width * image.height):
                image.load()
                orientation = exif_orientation(image)
                # Alpha is dropped anyway, and Pillow warns about some ways of storing it.
                image.info.pop("transparency", None)
                pixels = _pixels(image, channels)
                del image  # before the result is copied
                if pixels.shape[1::-1] != size:
                    pixels = np.array(module.fromarray(pixels).resize(size, module.Resampling.LANCZOS))
                return upright(pixels, orientation)
    except BadImageError:
        raise
    except NotRegularError as error:
        raise BadImageError("not a regular file") from error
    except MemoryError as error:
        raise BadImageError("does not fit in memory") from error
    except module.UnidentifiedImageError as error:
        raise BadImageError("not an image, or of a format that Pillow cannot read") from error
    except module.DecompressionBombError as error:
        raise BadImageError(f"too large for Pillow ({error}): shrink it with another program") from error
    except Exception as error:  # decoders of damaged files raise almost anything
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadImageError(reason or type(error).__name__) from error


def _opened(module: Any, file: BinaryIO, longest_side: int | None) -> tuple[Any, tuple[int, int]]:
    """Return an image of which only the header was read, and its final width and height."""
    with _quiet():
        image = module.open(file, formats=_FORMATS)
    width, height = image.size
    size = _small_size(image.size, longest_side)
    if size != image.size:
        # JPEG decodes faster to a half, a quarter or an eighth. Lanczos does the last step.
        image.draft(None, (2 * size[0], 2 * size[1]))
    check_sides(width, height)
    n_pixels, limit = image.width * image.height, LARGEST_IMAGE
    if image.size != (width, height):
        n_pixels = max(n_pixels, width * height // 2)  # some JPEG files are kept whole until their last byte is read
    elif image.format == "WEBP":
        limit = _LARGEST_WEBP
    elif image.format == "BMP" and image.tile and image.tile[0][0] == "bmp_rle":
        limit = _LARGEST_PACKED_BMP
    elif image.format == "TIFF":
        n_pixels = max(n_pixels, math.prod(int(image.tag_v2.get(tag, 0)) for tag in _TIFF_TILE))
    limit = min(limit, module.MAX_IMAGE_PIXELS or limit)  # Pillow's limit may be lower
    if n_pixels > limit:
        advice = ", or set longest_side (on the command line, --longest-side)" if image.format == "JPEG" else ""
        raise BadImageError(
            f"{width} x {height} pixels, {n_pixels:,} to decode; the limit for such {image.format} files is "
            f"{limit:,}: shrink it with another program{advice}"
        )
    return image, size


def _bands(module: Any, path: Path, file: BinaryIO, channels: str | None) -> NpyImage | TiffBands | None:
    """Return a file whose stored values are kept; None for other files, which Pillow reads."""
    found: NpyImage | TiffBands
    if path.suffix.lower() == ".npy":
        found = NpyImage(file)
    elif is_tiff(file) and (channels == "all" or not _is_for_pillow(module, file)):
        found = TiffBands(file, as_bands=channels == "all")
    else:
        return None
    if channels in ("gray", "color"):
        raise BadImageError(
            f'several bands, which cannot be converted to {channels}: leave out channels="{channels}" (on the '
            f"command line, --channels)"
        )
    return found


def _is_for_pillow(module: Any, file: BinaryIO) -> bool:
    """Return whether Pillow knows the bands of a TIFF file, or reports what is wrong. The file is left at its start."""
    next(tiff_directories(file), None)
    file.seek(0)
    try:
        with _quiet():
            image = module.open(file, formats=("TIFF",))
        # If bands are stored one after the other, it sees only the first: it returns that one, or fails later.
        return len(image.getbands()) > 1 or not _is_planar(image.tag_v2)
    except module.UnidentifiedImageError:
        return False
    except Exception:  # reported when it is opened again
        return True
    finally:
        file.seek(0)


def _is_planar(tags: Any) -> bool:
    """Return whether there are several bands, one after the other, and the last of two is not transparency."""
    n_samples, alpha = int(tags.get(_SAMPLES_PER_PIXEL, 1)), tags.get(_EXTRA_SAMPLES) in ((1,), (2,))
    return tags.get(_PLANAR_CONFIGURATION) == 2 and n_samples > (2 if alpha else 1)


def _as_stored(module: Any, bands: NpyImage | TiffBands, longest_side: int | None) -> NDArray[Any]:
    image = upright(bands.read(), bands.orientation)
    size = _small_size((image.shape[1], image.shape[0]), longest_side)
    if size == image.shape[1::-1]:
        return image
    stored = image.reshape(*image.shape[:2], -1)
    small = np.empty((size[1], size[0], stored.shape[2]), image.dtype)
    for band in range(stored.shape[2]):
        whole = module.fromarray(np.ascontiguousarray(stored[:, :, band], np.float32))
        resized = np.asarray(whole.resize(size, module.Resampling.LANCZOS), np.float64)
        if image.dtype.kind in "ui":
            limits = np.iinfo(image.dtype)
            resized = np.clip(np.rint(resized), limits.min, limits.max)
        small[:, :, band] = resized if image.dtype.kind != "b" else resized > 0.5
    return small.reshape(small.shape[: image.ndim])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Pillow's warnings: those about metadata are harmless, and :func:`_opened` checks sizes."""
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def upright(image: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return the pixels (height, width, ...) of an image with this EXIF orientation, turned upright."""
    turn = _UPRIGHT.get(orientation)
    return image if turn is None else np.ascontiguousarray(turn(image))


def exif_orientation(image: Any) -> int:
    """Return the EXIF orientation of a Pillow image whose pixels are loaded; 1 is upright."""
    if image.format == "TIFF":
        return 1  # Pillow has turned it, and not all versions remove the tag
    try:
        with _quiet():
            return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged metadata raise almost anything, but the pixels are valid
        return 1


def _pixels(image: Any, channels: str | None) -> NDArray[np.uint8]:
    """Convert an image strip by strip, without a second copy of a large image."""
    is_gray = image.mode in _GRAY_MODES or image.mode.startswith("I;16")
    to_gray = channels == "gray" or (is_gray and channels is None)
    pixels = np.empty((image.height, image.width) if to_gray else (image.height, image.width, 3), np.uint8)
    n_rows = max(1, _STRIP // max(image.width, 1))
    for top in range(0, image.height, n_rows):
        strip = image.crop((0, top, image.width, min(top + n_rows, image.height)))
        if is_gray:
            gray = _eight_bits(np.asarray(strip)) if image.mode[0] in "IF" else np.asarray(strip.convert("L"))
            pixels[top : top + n_rows] = gray if to_gray else gray[:, :, None]
        else:
            color = strip.convert("RGB")  # Pillow cannot always convert CMYK and others directly to "L"
            pixels[top : top + n_rows] = np.asarray(color.convert("L") if to_gray else color)
    return pixels


def _small_size(size: tuple[int, int], longest_side: int | None) -> tuple[int, int]:
    """Return width and height in the same proportion, with the larger one at most this long."""
    longest = max(size)
    if longest_side is None or longest <= longest_side:
        return size
    width, height = (max(1, round(side * longest_side / longest)) for side in size)
    return width, height


def _eight_bits(gray: NDArray[Any]) -> NDArray[np.uint8]:
    """Round numbers from 0 to 65535 to bytes, so that black stays black and white stays white."""
    if gray.dtype.kind == "f" or gray.min() < 0 or gray.max() > 65535:
        raise BadImageError(
            f"{gray.dtype.name} pixels from {gray.min():g} to {gray.max():g}; only integers from 0 to 65535 are "
            f'supported: convert it to 8 or 16 bits, or read the values of a TIFF file with channels="all"'
        )
    return ((gray.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
