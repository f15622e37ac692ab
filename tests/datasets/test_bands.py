"""Images of any number of bands: read as they were written, or refused with a reason before memory is taken."""

import contextlib
import io
import struct
import sys
import tracemalloc
import zlib

import imagecodecs
import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from made_up_bands import COMPRESSORS, cube, handmade_tiff, tiff, with_tags
from PIL import Image

from epls import ImageFolder
from epls.datasets import bands
from epls.datasets.bands import BadImageError
from epls.datasets.decoding import decode_image

TYPES = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.float32)


def written(folder, content, name="a.tif"):
    path = folder / name
    path.write_bytes(content)
    return path


def values(shape, dtype, seed):
    """Any values of a type, the largest and smallest among them."""
    random = np.random.RandomState(seed)
    if np.dtype(dtype).kind == "f":
        return random.normal(scale=1e3, size=shape).astype(dtype)
    limits = np.iinfo(dtype)
    image = random.randint(limits.min, int(limits.max) + 1, size=shape, dtype=dtype)
    image.flat[:2] = limits.min, limits.max
    return image


@given(data=st.data())
def test_what_tifffile_writes_is_what_is_read(tmp_path_factory, data):
    draw = data.draw
    shape = (draw(st.integers(1, 40)), draw(st.integers(1, 40)), draw(st.integers(3, 60)))
    dtype = draw(st.sampled_from(TYPES))
    options = {"bigtiff": draw(st.booleans()), "byteorder": draw(st.sampled_from("<>"))}
    layout = draw(st.sampled_from(["strips", "tiles", "default"]))
    options |= {"strips": {"rowsperstrip": draw(st.integers(1, 40))}, "tiles": {"tile": (16, 32)}, "default": {}}[
        layout
    ]
    if draw(st.booleans()):
        options["compression"] = "zlib"
        options["predictor"] = 2 if np.dtype(dtype).kind != "f" and draw(st.booleans()) else None
    image = values(shape, dtype, draw(st.integers(0, 99)))
    path = written(tmp_path_factory.mktemp("tiff"), tiff(image, planar=draw(st.booleans()), **options))
    for channels in (None, "all"):
        read = decode_image(path, channels)
        assert read.dtype == dtype
        assert read.flags.c_contiguous
        np.testing.assert_array_equal(read, image)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("predictor", [1, 2, 3])
