import os
import threading
import warnings

import numpy as np
import pytest

from epls.datasets._decode import BadImageError, decode_image

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


@pytest.mark.parametrize("limit", [30, 10])
def test_huge_images_are_refused_without_a_warning(tmp_path, monkeypatch, limit):
    """35 pixels are more than the limit, which Pillow warns about, or more than twice as many, which it refuses."""
    path = saved(tmp_path / "a.png", Image.fromarray(GRAY))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(BadImageError, match="35 pixels"):
        decode_image(path)


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
