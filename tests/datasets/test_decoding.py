import contextlib
import os
import struct
import threading
import tracemalloc
import warnings
import zlib

import numpy as np
import pytest

from epls.datasets import decoding
from epls.datasets.bands import BadImageError
from epls.datasets.decoding import _Room, decode_image

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")

COLOR = np.random.RandomState(0).randint(256, size=(5, 7, 3)).astype(np.uint8)
GRAY = COLOR[:, :, 0]


def saved(path, image, **options):
    image.save(path, **options)
    return path


@pytest.mark.parametrize("end", ["png", "bmp", "tif", "ppm", "webp"])
def test_color_and_gray_are_what_was_saved(tmp_path, end):
    options = {"lossless": True} if end == "webp" else {}
    color = decode_image(saved(tmp_path / f"a.{end}", Image.fromarray(COLOR), **options))
    np.testing.assert_array_equal(color, COLOR)
    assert color.dtype == np.uint8
    assert color.flags.c_contiguous
    if end != "webp":  # which knows no gray
        np.testing.assert_array_equal(decode_image(saved(tmp_path / f"b.{end}", Image.fromarray(GRAY))), GRAY)


def test_jpeg_is_near_what_was_saved(tmp_path):
    ramp = np.add.outer(np.arange(32), np.arange(40)).astype(np.uint8)
    decoded = decode_image(saved(tmp_path / "a.jpg", Image.fromarray(ramp), quality=95))
    assert np.abs(decoded.astype(int) - ramp).max() <= 3


def test_conversion(tmp_path):
    gray, color = saved(tmp_path / "a.png", Image.fromarray(GRAY)), saved(tmp_path / "b.png", Image.fromarray(COLOR))
    np.testing.assert_array_equal(decode_image(gray, "color"), np.stack([GRAY] * 3, axis=2))
    np.testing.assert_array_equal(decode_image(gray, "gray"), GRAY)
    np.testing.assert_array_equal(decode_image(color, "color"), COLOR)
    # The weights of red, green and blue in brightness (ITU-R 601).
    np.testing.assert_allclose(decode_image(color, "gray"), COLOR @ [0.299, 0.587, 0.114], atol=1)


def test_alpha_is_dropped(tmp_path):
    alpha = np.arange(35, dtype=np.uint8).reshape(5, 7, 1)
    rgba = saved(tmp_path / "a.png", Image.fromarray(np.concatenate([COLOR, alpha], axis=2)))
    np.testing.assert_array_equal(decode_image(rgba), COLOR)
    la = saved(tmp_path / "b.png", Image.merge("LA", [Image.fromarray(GRAY), Image.fromarray(alpha[:, :, 0])]))
    np.testing.assert_array_equal(decode_image(la), GRAY)


@pytest.mark.parametrize("transparency", [None, 3, bytes(range(35))])
@pytest.mark.parametrize("channels", [None, "color", "gray"])
def test_palettes_are_color(tmp_path, transparency, channels):
    image = Image.frombytes("P", (7, 5), bytes(range(35)))
    image.putpalette(COLOR.tobytes())
    options = {} if transparency is None else {"transparency": transparency}
    decoded = decode_image(saved(tmp_path / "a.png", image, **options), channels)
    expected = COLOR if channels != "gray" else np.array(Image.fromarray(COLOR).convert("L"))
    np.testing.assert_array_equal(decoded, expected)


@pytest.mark.parametrize("channels", [None, "color", "gray"])
def test_a_color_that_is_transparent(tmp_path, channels):
    path = saved(tmp_path / "a.png", Image.fromarray(COLOR), transparency=(1, 2, 3))
    assert decode_image(path, channels).shape[:2] == (5, 7)


@pytest.mark.parametrize("end", ["png", "tif", "pgm"])
def test_16_bits_are_rounded_to_8(tmp_path, end):
    deep = np.array([[0, 128, 129, 257], [65535, 65407, 65406, 32768]], np.uint16)
    if end == "pgm":  # which not all versions of Pillow write
        (tmp_path / "a.pgm").write_bytes(b"P5 4 2 65535\n" + deep.astype(">u2").tobytes())
    else:
        saved(tmp_path / f"a.{end}", Image.fromarray(deep))
    decoded = decode_image(tmp_path / f"a.{end}")
    assert decoded.dtype == np.uint8
    np.testing.assert_array_equal(decoded, [[0, 0, 1, 1], [255, 255, 254, 128]])
    np.testing.assert_array_equal(decode_image(tmp_path / f"a.{end}", "color")[:, :, 2], decoded)


@pytest.mark.parametrize("array", [np.ones((3, 3), np.float32), np.full((3, 3), 65536, np.int32)])
def test_what_does_not_fit_is_refused(tmp_path, array):
    with pytest.raises(BadImageError, match=r"pixels from .*convert it to 8 or 16 bits"):
        decode_image(saved(tmp_path / "a.tif", Image.fromarray(array)))


