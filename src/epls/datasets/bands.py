"""Images with any number of bands and their stored values: TIFF files, and .npy files (height, width, channels)."""

from __future__ import annotations

import logging
import math
import os
import struct
from collections.abc import Iterator
from itertools import product
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..utils.npy import read_npy, read_npy_header

#: The largest number of pixels times bands of an image: half a gigabyte in float32. Padding in tiles counts.
LARGEST_VALUES = 2**27
#: The longest side of an image in pixels, as in JPEG: Pillow needs a few bytes for every row, and decodes whole rows.
LONGEST_SIDE = 2**16 - 1
_LARGEST_SEGMENT = 2**28  # bytes of a strip or tile, which is decompressed in one piece
# imagecodecs decompresses these into a buffer of a given size, and stops when it is full.
_UNCOMPRESSED = 1
_CODECS = {5: "LZW", 8: "Deflate", 32946: "Deflate", 32773: "PackBits", 50000: "ZSTD"}
_SEGMENT_SIDES = {False: ("rowsperstrip", "imagewidth"), True: ("tilelength", "tilewidth")}
# White is zero, black is zero, RGB, inks: others must be converted before bands can be separated.
_PHOTOMETRICS = (0, 1, 2, 5)
# Subfile, sizes, bits, compression, meaning, strips, tiles, bands and their order, type of values, depth.
_TAGS = {254, 256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 284, 317, 322, 323, 324, 325, 339, 32997, 32998}
# Bytes of memory for a tag, for a number in one, and for all tags of a file: half a million strips, ten thousand pages.
_TAG_BYTES, _NUMBER_BYTES, _MOST_TAG_BYTES = 2**9, 2**6, 2**26
_MOST_TAGS = 512  # of a page; tifffile's time for tags of one number is quadratic
_STRING_TYPES = (1, 2, 7)  # of tags: bytes and text
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


