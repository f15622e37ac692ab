"""Images with any number of bands and their stored values: TIFF files, and .npy files (height, width, channels)."""

from __future__ import annotations

import io
import logging
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..utils.npy import read_npy, read_npy_header

#: The largest number of pixels times bands of an image: half a gigabyte in float32. Padding in tiles counts.
LARGEST_VALUES = 2**27
_LARGEST_SEGMENT = 2**28  # bytes of a strip or tile, which is decompressed in one piece
_LONGEST_SIDE = 2**16 - 1
# Their decoders can be stopped when a strip or tile is full.
_UNCOMPRESSED, _LZW, _PACK_BITS, _DEFLATE = 1, 5, 32773, (8, 32946)
_CODECS = (_UNCOMPRESSED, _LZW, _PACK_BITS, *_DEFLATE)
# White is zero, black is zero, RGB, inks: others must be converted before bands can be separated.
_PHOTOMETRICS = (0, 1, 2, 5)
# Subfile, sizes, bits, compression, meaning, strips, tiles, bands and their order, type of values, depth.
_TAGS = {254, 256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 284, 317, 322, 323, 324, 325, 339, 32997, 32998}
_REDUCED_OR_MASK = 0b101  # in the tag NewSubfileType
_TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4", "f8")
_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
# Formats with special rules, which tifffile would follow into other parts of a file.
_OTHER_RULES = {f"is_{name}": False for name in ("lsm", "scanimage", "ndpi", "ome", "imagej", "stk")}
_NO_MESSAGES = logging.NullHandler()


class BadImageError(ValueError):
    """A file is not a usable image. The message is the reason, without the name of the file."""


def is_tiff(file: BinaryIO) -> bool:
    """Return whether a file begins like a TIFF file. It is left at its start."""
    start = file.read(4)
    file.seek(0)
    return start in _STARTS


def quiet_logger(name: str) -> None:
    """Keep a library's messages about damaged files from the terminal, unless logging is configured."""
    logging.getLogger(name).addHandler(_NO_MESSAGES)


