"""One image file as an array of bytes, gray or color, whatever it holds. Needs Pillow."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._files import Bytes

# What turns an image upright, for each EXIF orientation but the upright one (EXIF 2.3, tag 0x0112).
_UPRIGHT: dict[int, Callable[[Bytes], Bytes]] = {
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: image.swapaxes(0, 1)[:, ::-1],
    7: lambda image: image.swapaxes(0, 1)[::-1, ::-1],
    8: lambda image: image.swapaxes(0, 1)[::-1],
}
_ORIENTATION = 0x0112
# Pillow knows more, and hands some of them to other programs: PostScript to Ghostscript.
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_GRAY_MODES = ("1", "L", "LA", "La", "I", "F")
# Filters of warnings belong to the whole process: one thread at a time may set them. Pixels are decoded outside of it.
_WARNINGS = threading.Lock()


class BadImageError(ValueError):
    """A file that is no usable image. The message is the reason, without the file's name."""


def require_pillow() -> Any:
    """The module PIL.Image, or an error that says how to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('reading image files needs Pillow: pip install "epls[images]"') from error
    return Image


def decode_image(path: Path, channels: str | None = None, longest_side: int | None = None) -> Bytes:
    """Read an image file, turned upright as its EXIF data say.

    Parameters
    ----------
    path : Path
        The file. Of an animation, the first image is taken.
    channels : {"gray", "color"} or None
        What to convert it to; by default gray images stay gray, and others (palettes, CMYK, ...) become RGB. Alpha
        is dropped, and 16 bits per pixel are rounded to 8.
    longest_side : int or None
        Pixels of height or width, whichever is more, that a larger image is shrunk to; by default none is.

    Returns
    -------
    ndarray of uint8 of shape (height, width) or (height, width, 3)
        The pixels.

    Raises
    ------
    BadImageError
        With the reason why the file cannot be used.
    """
    module = require_pillow()
    if path.exists() and not path.is_file():
        raise BadImageError("not a regular file")  # a pipe would be waited for without end
    try:
        # Given a name, Pillow maps uncompressed TIFF files and garbles those that are to be turned on their side.
        with open(path, "rb") as file:
            with _quiet_but_for_bombs(module):
                image = module.open(file, formats=_FORMATS)
            size = _small_size(image.size, longest_side)
            if size != image.size:
                # JPEG decodes to a half, a quarter or an eighth in less time. The last step is left to Lanczos.
                image.draft(None, (2 * size[0], 2 * size[1]))
            image.load()
            with _quiet_but_for_bombs(module):
                orientation = _orientation(image)
            # Alpha is dropped anyhow, and Pillow warns about some ways of giving it.
            image.info.pop("transparency", None)
            pixels = _pixels(image, channels)
            if pixels.shape[1::-1] != size:
                pixels = np.array(module.fromarray(pixels).resize(size, module.Resampling.LANCZOS))
    except BadImageError:
        raise
    except module.UnidentifiedImageError as error:
        raise BadImageError("not an image, or of a kind that Pillow cannot read") from error
    except Exception as error:  # decoders of damaged files raise almost anything
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadImageError(reason or type(error).__name__) from error
    turn = _UPRIGHT.get(orientation)
    return pixels if turn is None else np.ascontiguousarray(turn(pixels))


@contextmanager
def _quiet_but_for_bombs(module: Any) -> Iterator[None]:
    """Raise Pillow's warning about sizes that fill the memory; silence those about metadata, which do no harm."""
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", module.DecompressionBombWarning)
        yield


def _orientation(image: Any) -> int:
    if image.format == "TIFF":
        return 1  # Pillow has turned it, and not all versions forget the tag then
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged metadata raise almost anything, and the pixels are good without them
        return 1


def _pixels(image: Any, channels: str | None) -> Bytes:
    is_gray = image.mode in _GRAY_MODES or image.mode.startswith("I;16")
    if is_gray:
        gray = _eight_bits(np.asarray(image)) if image.mode[0] in "IF" else np.array(image.convert("L"))
        return np.repeat(gray[:, :, None], 3, axis=2) if channels == "color" else gray
    color = image.convert("RGB")  # "L" straight from CMYK and others is not always known to Pillow
    return np.array(color.convert("L") if channels == "gray" else color)


def _small_size(size: tuple[int, int], longest_side: int | None) -> tuple[int, int]:
    """Width and height, in proportion, of which the larger is no more than that."""
    longest = max(size)
    if longest_side is None or longest <= longest_side:
        return size
    width, height = (max(1, round(side * longest_side / longest)) for side in size)
    return width, height


def _eight_bits(gray: NDArray[Any]) -> Bytes:
    """Numbers from 0 to 65535 rounded to bytes, so that black and white stay what they are."""
    if gray.dtype.kind == "f" or gray.min() < 0 or gray.max() > 65535:
        raise BadImageError(
            f"{gray.dtype.name} pixels from {gray.min():g} to {gray.max():g}, where 0 to 65535 in whole numbers is "
            f"the most: convert it to 8 or 16 bits"
        )
    return ((gray.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