def tiff_directories(file: BinaryIO) -> Iterator[set[int]]:
    """Iterate over the pages of a TIFF file: the tags that say how to read each, even damaged ones.

    Tags may be any number of times in a file and share their values, so that a library which reads them all might need
    a thousand times the memory of the file. Before that, their number and that of their values is checked here.
    """
    n_bytes = os.fstat(file.fileno()).st_size
    file.seek(0)
    start = file.read(16)
    is_little, is_big = start[:1] == b"I", b"+" in start[2:4]
    count_bytes, offset_bytes, form = (8, 8, "HHQ8x") if is_big else (2, 4, "HHI4x")
    entries = struct.Struct(("<" if is_little else ">") + form)

    def number(content: bytes) -> int:
        return int.from_bytes(content, "little" if is_little else "big")

    place, memory, seen = number(start[8:] if is_big else start[4:8]), 0, set()
    while place:
        if place in seen:
            raise BadImageError("a damaged TIFF file: its pages form a cycle")
        seen.add(place)
        file.seek(min(place, n_bytes))
        n_tags = number(file.read(count_bytes))
        if n_tags > _MOST_TAGS:
            raise BadImageError(f"a damaged TIFF file: a page has {n_tags:,} tags")
        content = file.read(n_tags * entries.size)
        tags = list(entries.iter_unpack(content[: len(content) // entries.size * entries.size]))
        for code, kind, count in tags:
            is_string = kind in _STRING_TYPES and code not in _TAGS
            memory += _TAG_BYTES + min(count, n_bytes) * (1 if is_string else _NUMBER_BYTES)
        if memory > _MOST_TAG_BYTES:
            raise BadImageError(
                f"a TIFF file whose tags need more than {_MOST_TAG_BYTES:,} bytes of memory: it is damaged, or has too "
                f"many pages, strips or tiles; save it with fewer"
            )
        yield {code for code, _, _ in tags} & _TAGS
        file.seek(min(place + count_bytes + n_tags * entries.size, n_bytes))
        place = number(file.read(offset_bytes))


def quiet_logger(name: str) -> None:
    """Keep a library's messages about damaged files from the terminal, unless logging is configured."""
    logging.getLogger(name).addHandler(_NO_MESSAGES)


class NpyImage:
    """The image of a .npy file. At first, only its header is read. ``n_values`` is pixels times channels."""

    orientation = 1  # upright, as in EXIF

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


class TiffBands:
    """All bands of a TIFF file. At first, only its tags are read and checked. Needs tifffile and imagecodecs.

    With ``as_bands``, pages of one band each are the bands of one image, and a single band is allowed. ``n_values`` is
    the number of values to decode, including padding in tiles; ``orientation`` is as in EXIF.
    """

    def __init__(self, file: BinaryIO, as_bands: bool) -> None:
        try:
            import imagecodecs  # noqa: F401  (tifffile decompresses with it)
            import tifffile
        except ImportError as error:
            raise BadImageError(
                f"a TIFF file that Pillow cannot read; if it has several bands, tifffile can, but {error.name} is not "
                f'installed: pip install "epls[images]"'
            ) from error
        quiet_logger("tifffile")
        self._file = file
        n_bytes = os.fstat(file.fileno()).st_size
        try:
            directories = tiff_directories(file)
            tags = next(directories, set())
            file.seek(0)
            with tifffile.TiffFile(file, name="image.tif", **_OTHER_RULES) as tiff:
                self._pages = [_checked_page(tiff.pages[0], tags, n_bytes)]
                if as_bands and self._pages[0].samplesperpixel == 1:
                    self._pages += _more_bands(tiff, directories, n_bytes)
        except BadImageError:
            raise
        except Exception as error:  # invalid tags raise almost anything
            raise BadImageError(f"not an image, or a damaged TIFF file ({error})") from error
        first = self._pages[0]
        self._shape = (first.imagelength, first.imagewidth, len(self._pages) * first.samplesperpixel)
        self._type = np.dtype(first.dtype)
        if not as_bands and first.samplesperpixel == 1:
            raise BadImageError(
                f'one band of {self._type.name}, which Pillow cannot read: read it with channels="all" (on the '
                f"command line, --channels all)"
            )
        orientation = first.tags.valueof(274, 1)
        self.orientation = orientation if isinstance(orientation, int) else 1
        n_values = sum(len(page.dataoffsets) * math.prod(_segment_shape(page)) for page in self._pages)
        self.n_values = _checked_size(*self._shape, n_values)
        n_stored = sum(size for page in self._pages for size in page.databytecounts)
        if n_stored > n_bytes + 2 * n_values * self._type.itemsize:  # some programs store equal tiles once
            raise BadImageError(f"a damaged TIFF file: strips or tiles of {n_stored:,} bytes overlap")

    def read(self) -> NDArray[Any]:
        """Return the image (height, width, bands), or (height, width) for one band, in the stored type."""
        image = np.empty(self._shape, _type_in_memory(self._type))
        with np.errstate(over="ignore"):  # of float64; infinite values are refused below
            for number, page in enumerate(self._pages):
                self._read_page(page, image[:, :, number : number + 1] if len(self._pages) > 1 else image)
        return _finite(image if image.shape[2] > 1 else image[:, :, 0])

    def _read_page(self, page: Any, image: NDArray[Any]) -> None:
        """Decode the strips or tiles of a page one after the other."""
        rows, columns, _ = _segment_shape(page)
        planes = [slice(k, k + 1) for k in range(image.shape[2])] if page.planarconfig == 2 else [slice(None)]
        tops, lefts = range(0, image.shape[0], rows), range(0, image.shape[1], columns)
        for number, (bands, top, left) in enumerate(product(planes, tops, lefts)):
            part = image[top : top + rows, left : left + columns, bands]
            start, n_bytes = page.dataoffsets[number], page.databytecounts[number]
            if start == n_bytes == 0:  # GDAL leaves out tiles without values
                part[...] = page.nodata
                continue
            self._file.seek(start)
            try:  # tifffile has the decoder fill a buffer of the right size
                values = np.asarray(page.decode(self._file.read(n_bytes), number)[0][0])
            except Exception as error:  # decoders raise errors of their own
                raise BadImageError(f"a damaged or truncated TIFF file ({error})") from error
            if values.shape[0] < part.shape[0] or values.shape[1] < part.shape[1]:
                raise BadImageError("a truncated TIFF file: a strip or tile has fewer pixels than it should")
            part[...] = values[: part.shape[0], : part.shape[1]]


def _more_bands(tiff: Any, directories: Iterator[set[int]], n_bytes: int) -> Iterator[Any]:
    """Return the pages after the first, if all are bands of the same image; small copies and masks are skipped."""
    first = tiff.pages[0]
    for number, tags in enumerate(directories, 2):
        try:
            page = tiff.pages[number - 1]
        except IndexError:
            return
        if int(page.subfiletype) & _REDUCED_OR_MASK:
            continue
        _checked_page(page, tags, n_bytes)
        kind, first_kind = ((p.imagelength, p.imagewidth, p.dtype, p.samplesperpixel) for p in (page, first))
        if kind != first_kind:
            raise BadImageError(
                f"pages of different kinds: page {number} has {page.imagewidth} x {page.imagelength} pixels of "
                f"{page.samplesperpixel} x {page.dtype.name}, the first {first.imagewidth} x {first.imagelength} of "
                f"{first.dtype.name}. Save the bands of an image in one page"
            )
        yield page


def _checked_page(page: Any, tags: set[int], n_bytes: int) -> Any:
    """Return a page, after checking that what its tags say is possible in a file of this size and can be decoded."""
    if lost := tags - {tag.code for tag in page.tags}:
        raise BadImageError(f"a damaged or truncated TIFF file: its tags {sorted(lost)} cannot be read")
    for name in ("imagewidth", "imagelength", "samplesperpixel", *_SEGMENT_SIDES[bool(page.is_tiled)]):
        value = getattr(page, name)
        if not isinstance(value, int) or not 0 < value < 2**32:
            raise BadImageError(f"a damaged TIFF file: its {name} is {str(value)[:40]}")
    _check_values(page)
    rows, columns, samples = _segment_shape(page)
    planes = page.samplesperpixel // samples
    expected = planes * -(-page.imagelength // rows) * -(-page.imagewidth // columns)
    if not len(page.dataoffsets) == len(page.databytecounts) == expected:
        raise BadImageError(f"a damaged TIFF file: {len(page.dataoffsets)} strips or tiles instead of {expected}")
    places = list(zip(page.dataoffsets, page.databytecounts, strict=True))
    if any(start < 0 or size < 0 or start + size > n_bytes for start, size in places):
        raise BadImageError("a truncated TIFF file: some of its strips or tiles are beyond its end")
    n_stored = sum(size for _, size in places)
    n_needed = page.imagelength * page.imagewidth * page.samplesperpixel * page.dtype.itemsize
    if page.compression == _UNCOMPRESSED and n_stored < n_needed:
        raise BadImageError(f"a truncated TIFF file: {n_stored:,} bytes, but its pixels need {n_needed:,}")
    segment_bytes = rows * columns * samples * page.dtype.itemsize
    if page.compression != _UNCOMPRESSED and segment_bytes > _LARGEST_SEGMENT:
        raise BadImageError(
            f"strips or tiles of {segment_bytes:,} bytes, which must be decompressed in one piece; the limit is "
            f"{_LARGEST_SEGMENT:,}: save it in smaller ones, or without compression"
        )
    if max(size for _, size in places) > 2 * segment_bytes + 2**16:  # compression adds little to noise
        raise BadImageError("a damaged TIFF file: a strip or tile has more bytes than its pixels")
    return page


def _check_values(page: Any) -> None:
    """Refuse types, meanings and ways of storing the values of a page that are not supported."""
    kind = "" if page.dtype is None else np.dtype(page.dtype).str[1:]
    if kind not in _TYPES or page.bitspersample != 8 * np.dtype(kind).itemsize:
        raise BadImageError(
            f"{page.samplesperpixel} band(s) of {str(page.bitspersample)[:40]} bits; supported are integers of 8, 16 "
            f"or 32 bits and floating-point numbers of 16, 32 or 64, the same for all bands: convert it"
        )
    if int(page.photometric) not in _PHOTOMETRICS or page.imagedepth != 1 or page.fillorder != 1:
        raise BadImageError(
            "a palette, colors other than RGB, several layers or bits in reverse order, which cannot be read: convert "
            "it with another program"
        )
    codec, predictor = int(page.compression), int(page.predictor)
    if codec not in (_UNCOMPRESSED, *_CODECS) or predictor not in (1, 2, 3) or (predictor == 3 and kind[0] != "f"):
        raise BadImageError(
            f"bands that are compressed by method {codec} with predictor {predictor}; no compression, "
            f"{', '.join(dict.fromkeys(_CODECS.values()))} are supported: save it with one of these"
        )


def _segment_shape(page: Any) -> tuple[int, int, int]:
    """Return the rows, columns and bands of a strip or tile; the last strip may have fewer rows."""
    rows, columns = (getattr(page, name) for name in _SEGMENT_SIDES[bool(page.is_tiled)])
    return rows, columns, 1 if page.planarconfig == 2 else page.samplesperpixel


def check_sides(width: int, height: int) -> None:
    """Refuse an image that is too long or too wide."""
    if max(width, height) > LONGEST_SIDE:
        raise BadImageError(f"{width} x {height} pixels; the limit is {LONGEST_SIDE:,} a side: cut it into parts")


def _checked_size(height: int, width: int, n_bands: int, n_values: int) -> int:
    """Return the number of values, after checking that an image may have this many."""
    if min(height, width, n_bands) < 1:
        raise BadImageError(f"{width} x {height} pixels of {n_bands} channels: the image is empty")
    check_sides(width, height)
    if n_values > LARGEST_VALUES:
        raise BadImageError(
            f"{width} x {height} pixels of {n_bands} channels, {n_values:,} values to decode; the limit is "
            f"{LARGEST_VALUES:,}: cut it into parts"
        )
    return n_values


def _type_in_memory(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype.kind == "f" else dtype.newbyteorder("=")


def _finite(image: NDArray[Any]) -> NDArray[Any]:
    if image.dtype.kind == "f" and not all(np.isfinite(row).all() for row in image):
        raise BadImageError("pixels that are NaN or infinite: replace them")
    return image