def test_black_and_white_and_cmyk(tmp_path):
    bits = GRAY > 127
    np.testing.assert_array_equal(decode_image(saved(tmp_path / "a.png", Image.fromarray(bits))), 255 * bits)
    cmyk = np.zeros((4, 4, 4), np.uint8)
    cmyk[:2, :, 0] = 255  # cyan above, white below
    decoded = decode_image(saved(tmp_path / "a.tif", Image.frombytes("CMYK", (4, 4), cmyk.tobytes())))
    np.testing.assert_array_equal(
        decoded, np.where(np.arange(4)[:, None, None] < 2, [0, 255, 255], 255) + np.zeros((4, 4, 1))
    )


@pytest.mark.parametrize("end", ["png", "tif", "webp"])
@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("pixels", [COLOR, GRAY], ids=["color", "gray"])
def test_images_are_turned_upright(tmp_path, end, orientation, pixels):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if end == "webp" else {}
    path = saved(tmp_path / f"a.{end}", Image.fromarray(pixels), exif=exif, **options)
    # Pillow's own way, from the same tag on an image in memory.
    image = Image.fromarray(pixels)
    image.getexif()[0x0112] = orientation
    expected = np.array(ImageOps.exif_transpose(image))
    decoded = decode_image(path, "gray" if pixels is GRAY and end == "webp" else None)
    np.testing.assert_array_equal(decoded, expected)
    assert decoded.flags.c_contiguous


def test_an_orientation_by_hand(tmp_path):
    """6: the first row of the file is the right side of the scene."""
    exif = Image.Exif()
    exif[0x0112] = 6
    path = saved(tmp_path / "a.png", Image.fromarray(np.array([[1, 2, 3], [4, 5, 6]], np.uint8)), exif=exif)
    np.testing.assert_array_equal(decode_image(path), [[4, 1], [5, 2], [6, 3]])


def test_damaged_exif_does_no_harm(tmp_path):
    path = saved(tmp_path / "a.jpg", Image.fromarray(COLOR), exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x05garbage")
    assert decode_image(path).shape == COLOR.shape


def test_the_first_image_of_an_animation(tmp_path):
    frames = [Image.fromarray(GRAY), Image.fromarray(255 - GRAY)]
    decoded = decode_image(saved(tmp_path / "a.tif", frames[0], save_all=True, append_images=frames[1:]))
    np.testing.assert_array_equal(decoded, GRAY)


def test_reasons(tmp_path):
    with pytest.raises(BadImageError, match=r"^No such file"):
        decode_image(tmp_path / "nothing.png")
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(BadImageError, match=r"^not an image"):
        decode_image(tmp_path / "text.png")
    (tmp_path / "empty.png").touch()
    with pytest.raises(BadImageError, match=r"^not an image"):
        decode_image(tmp_path / "empty.png")
    whole = saved(tmp_path / "a.jpg", Image.fromarray(np.repeat(COLOR, 20, axis=0))).read_bytes()
    (tmp_path / "half.jpg").write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(BadImageError, match="truncated"):
        decode_image(tmp_path / "half.jpg")


@pytest.mark.parametrize(
    ("limit", "reason"), [(30, "7 x 5 pixels, 35 to decode; the limit for such .* files is 30"), (10, "35 pixels")]
)
def test_the_limit_of_pillow_may_be_lower(tmp_path, monkeypatch, limit, reason):
    """35 pixels are more than the limit, which Pillow warns about, or more than twice as many, which it refuses."""
    path = saved(tmp_path / "a.png", Image.fromarray(GRAY))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(BadImageError, match=f"{reason}.*: shrink it"):
        decode_image(path)


def with_size(content, place, width, height, form):
    """A file whose header claims another size."""
    fields = struct.pack(form, width, height)
    return content[:place] + fields + content[place + len(fields) :]


def packed_bmp(width, height):
    """A gray BMP file, compressed by run lengths: one pixel a line, and the rest of each is left out."""
    colors = b"".join(bytes((k, k, k, 0)) for k in range(256))
    body = b"\x01\x05\x00\x00" * height
    start = 14 + 40 + len(colors)
    header = struct.pack("<IHHI", start + len(body), 0, 0, start)
    header += struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, len(body), 0, 0, 256, 0)
    return b"BM" + header + colors + body


def tiled_tiff(side):
    """A gray TIFF file of 7 x 5 pixels in a single compressed tile."""
    data = zlib.compress(bytes(100_000))
    fields = {256: 7, 257: 5, 258: 8, 259: 8, 262: 1, 277: 1, 322: side, 323: side, 324: 8, 325: len(data)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields.items())
    return struct.pack("<2sHI", b"II", 42, 8 + len(data)) + data + struct.pack("<H", len(fields)) + entries + bytes(4)