@pytest.mark.parametrize("codec", COMPRESSORS)
def test_every_codec_and_predictor(tmp_path, codec, predictor, order):
    """Written pixel by pixel, not by tifffile."""
    number, compress = COMPRESSORS[codec]
    for dtype in (np.float32, np.float16) if predictor == 3 else (np.uint8, np.int16, np.uint32, np.float32):
        image = cube(20, 37, 50, dtype)
        read = decode_image(written(tmp_path, handmade_tiff(image, 6, compress, number, predictor, order)))
        np.testing.assert_array_equal(read, image)
        assert read.dtype == (np.float32 if np.dtype(dtype).kind == "f" else dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("parts", [{"rowsperstrip": 7}, {"tile": (16, 32)}], ids=["strips", "tiles"])
@pytest.mark.parametrize(
    "compression",
    [{"compression": name} for name in ("zstd", "lzw", "deflate", "packbits")]
    + [{"compression": name, "predictor": True} for name in ("zstd", "lzw", "deflate")],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_what_satellites_and_microscopes_write(tmp_path, compression, parts, planar, dtype):
    image = cube(37, 50, 6, dtype)
    path = written(tmp_path, tiff(image, planar=planar, **parts, **compression))
    read = decode_image(path)
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, image)


def test_tiles_that_gdal_leaves_out(tmp_path):
    """Their offset and size are 0, and the tag GDAL_NODATA has their value."""
    image = cube(32, 32, 5)
    whole = tiff(image, tile=(16, 16), compression="zstd", extratags=[(42113, 2, 0, "7", True)], metadata=None)
    with tifffile.TiffFile(io.BytesIO(whole)) as file:
        tags = [file.pages[0].tags[code] for code in (324, 325)]
    content = bytearray(whole)
    for tag in tags:  # four numbers of 32 bits, or of 16
        size = {3: 2, 4: 4}[tag.dtype]
        content[tag.valueoffset + size : tag.valueoffset + 2 * size] = bytes(size)
    image[:16, 16:] = 7
    np.testing.assert_array_equal(decode_image(written(tmp_path, bytes(content))), image)
    content[tags[0].valueoffset] ^= 1  # another tile has a place, but no bytes
    with pytest.raises(BadImageError, match="TIFF"):
        decode_image(written(tmp_path, bytes(content)))


def test_float64_becomes_float32(tmp_path):
    image = cube(9, 8, 50, np.float64)
    read = decode_image(written(tmp_path, tiff(image)))
    np.testing.assert_array_equal(read, image.astype(np.float32))
    assert read.dtype == np.float32
    np.save(tmp_path / "a.npy", image)
    np.testing.assert_array_equal(decode_image(tmp_path / "a.npy"), read)
    with pytest.raises(BadImageError, match="NaN or infinite"):
        decode_image(written(tmp_path, tiff(image * 1e300)))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_npy_in_rows_or_columns(tmp_path, dtype):
    image = cube(9, 8, 50, dtype)
    for stored in (image, np.asfortranarray(image), image.astype(image.dtype.newbyteorder(">"))):
        np.save(tmp_path / "a.npy", stored)
        read = decode_image(tmp_path / "a.npy")
        np.testing.assert_array_equal(read, image)
        assert read.dtype == dtype
        assert read.flags.c_contiguous


@pytest.mark.parametrize(
    ("image", "options", "expected"),
    [
        (values((9, 8), np.uint8, 0), {}, lambda image: image),
        (values((9, 8), np.uint16, 0), {}, lambda image: (image.astype(int) * 255 + 32767) // 65535),
        (values((9, 8, 3), np.uint8, 0), {"photometric": "rgb"}, lambda image: image),
        (values((9, 8, 3), np.uint16, 0), {"photometric": "rgb"}, lambda image: image >> 8),
        (values((9, 8, 4), np.uint8, 0), {"photometric": "rgb", "extrasamples": [2]}, lambda image: image[:, :, :3]),
        (values((9, 8, 4), np.uint8, 0), {"photometric": "rgb", "extrasamples": [0]}, lambda image: image[:, :, :3]),
    ],
)
def test_ordinary_photographs_are_left_to_pillow(tmp_path, monkeypatch, image, options, expected):
    """Even without tifffile; only channels="all" keeps transparency and 16 bits."""
    file = io.BytesIO()
    tifffile.imwrite(file, image, **options)
    path = written(tmp_path, file.getvalue())
    np.testing.assert_array_equal(decode_image(path, "all"), image)
    monkeypatch.setitem(sys.modules, "tifffile", None)
    read = decode_image(path)
    np.testing.assert_array_equal(read, expected(image))
    assert read.dtype == np.uint8


def test_planar_bands_are_not_taken_for_a_gray_image(tmp_path):
    """Pillow opens these as gray: of compressed bands of 8 bits it returns the first, of others it fails late."""
    for dtype in (np.uint8, np.uint16, np.float32):
        image = cube(9, 8, 4, dtype)
        path = written(tmp_path, tiff(image, planar=True, compression="zlib"))
        np.testing.assert_array_equal(decode_image(path), image)


def test_pages_are_bands_if_asked_for(tmp_path):
    image = cube(9, 8, 50)
    tifffile.imwrite(tmp_path / "a.tif", np.moveaxis(image, 2, 0), photometric="minisblack")
    np.testing.assert_array_equal(decode_image(tmp_path / "a.tif", "all"), image)
    assert decode_image(tmp_path / "a.tif").shape == (9, 8)  # the first, as of an animation
    with tifffile.TiffWriter(tmp_path / "b.tif") as file:
        for band in np.moveaxis(image, 2, 0):
            file.write(band)
            file.write(band[::2, ::2], subfiletype=1)  # a small copy
    np.testing.assert_array_equal(decode_image(tmp_path / "b.tif", "all"), image)
    with tifffile.TiffWriter(tmp_path / "c.tif") as file:
        file.write(image[:, :, 0])
        file.write(image[:5, :, 0])
    with pytest.raises(BadImageError, match=r"page 2 has 8 x 5 pixels .* the first 8 x 9"):
        decode_image(tmp_path / "c.tif", "all")


def test_pages_in_a_circle(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((2, 9, 8), np.uint8), photometric="minisblack", metadata=None)
    content = bytearray((tmp_path / "a.tif").read_bytes())
    (first,) = struct.unpack_from("<I", content, 4)
    (n_tags,) = struct.unpack_from("<H", content, first)
    (second,) = struct.unpack_from("<I", content, first + 2 + 12 * n_tags)
    (n_tags,) = struct.unpack_from("<H", content, second)
    struct.pack_into("<I", content, second + 2 + 12 * n_tags, first)
    with pytest.raises(BadImageError, match=r"TIFF"):
        decode_image(written(tmp_path, bytes(content)), "all")


def test_bands_are_turned_upright_and_shrunk(tmp_path):
    image = cube(30, 40, 5)
    path = written(tmp_path, tiff(image, extratags=[(274, 3, 1, 6, False)]))
    np.testing.assert_array_equal(decode_image(path), np.rot90(image, -1))
    small = decode_image(path, longest_side=20)
    assert small.shape == (20, 15, 5)
    assert small.dtype == np.uint16
    upright = np.ascontiguousarray(np.rot90(image, -1)[:, :, 3], np.float32)
    by_hand = np.asarray(Image.fromarray(upright).resize((15, 20), Image.Resampling.LANCZOS))
    np.testing.assert_array_equal(small[:, :, 3], np.rint(by_hand))


@pytest.mark.parametrize("channels", ["gray", "color"])
def test_bands_are_not_converted(tmp_path, channels):
    np.save(tmp_path / "a.npy", cube(5, 5, 7))
    for path in (tmp_path / "a.npy", written(tmp_path, tiff(cube(5, 5, 7)))):
        with pytest.raises(BadImageError, match=f"cannot be converted to {channels}: leave out"):
            decode_image(path, channels)


@pytest.mark.parametrize("library", ["tifffile", "imagecodecs"])
def test_without_a_library_the_extra_is_named(tmp_path, monkeypatch, library):
    path = written(tmp_path, tiff(cube(5, 5, 50)))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(BadImageError, match=rf'{library} is not installed: pip install "epls\[images\]"'):
        decode_image(path)
    with pytest.raises(ValueError, match=r'a\.tif: .*pip install "epls\[images\]"'):
        ImageFolder(tmp_path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_no_numbers(tmp_path, bad):
    image = cube(5, 6, 50, np.float32)
    image[4, 5, 49] = bad
    np.save(tmp_path / "a.npy", image)
    for path in (tmp_path / "a.npy", written(tmp_path, tiff(image))):
        with pytest.raises(BadImageError, match="pixels that are NaN or infinite: replace them"):
            decode_image(path)


@pytest.mark.parametrize("codec", COMPRESSORS)
def test_truncated_wherever_it_is_cut(tmp_path, codec):
    number, compress = COMPRESSORS[codec]
    whole = handmade_tiff(cube(20, 30, 10), 6, compress, number)
    directory = struct.unpack_from("<I", whole, 4)[0]
    for end in (0, 3, 9, 200, directory + 5, directory + 40, len(whole) - 1):
        with pytest.raises(BadImageError, match=r"."):
            decode_image(written(tmp_path, whole[:end]))
    short = handmade_tiff(cube(20, 30, 10), 6, lambda content: compress(content[:-30]), number)
    with pytest.raises(BadImageError, match=r"."):
        decode_image(written(tmp_path, short))
    np.save(tmp_path / "a.npy", cube(5, 6, 7))
    written(tmp_path, (tmp_path / "a.npy").read_bytes()[:-1], "a.npy")
    with pytest.raises(BadImageError, match="truncated"):
        decode_image(tmp_path / "a.npy")


def lying(body=b"", **tags):
    """A TIFF file of 7 x 5 pixels of 4 bytes each, with some tags of its own."""
    fields = {256: [7], 257: [5], 258: [8] * 4, 259: [1], 262: [1], 273: [8], 277: [4], 278: [5], 279: [140], 284: [1]}
    changed = {int(tag[1:]): value for tag, value in tags.items()}
    return with_tags(body or bytes(140), {tag: value for tag, value in (fields | changed).items() if value is not None})


BOMB = zlib.compress(bytes(300_000))
TILES = {"t273": None, "t278": None, "t279": None, "t259": [8], "t324": [8], "t325": [len(BOMB)]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lying(t256=[2**20], t259=[8]), "1048576 x 5 pixels; the limit is 65,535 a side: cut it into parts"),
        (lying(t256=[12_000], t257=[3_000], t278=[3_000], t259=[5]), "144,000,000 values.* limit is 134,217,728"),
        (lying(t277=[65_535], t258=[8] * 65_535, t256=[50], t257=[50], t278=[50], t259=[8]), "163,837,500 values"),
        (lying(BOMB, **TILES, t322=[6_000], t323=[6_000]), "144,000,000 values to decode"),
        (lying(BOMB, **TILES, t322=[2**14], t323=[2**14]), "tiles of 1,073,741,824 bytes.*the limit is 268,435,456"),
        (lying(t273=[2**31]), "beyond its end"),
        (lying(t279=[100]), "100 bytes, but its pixels need 140"),
        (lying(t256=[9_000], t257=[3_000], t278=[3_000]), "140 bytes, but its pixels need 108,000,000"),
        (lying(t279=[2**32 - 1]), "beyond its end"),
        (lying(t278=[1]), "1 strips or tiles instead of 5"),
        (lying(t278=[0]), "rowsperstrip is 0"),
        (lying(t256=[0]), "imagewidth is 0"),
        (lying(t257=[3, 4]), "damaged TIFF file"),
        (lying(t259=[7]), "compressed by method 7 .* LZW, Deflate, PackBits, ZSTD are supported"),
        (lying(t259=[34925]), "method 34925"),
        (lying(t259=[34887]), "method 34887"),
        (lying(t317=[3]), "predictor 3"),
        (lying(t317=[9]), "predictor 9|TIFF"),
        (lying(t262=[6]), "convert it with another program"),
        (lying(t266=[2]), "bits in reverse order"),
        (lying(t258=[12] * 4), "4 band.s. of 12 bits"),
        (lying(t258=[8, 8, 8, 16]), "4 band.s. of .*8, 8, 8, 16"),
        (lying(t339=[6] * 4), "integers of 8, 16 or 32 bits"),
        (lying(t277=[1], t258=[10]), "1 band.s. of 10 bits"),
        (lying(t277=[1], t258=[16], t339=[3]), 'one band of float16.*: read it with channels="all"'),
    ],
)  # fmt: skip
def test_lies_are_found_before_memory_is_taken(tmp_path, monkeypatch, content, reason):
    monkeypatch.setattr(bands.TiffBands, "read", lambda self: pytest.fail("it was decoded"))
    with pytest.raises(BadImageError, match=reason):
        decode_image(written(tmp_path, content))


def test_a_strip_that_is_too_short(tmp_path):
    body = zlib.compress(bytes(100))
    with pytest.raises(BadImageError, match=r"a damaged or truncated TIFF file \(.*100"):
        decode_image(written(tmp_path, lying(body, t259=[8], t279=[len(body)])))


ZEROS = bytes(2**23)
BOMBS = {
    "deflate": (8, zlib.compress(ZEROS)),
    "zstd": (50000, imagecodecs.zstd_encode(ZEROS)),
    "packbits": (32773, b"\x81\x00" * 2**15),
}


def decoded_within(path, n_bytes):
    """The image of a file, which must take no more memory than this."""
    tracemalloc.start()
    try:
        return decode_image(path)
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < n_bytes


@pytest.mark.parametrize("name", BOMBS)
def test_a_strip_expands_no_further_than_its_pixels(tmp_path, name):
    """A few bytes that become eight megabytes, in a file whose pixels need 140 bytes."""
    codec, body = BOMBS[name]
    decode_image(written(tmp_path, tiff(cube(5, 5, 7), compression="zstd"), "b.tif"))  # imports what it needs
    path = written(tmp_path, lying(body, t259=[codec], t279=[len(body)]))
    with pytest.raises(BadImageError, match="a damaged or truncated TIFF file"):
        decoded_within(path, 2**21)


def test_lzw_stops_when_the_pixels_are_full(tmp_path):
    body = imagecodecs.lzw_encode(ZEROS)
    decode_image(written(tmp_path, tiff(cube(5, 5, 7), compression="lzw"), "b.tif"))
    image = decoded_within(written(tmp_path, lying(body, t259=[5], t279=[len(body)])), 2**21)
    np.testing.assert_array_equal(image, np.zeros((5, 7, 4), np.uint8))


def test_a_strip_with_more_bytes_than_its_pixels(tmp_path):
    body = zlib.compress(bytes(140)) + bytes(100_000)
    with pytest.raises(BadImageError, match="a strip or tile has more bytes than its pixels"):
        decode_image(written(tmp_path, lying(body, t259=[8], t279=[len(body)])))


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((4, 5)), r"shape \(4, 5\); a \.npy file in a folder of images must hold one image"),
        (np.zeros((2, 4, 5, 3)), r"shape \(2, 4, 5, 3\); a \.npy file"),
        (np.zeros((4, 5, 3), complex), "complex128: pixels must be real numbers"),
        (np.zeros((4, 0, 3)), "the image is empty"),
        (np.zeros((1, 65_536, 1), np.uint8), "the limit is 65,535 a side"),
        (np.array([[["a"]]], object), "only pickle can read"),
    ],
)
def test_npy_files_that_are_no_images(tmp_path, array, reason):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(BadImageError, match=reason):
        decode_image(tmp_path / "a.npy")