class NpyImage:
    """The image of a .npy file. At first, only its header is read.

    Attributes
    ----------
    n_values : int
        Pixels times channels.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._n_bytes = os.fstat(file.fileno()).st_size
        try:
            shape, _, dtype, _ = read_npy_header(file, self._n_bytes)
        except ValueError as error:
            raise BadImageError(f"not a .npy file that can be read: {error}") from error
        if len(shape) != 3:
            raise BadImageError(
                f"an array of shape {shape}; a .npy file in a folder of images must hold one image (height, width, "
                f"channels). Pass a .npy file of many images, or of vectors, by itself"
            )
        if dtype.kind not in "uifb":
            raise BadImageError(f"values of type {dtype}: pixels must be real numbers")
        self.n_values = _checked_size(shape[0], shape[1], shape[2], math.prod(shape))

    def read(self) -> NDArray[Any]:
        """Return the image (height, width, channels) in the stored type; float64 becomes float32."""
        self._file.seek(0)
        image = read_npy(self._file, self._n_bytes)
        with np.errstate(over="ignore"):  # infinite values are refused
            return _finite(np.ascontiguousarray(image, _type_in_memory(image.dtype)))


@dataclass(frozen=True)
class _Page:
    """A checked page of a TIFF file: the positions and contents of its strips or tiles.

    Attributes
    ----------
    height, width, n_bands : int
        The size of the page.
    planes : int
        The number of parts: one, with all bands of a pixel side by side, or one for each band.
    rows, columns : int
        The size of a strip or tile in pixels.
    is_tiled : bool
        Whether all have this size; otherwise the last strip is only as high as needed.
    dtype : dtype
        The stored type.
    codec, predictor : int
        As in TIFF.
    places : list of (int, int)
        Offset and number of bytes of each strip or tile.
    orientation : int
        As in EXIF.
    """

    height: int
    width: int
    n_bands: int
    planes: int
    rows: int
    columns: int
    is_tiled: bool
    dtype: np.dtype[Any]
    codec: int
    predictor: int
    places: list[tuple[int, int]]
    orientation: int

    @property
    def samples(self) -> int:
        """The number of bands that are side by side."""
        return self.n_bands // self.planes

    @property
    def segment_bytes(self) -> int:
        """The size of a decompressed strip or tile."""
        return self.rows * self.columns * self.samples * self.dtype.itemsize

    @property
    def n_values(self) -> int:
        """The number of decoded values, including padding in tiles."""
        return len(self.places) * self.rows * self.columns * self.samples

    def segments(self) -> Iterator[tuple[tuple[int, int], int, int, int]]:
        """Iterate over the offset, number of bytes, plane, top and left of each strip or tile."""
        places = iter(self.places)
        for plane in range(self.planes):
            for top in range(0, self.height, self.rows):
                for left in range(0, self.width, self.columns):
                    yield next(places), plane, top, left


class TiffBands:
    """All bands of a TIFF file. At first, only its tags are read. Needs tifffile.

    Strips and tiles are decompressed here and by Pillow, only up to the size that they must have: tifffile would expand
    everything.

    Parameters
    ----------
    pillow : module
        PIL.Image.
    file : binary file
        The file.
    as_bands : bool
        Whether pages of one band each are the bands of one image, and whether a single band is allowed.

    Attributes
    ----------
    n_values : int
        The number of values to decode.
    orientation : int
        As in EXIF.
    """

    def __init__(self, pillow: Any, file: BinaryIO, as_bands: bool) -> None:
        try:
            import tifffile
        except ImportError as error:
            raise BadImageError(
                'a TIFF file that Pillow cannot read; if it has several bands, tifffile can: pip install "epls[images]"'
            ) from error
        quiet_logger("tifffile")
        self._pillow, self._file = pillow, file
        n_bytes = os.fstat(file.fileno()).st_size
        try:
            with tifffile.TiffFile(file, name="image.tif", _multifile=False, **_OTHER_RULES) as tiff:
                order = tiff.byteorder
                self._pages = [_checked_page(tiff.pages[0], order, n_bytes)]
                if as_bands and self._pages[0].n_bands == 1:
                    self._pages += _more_bands(tiff, self._pages[0], n_bytes)
        except BadImageError:
            raise
        except Exception as error:  # invalid tags raise almost anything
            raise BadImageError(f"not an image, or a damaged TIFF file ({error})") from error
        first = self._pages[0]
        if not as_bands and first.n_bands == 1:
            raise BadImageError(
                f'one band of {first.dtype.name}, which Pillow cannot read: read it with channels="all" (on the '
                f"command line, --channels all)"
            )
        self.orientation = first.orientation
        n_values = sum(page.n_values for page in self._pages)
        self.n_values = _checked_size(first.height, first.width, len(self._pages) * first.n_bands, n_values)

    def read(self) -> NDArray[Any]:
        """Return the image (height, width, bands), or (height, width) for one band, in the stored type."""
        first = self._pages[0]
        shape = (first.height, first.width, len(self._pages) * first.n_bands)
        image = np.empty(shape, _type_in_memory(first.dtype))
        with np.errstate(over="ignore"):  # of float64; infinite values are refused below
            for number, page in enumerate(self._pages):
                bands = image[:, :, number : number + 1] if len(self._pages) > 1 else image
                self._read_page(page, bands)
        return _finite(image if shape[2] > 1 else image[:, :, 0])

    def _read_page(self, page: _Page, image: NDArray[Any]) -> None:
        for (offset, n_bytes), plane, top, left in page.segments():
            part = image[top : top + page.rows, left : left + page.columns]
            if page.planes > 1:
                part = part[:, :, plane : plane + 1]
            shape = (page.rows if page.is_tiled else len(part), page.columns, page.samples)
            self._file.seek(offset)
            content = self._file.read(n_bytes)
            content = _decompressed(self._pillow, content, page.codec, shape, page.dtype.itemsize)
            values = _values(content, page, shape)
            part[...] = values[: part.shape[0], : part.shape[1]]


def _more_bands(tiff: Any, first: _Page, n_bytes: int) -> Iterator[_Page]:
    """Return the pages after the first, if all are bands of the same image; small copies and masks are skipped."""
    seen, number = {tiff.pages[0].offset}, 1
    while True:
        try:
            page = tiff.pages[number]
        except IndexError:
            return
        if page.offset in seen:
            raise BadImageError("a damaged TIFF file: its pages form a cycle")
        seen.add(page.offset)
        number += 1
        if int(page.subfiletype) & _REDUCED_OR_MASK:
            continue
        band = _checked_page(page, tiff.byteorder, n_bytes)
        if (band.height, band.width, band.n_bands, band.dtype) != (first.height, first.width, 1, first.dtype):
            raise BadImageError(
                f"pages of different kinds: page {number} has {band.width} x {band.height} pixels of {band.n_bands} "
                f"x {band.dtype.name}, the first {first.width} x {first.height} of {first.dtype.name}. Save "
                f"the bands of an image in one page"
            )
        yield band


def _checked_page(page: Any, order: str, n_bytes: int) -> _Page:
    """Return what the tags of a page say, after checking that it is possible in a file of this size."""
    if lost := _tags_in(page) - {tag.code for tag in page.tags}:
        raise BadImageError(f"a damaged or truncated TIFF file: its tags {sorted(lost)} cannot be read")
    width, height = _number(page, "imagewidth", 2**32), _number(page, "imagelength", 2**32)
    n_bands = _number(page, "samplesperpixel", 2**16)
    kind = "" if page.dtype is None else np.dtype(page.dtype).str[1:]
    if kind not in _TYPES or page.bitspersample != 8 * np.dtype(kind).itemsize:
        raise BadImageError(
            f"{n_bands} band(s) of {str(page.bitspersample)[:40]} bits; supported are integers of 8, 16 or 32 bits "
            f"and floating-point numbers of 16, 32 or 64, the same for all bands. Convert it with another program"
        )
    if int(page.photometric) not in _PHOTOMETRICS or page.imagedepth != 1 or page.fillorder != 1:
        raise BadImageError(
            "a TIFF file with a palette, with colors other than RGB, with several layers or with bits in reverse "
            "order, whose bands cannot be read: convert it with another program"
        )
    codec, predictor = int(page.compression), int(page.predictor)
    if codec not in _CODECS or predictor not in (1, 2, 3) or (predictor == 3 and kind[0] != "f"):
        raise BadImageError(
            f"bands that are compressed by method {codec} with predictor {predictor}; no compression, LZW, Deflate and "
            f"PackBits are supported: save it with one of these"
        )
    is_tiled = bool(page.is_tiled)
    rows = _number(page, "tilelength" if is_tiled else "rowsperstrip", 2**32)
    columns = _number(page, "tilewidth", 2**32) if is_tiled else width
    planes = n_bands if page.planarconfig == 2 else 1
    expected = planes * -(-height // rows) * -(-width // columns)
    if not len(page.dataoffsets) == len(page.databytecounts) == expected:
        n_places = len(page.dataoffsets)
        raise BadImageError(f"a damaged TIFF file: {n_places} strips or tiles instead of {expected}")
    places = [(int(start), int(size)) for start, size in zip(page.dataoffsets, page.databytecounts, strict=True)]
    if any(start < 0 or size < 0 or start + size > n_bytes for start, size in places):
        raise BadImageError("a truncated TIFF file: some of its strips or tiles are beyond its end")
    orientation = page.tags.valueof(274, 1)
    checked = _Page(
        height, width, n_bands, planes, rows, columns, is_tiled, np.dtype(order + kind), codec, predictor, places,
        orientation if isinstance(orientation, int) else 1,
    )  # fmt: skip
    if checked.segment_bytes > _LARGEST_SEGMENT and codec != _UNCOMPRESSED:
        raise BadImageError(
            f"strips or tiles of {checked.segment_bytes:,} bytes, which must be decompressed in one piece; the limit "
            f"is {_LARGEST_SEGMENT:,}: save it in smaller ones, or without compression"
        )
    n_stored, n_needed = sum(size for _, size in places), checked.dtype.itemsize * height * width * n_bands
    if codec == _UNCOMPRESSED and n_stored < n_needed:
        raise BadImageError(f"a truncated TIFF file: {n_stored:,} bytes, but its pixels need {n_needed:,}")
    if max(size for _, size in places) > 2 * checked.segment_bytes + 2**16:
        raise BadImageError("a damaged TIFF file: a strip or tile has more bytes than its pixels")
    return checked


def _tags_in(page: Any) -> set[int]:
    """Return the tags that say how to read a page, even damaged ones, which tifffile leaves out."""
    file, tiff = page.parent.filehandle, page.parent
    form, n_bytes = ("Q", 20) if tiff.is_bigtiff else ("H", 12)
    file.seek(page.offset)
    (n_tags,) = struct.unpack(tiff.byteorder + form, file.read(struct.calcsize(form)))
    entries = file.read(n_tags * n_bytes)
    codes = {struct.unpack_from(tiff.byteorder + "H", entries, n_bytes * k)[0] for k in range(n_tags)}
    return codes & _TAGS


def _number(page: Any, name: str, limit: int) -> int:
    value = getattr(page, name)
    if not isinstance(value, int) or not 0 < value < limit:
        raise BadImageError(f"a damaged TIFF file: its {name} is {str(value)[:40]}")
    return int(value)


def _checked_size(height: int, width: int, n_bands: int, n_values: int) -> int:
    """Return the number of values, after checking that an image may have this many."""
    if min(height, width, n_bands) < 1:
        raise BadImageError(f"{width} x {height} pixels of {n_bands} channels: the image is empty")
    if max(width, height) > _LONGEST_SIDE:
        raise BadImageError(f"{width} x {height} pixels; the limit is {_LONGEST_SIDE:,} a side: cut it into parts")
    if n_values > LARGEST_VALUES:
        raise BadImageError(
            f"{width} x {height} pixels of {n_bands} channels, {n_values:,} values to decode; the limit is "
            f"{LARGEST_VALUES:,}: cut it into parts"
        )
    return n_values


def _decompressed(pillow: Any, content: bytes, codec: int, shape: tuple[int, int, int], itemsize: int) -> bytes:
    """Return exactly the bytes of a strip or tile of this shape."""
    n_bytes = math.prod(shape) * itemsize
    if codec in _DEFLATE:
        content = zlib.decompressobj().decompress(content, n_bytes)
    elif codec != _UNCOMPRESSED:
        content = _by_pillow(pillow, content, codec, shape[0], n_bytes // shape[0])
    if len(content) < n_bytes:
        raise BadImageError(f"a truncated TIFF file: {len(content):,} of {n_bytes:,} bytes of a strip or tile")
    return content[:n_bytes]


def _by_pillow(pillow: Any, content: bytes, codec: int, n_rows: int, n_columns: int) -> bytes:
    """Return bytes decompressed by Pillow, as the pixels of a gray image."""
    if n_rows * n_columns > (pillow.MAX_IMAGE_PIXELS or _LARGEST_SEGMENT):
        raise BadImageError(
            f"strips or tiles of {n_rows * n_columns:,} bytes, which Pillow must decompress in one piece; its limit "
            f"is {pillow.MAX_IMAGE_PIXELS:,}: save it in smaller ones, or without compression"
        )
    # Width, height, bits, compression, black is zero, offset, samples, rows in the strip, its bytes.
    tags = {256: n_columns, 257: n_rows, 258: 8, 259: codec, 262: 1, 273: 0, 277: 1, 278: n_rows, 279: len(content)}
    tags[273] = 8 + 2 + 12 * len(tags) + 4
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    file = struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + entries + bytes(4) + content
    return bytes(pillow.open(io.BytesIO(file), formats=("TIFF",)).tobytes())


def _values(content: bytes, page: _Page, shape: tuple[int, int, int]) -> NDArray[Any]:
    """Return the numbers of a strip or tile; those after the first in a row may be stored as differences."""
    if page.predictor == 3:  # of bytes: the first bytes of all numbers in a row, then the second, and so on
        differences = np.frombuffer(content, np.uint8).reshape(shape[0], -1, shape[2])
        planes = np.cumsum(differences, axis=1, dtype=np.uint8).reshape(shape[0], page.dtype.itemsize, -1)
        numbers = np.ascontiguousarray(planes.transpose(0, 2, 1)).view(page.dtype.newbyteorder(">"))
        return numbers.reshape(shape)
    values = np.frombuffer(content, page.dtype).reshape(shape)
    if page.predictor == 2:
        whole = values.astype(page.dtype.newbyteorder("=")).view(f"u{page.dtype.itemsize}")
        return np.cumsum(whole, axis=1, dtype=whole.dtype).view(page.dtype.newbyteorder("="))
    return values


def _type_in_memory(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype.kind == "f" else dtype.newbyteorder("=")


def _finite(image: NDArray[Any]) -> NDArray[Any]:
    if image.dtype.kind == "f" and not all(np.isfinite(row).all() for row in image):
        raise BadImageError("pixels that are NaN or infinite: replace them")
    return image


def shrunk_bands(
    image: NDArray[Any], size: tuple[int, int], resize: Callable[[NDArray[Any]], NDArray[Any]]
) -> NDArray[Any]:
    """Return an image with each band resized by a function from float32 to float32."""
    bands = image.reshape(*image.shape[:2], -1)
    small = np.empty((size[1], size[0], bands.shape[2]), image.dtype)
    for band in range(bands.shape[2]):
        resized = resize(np.ascontiguousarray(bands[:, :, band], np.float32)).astype(np.float64)
        if image.dtype.kind in "ui":
            limits = np.iinfo(image.dtype)
            resized = np.clip(np.rint(resized), limits.min, limits.max)
        small[:, :, band] = resized if image.dtype.kind != "b" else resized > 0.5
    return small.reshape(small.shape[: image.ndim])