def test_bombs_are_refused_before_they_are_decoded(tmp_path, monkeypatch):
    """Files of few bytes that would take gigabytes or minutes."""

    def decoded(*_):
        raise AssertionError("it was decoded")

    def content(end, **options):
        return saved(tmp_path / f"whole.{end}", Image.fromarray(COLOR), **options).read_bytes()

    png, jpeg = with_size(content("png"), 16, 8193, 8192, ">II"), content("jpg")
    webp = content("webp", save_all=True, append_images=[Image.fromarray(255 - COLOR)])
    bombs = {
        "a.png": (png[:29] + struct.pack(">I", zlib.crc32(png[12:29])) + png[33:], "8193 x 8192 pixels.* 67,108,864"),
        "c.bmp": (with_size(content("bmp"), 18, 2**20, 1, "<ii"), "1048576 x 1 pixels; the limit is 65,535 a side"),
        "a.bmp": (with_size(content("bmp"), 18, 9000, 9000, "<ii"), "9000 x 9000 pixels"),
        "b.bmp": (packed_bmp(4097, 4096), "4097 x 4096 pixels.* 16,777,216"),
        "a.gif": (with_size(content("gif"), 6, 9000, 9000, "<HH"), "9000 x 9000 pixels"),
        "a.jpg": (with_size(jpeg, jpeg.index(b"\xff\xc0") + 5, 9000, 9000, ">HH"), "or set longest_side"),
        "a.tif": (tiled_tiff(20000), "7 x 5 pixels, 400,000,000 to decode"),
        "a.webp": (webp[:24] + b"\xff\x1f\0" * 2 + webp[30:], "8192 x 8192 pixels.* 33,554,432"),
    }  # fmt: skip
    monkeypatch.setattr(Image.Image, "load", decoded)
    for name, (bomb, reason) in bombs.items():
        (tmp_path / name).write_bytes(bomb)
        with pytest.raises(BadImageError, match=reason):
            decode_image(tmp_path / name)


def test_jpeg_may_be_larger_if_it_is_shrunk(tmp_path, monkeypatch):
    path = saved(tmp_path / "a.jpg", Image.fromarray(np.zeros((40, 60), np.uint8)))
    monkeypatch.setattr(decoding, "LARGEST_IMAGE", 40 * 60 // 2)
    with pytest.raises(BadImageError, match="60 x 40 pixels"):
        decode_image(path)
    assert decode_image(path, longest_side=15).shape == (10, 15)
    monkeypatch.setattr(decoding, "LARGEST_IMAGE", 40 * 60 // 2 - 1)
    with pytest.raises(BadImageError, match="60 x 40 pixels"):
        decode_image(path, longest_side=15)


def test_threads_share_the_room_for_pixels():
    room, most, now = _Room(10), 0, 0
    lock = threading.Lock()

    def decode(n_pixels):
        nonlocal most, now
        for _ in range(200):
            with room.taken(n_pixels):
                with lock:
                    now += n_pixels
                    most = max(most, now)
                with lock:
                    now -= n_pixels

    threads = [threading.Thread(target=decode, args=(n,)) for n in (1, 4, 6, 7, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < most <= 10


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB"])
@pytest.mark.parametrize("channels", [None, "gray", "color"])
def test_strips_are_converted_as_the_whole(mode, channels, monkeypatch):
    color = Image.fromarray(COLOR)
    image = Image.merge("LAB", color.split()) if mode == "LAB" else color.convert(mode)
    whole = decoding._pixels(image, channels)
    is_gray = mode in ("1", "L", "LA")
    expected = image.convert("L") if is_gray else image.convert("RGB")
    if channels is not None:
        expected = expected.convert("L" if channels == "gray" else "RGB")
    np.testing.assert_array_equal(whole, np.array(expected))
    monkeypatch.setattr(decoding, "_STRIP", 14)
    np.testing.assert_array_equal(decoding._pixels(image, channels), whole)


def test_filters_of_warnings_survive_threads(tmp_path):
    path = saved(tmp_path / "a.png", Image.fromarray(GRAY))
    before = list(warnings.filters)
    threads = [threading.Thread(target=lambda: [decode_image(path) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before


def test_postscript_in_disguise_is_not_handed_on(tmp_path):
    """Pillow would start Ghostscript on it."""
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    with pytest.raises(BadImageError, match="not an image"):
        decode_image(tmp_path / "a.png")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(BadImageError, match="not a regular file"):
        decode_image(tmp_path / "a.png")


def test_a_part_that_claims_gigabytes_takes_no_memory(tmp_path):
    file = saved(tmp_path / "a.png", Image.fromarray(COLOR))
    content = bytearray(file.read_bytes())
    start = content.index(b"IDAT") - 4
    content[start : start + 4] = struct.pack(">I", 2**31 - 1)
    file.write_bytes(content)
    tracemalloc.start()
    try:
        with contextlib.suppress(BadImageError):  # whether the rest is pixels enough is left to Pillow
            decode_image(file)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