def test_the_limit_of_values(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", cube(5, 6, 7))
    path = written(tmp_path, tiff(cube(5, 6, 7)))
    monkeypatch.setattr(bands, "LARGEST_VALUES", 210)
    assert decode_image(path).shape == decode_image(tmp_path / "a.npy").shape == (5, 6, 7)
    monkeypatch.setattr(bands, "LARGEST_VALUES", 209)
    for refused in (path, tmp_path / "a.npy"):
        with pytest.raises(BadImageError, match="6 x 5 pixels of 7 channels, 210 values to decode; the limit is 209"):
            decode_image(refused)


def test_nothing_is_printed_about_damaged_files(tmp_path, capfd):
    whole = tiff(cube(9, 8, 50), planar=True)
    for place in range(0, len(whole), 97):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        with contextlib.suppress(BadImageError):
            decode_image(written(tmp_path, bytes(damaged)))
    assert capfd.readouterr() == ("", "")


def chained(page, n_pages, following=0):
    """A TIFF file of pages with the same entries (tag, type, count, value or place); the last has one that follows."""
    body = bytes(2**20)
    entries = struct.pack("<H", len(page)) + b"".join(struct.pack("<HHII", *entry) for entry in sorted(page))
    first = 8 + len(body)
    places = [first + k * (len(entries) + 4) for k in range(1, n_pages)] + [following and first + following]
    return struct.pack("<2sHI", b"II", 42, first) + body + b"".join(entries + struct.pack("<I", p) for p in places)


def page_of(n_bands=1):
    tags = {256: 2, 257: 2, 258: 8, 259: 1, 262: 1, 273: 8, 277: n_bands, 278: 2, 279: 4 * n_bands, 284: 1}
    return [(tag, 4, 1, value) for tag, value in tags.items()]


@pytest.mark.parametrize("tag", [258, 270, 273, 279, 339, 700])
def test_tags_that_need_more_memory_than_the_file_are_refused(tmp_path, tag):
    """400 tags share a megabyte of values, which tifffile would read to gigabytes."""
    path = written(tmp_path, chained(page_of(5) + [(tag, kind, 2**20 // kind, 8) for kind in (2, 4)] * 200, 1))
    for channels in (None, "all"):
        tracemalloc.start()
        with pytest.raises(BadImageError, match="whose tags need more than"):
            decode_image(path, channels)
        assert tracemalloc.get_traced_memory()[1] < 2**24
        tracemalloc.stop()
    with pytest.raises(BadImageError, match="a page has 1,010 tags"):
        decode_image(written(tmp_path, chained(page_of(5) + [(tag, 4, 1, 0)] * 1000, 1)))


def test_pages_without_end_are_refused(tmp_path):
    assert decode_image(written(tmp_path, chained(page_of(), 300)), "all").shape == (2, 2, 300)
    with pytest.raises(BadImageError, match="too many pages, strips or tiles"):
        decode_image(written(tmp_path, chained([*page_of(), (254, 4, 1, 4)], 20_000)), "all")


def test_strips_that_share_their_bytes_are_refused(tmp_path):
    """Each of 60,000 strips of a pixel, which may be compressed badly, would read the same 64 kB."""
    page = [(tag, kind, count, value) for tag, kind, count, value in page_of(2) if tag not in (257, 259, 273, 278, 279)]
    page += [(257, 4, 1, 60_000), (259, 4, 1, 8), (273, 4, 60_000, 8), (278, 4, 1, 1), (279, 4, 60_000, 8 + 2**19)]
    content = bytearray(chained(page, 1))
    content[8 : 8 + 240_000] = struct.pack("<I", 8) * 60_000
    content[8 + 2**19 : 8 + 2**19 + 240_000] = struct.pack("<I", 2**16) * 60_000
    with pytest.raises(BadImageError, match=r"strips or tiles of 3,932,160,000 bytes overlap"):
        decode_image(written(tmp_path, bytes(content)))
