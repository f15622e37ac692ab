"""Mutated image files: each must give a picture, or BadImageError with a reason.

    python benchmarks/attack/images.py                 # 20,000 files
    python benchmarks/attack/images.py --quick
    python benchmarks/attack/images.py --files 50000 --seed 7

JPEG, PNG, GIF, TIFF, WebP, BMP and PPM files in all modes that they have, single and animated, TIFF files of many bands
and .npy files have bits flipped, bytes set, parts cut, doubled or cleared; or another size is written to where the size
is, with a checksum that is right, so that a file of few bytes claims to be a large image. Crafted TIFF files of many
bands have tags of other sizes, types, codecs and layouts; strips that overlap, or whose number or place is impossible;
tags with millions of values, or thousands of times; pages in thousands, in circles, and inside each other. Every file
is opened in a child process whose memory is limited.
"""

import io
import struct
import zlib

import imagecodecs
import numpy as np
import tifffile
from common import damaged, limit_memory, main, watch
from PIL import Image

from epls.datasets.bands import BadImageError
from epls.datasets.decoding import decode_image

SIZES = (0, 1, 2, 7, 255, 256, 4095, 5000, 8192, 8193, 16383, 30000, 65535, 2**20, 2**26, 2**31 - 1, 2**32 - 1)
# Tags that point to more tags, or that libraries read in ways of their own; sides of tiles; orientation, depth.
MORE_TAGS = (254, 270, 274, 301, 320, 322, 323, 324, 325, 330, 338, 700, 32997, 33628, 33629, 34118, 34361, 34412,
             34665, 34853, 40965, 42113, 50838, 50839, 51123, 65426)  # fmt: skip
CODERS = {
    5: imagecodecs.lzw_encode,
    8: zlib.compress,
    32773: imagecodecs.packbits_encode,
    50000: imagecodecs.zstd_encode,
}


def subjects():
    """The content of small images, by ending."""
    random = np.random.RandomState(0)
    noise = Image.fromarray(random.randint(256, size=(40, 60, 3)).astype(np.uint8))
    ramp = Image.fromarray(np.add.outer(np.arange(60), 3 * np.arange(90)).astype(np.uint8)).convert("RGB")
    deep = Image.fromarray(random.randint(65536, size=(30, 20)).astype(np.uint16))
    turned = Image.Exif()
    turned[0x0112] = 6
    frames = {"save_all": True}
    forms = {
        "jpg": [("RGB", {}), ("L", {}), ("CMYK", {}), ("RGB", {"progressive": True, "subsampling": 0}),
                ("RGB", {"exif": turned})],
        "png": [(mode, {}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")]
               + [("RGB", {"exif": turned}), ("RGB", frames)],
        "gif": [("P", {}), ("L", {}), ("P", {"transparency": 3}), ("RGB", frames)],
        "tif": [(mode, {"compression": compression})
                for mode in ("1", "L", "RGB", "RGBA", "CMYK", "I;16")
                for compression in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits")]
               + [("RGB", {"compression": "jpeg"}), ("1", {"compression": "group4"}), ("RGB", frames)],
        "webp": [("RGB", {}), ("RGBA", {}), ("RGB", {"lossless": True}), ("RGB", frames), ("RGB", {"exif": turned})],
        "bmp": [("1", {}), ("L", {}), ("P", {}), ("RGB", {}), ("RGBA", {})],
        "ppm": [("1", {}), ("L", {}), ("RGB", {}), ("I;16", {})],
    }  # fmt: skip
    for ending, ways in forms.items():
        for mode, options in ways:
            for image in (noise, ramp):
                content = io.BytesIO()
                more = {"append_images": [image.rotate(90), image.rotate(180)]} if options is frames else {}
                converted = deep if mode == "I;16" else image.convert(mode)
                converted.save(content, {"jpg": "JPEG", "tif": "TIFF"}.get(ending, ending), **options, **more)
                yield ending, content.getvalue()
    yield "bmp", packed_bmp(40, 30)


def banded():
    """The content of small images of many bands, by ending."""
    random = np.random.RandomState(0)
    for dtype in (np.uint8, np.uint16, np.float32):
        for bands in (random.randint(200, size=(24, 30, 50)), np.full((40, 33, 7), 100)):
            yield from in_all_forms(bands.astype(dtype))


def in_all_forms(image):
    """An image of many bands as .npy and as TIFF: interleaved or not, in strips and tiles, compressed, and in pages."""
    content = io.BytesIO()
    np.save(content, image)
    yield "npy", content.getvalue()
    planes = np.ascontiguousarray(np.moveaxis(image, 2, 0))
    ways = [{"compression": compression, **parts, "byteorder": order, "metadata": None}
            for compression in (None, "zlib", "zstd")
            for parts in ({"rowsperstrip": 5}, {"tile": (16, 16)}, {"bigtiff": True})
            for order in "<>"]  # fmt: skip
    for way in ways:
        for array, layout in ((image, "contig"), (planes, "separate"), (planes, None)):
            content = io.BytesIO()
            tifffile.imwrite(content, array, photometric="minisblack", planarconfig=layout, **way)
            yield "tif", content.getvalue()
    for compression in ("tiff_lzw", "packbits"):  # which tifffile alone does not write
        content, flat = io.BytesIO(), image.reshape(len(image), -1)
        Image.fromarray(flat.view(np.uint8)).save(content, "TIFF", compression=compression, strip_size=2**20)
        yield "tif", with_bands(content.getvalue(), image)


def with_bands(content, image):
    """The compressed bytes of a gray image, in a file that says that they are pixels of many bands."""
    gray = Image.open(io.BytesIO(content)).tag_v2
    (start,), (size,) = gray[273], gray[279]
    tags = {256: image.shape[1], 257: image.shape[0], 258: 8 * image.itemsize, 259: gray[259], 262: 1, 273: 8,
            277: image.shape[2], 278: image.shape[0], 279: size, 284: 1}  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    header = struct.pack("<2sHI", b"II", 42, 8 + size)
    return header + content[start : start + size] + struct.pack("<H", len(tags)) + entries + bytes(4)


def crafted_tiff(random):
    """A TIFF file of one or more pages of many bands that are possible, but for a few of its tags."""
    n_pages, n_bands = int(random.choice([1, 1, 2, 100, 20_000])), int(random.choice([1, 2, 5, 300]))
    dtype, codec = random.choice(["u1", "u2", "f4"]), int(random.choice([1, 5, 8, 32773, 50000]))
    image = random.randint(200, size=(7, 9, n_bands)).astype(dtype)
    strip = CODERS.get(codec, bytes)(image.tobytes())
    body = strip + bytes(int(random.choice([0, 0, 2**16, 2**21])))
    sizes = {256: 9, 257: 7, 258: 8 * image.itemsize, 259: codec, 262: 1, 273: 8, 277: n_bands, 278: 7,
             279: len(strip), 284: 1, 317: 1, 339: 3 if dtype == "f4" else 1}  # fmt: skip
    entries = {tag: (4, 1, value) for tag, value in sizes.items()}
    for _ in range(random.randint(4)):
        tag, kind = int(random.choice([*entries, *MORE_TAGS])), int(random.choice([1, 2, 3, 4, 4, 4, 5, 12, 16, 99]))
        value = int(random.choice([*SIZES, 3, 8, 32, 64, 50000, len(strip), len(body)]))
        count = int(random.choice([1, 1, 1, *SIZES, len(body) // 4, len(body)]))
        entries[tag] = (kind, count, value if count == 1 else 8)
    if random.randint(3) == 0:  # as many strips as the file has bytes, or as they have pixels
        n_strips = int(random.choice([7, 7 * n_bands, len(body) // 4, len(body)]))
        entries |= {tag: (int(random.choice([1, 3, 4])), n_strips, 8) for tag in (273, 279)}
        entries |= {278: (4, 1, 1), 284: (4, 1, 1 + random.randint(2))}
        entries |= {257: (4, 1, min(n_strips, 65535)), 277: (4, 1, max(1, n_strips // 65535))}
    repeated = [(int(random.choice([*entries, *MORE_TAGS])), (int(random.choice([2, 3, 4])), len(body) // 4, 8))]
    listed = sorted(entries.items()) + (repeated * int(random.choice([0, 0, 0, 100, 500, 4000, 60_000])))
    page = struct.pack("<H", len(listed)) + b"".join(struct.pack("<HHII", tag, *rest) for tag, rest in listed)
    first, step = 8 + len(body), len(page) + 4
    n_pages = min(n_pages, 2**22 // step + 1)
    following = [first + k * step for k in range(1, n_pages)]
    following.append(int(random.choice([0, 0, 0, first, first + 2, first + 14, 8, 2**31])))  # the end, or none
    pages = b"".join(page + struct.pack("<I", place) for place in following)
    return struct.pack("<2sHI", b"II", 42, first) + body + pages


def packed_bmp(width, height):
    """A BMP file compressed by run lengths, which Pillow does not write: one pixel a line, the rest left out."""
    colors, body = bytes(1024), b"\x01\x05\x00\x00" * height
    start = 14 + 40 + len(colors)
    header = struct.pack("<IHHI", start + len(body), 0, 0, start)
    return (
        b"BM"
        + header
        + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, len(body), 0, 0, 256, 0)
        + colors
        + body
    )


def resized(ending, content, random):
    """The same file, which claims that it has another size."""
    sides = [SIZES[random.randint(len(SIZES))] for _ in range(2)]
    content = bytearray(content)
    if ending == "png":
        content[16:24] = struct.pack(">II", *sides)
        content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    elif ending == "gif":
        content[6:10] = struct.pack("<HH", *(side % 65536 for side in sides))
    elif ending == "bmp":
        content[18:26] = struct.pack("<II", *sides)
    elif ending == "jpg":
        frame = max(content.find(b"\xff\xc0"), content.find(b"\xff\xc2"))
        content[frame + 5 : frame + 9] = struct.pack(">HH", *(side % 65536 for side in sides))
    elif ending == "webp" and content[12:16] == b"VP8X":
        content[24:30] = b"".join(struct.pack("<I", side % 2**24)[:3] for side in sides)
    elif ending == "npy":
        shape = str((*sides, 50)).encode()
        content[content.index(b"(") : content.index(b")") + 1] = shape  # and the header has another length
    elif ending == "tif" and content[:4] == b"II*\0":
        start = struct.unpack_from("<I", content, 4)[0]
        for entry in range(start + 2, start + 2 + 12 * struct.unpack_from("<H", content, start)[0], 12):
            tag = struct.unpack_from("<H", content, entry)[0]
            # Width, height, rows in a strip; of some, the bands and the sides of a tile.
            if tag in (256, 257, 278) or (tag in (277, 322, 323) and random.randint(3) == 0):
                struct.pack_into("<HII", content, entry + 2, 4, 1, sides[tag % 2])
    elif ending == "ppm":
        words = bytes(content).split(maxsplit=3)
        content = words[0] + b"\n%d %d\n" % tuple(sides) + words[3]
    return bytes(content)


def attack(folder, random, n_files):
    """The outcome of each of some files; runs in a child."""
    photographs, bands = list(subjects()), list(banded())
    for number, (ending, content) in enumerate(photographs + bands):  # what is whole is read
        (folder / f"{number}.{ending}").write_bytes(content)
        try:
            decode_image(folder / f"{number}.{ending}")
        except BadImageError:  # pages of one band each in float32
            decode_image(folder / f"{number}.{ending}", "all")
    limit_memory()
    for number in range(n_files):
        originals = bands if random.randint(3) == 0 else photographs
        ending, content = originals[random.randint(len(originals))]
        is_crafted = random.randint(4) == 0
        if is_crafted:
            ending, content = "tif", crafted_tiff(random)
        elif random.randint(3) == 0:
            content = resized(ending, content, random)
        if not is_crafted and random.randint(3):
            content = damaged(content, random, header=100)
        target = folder / f"mutated.{ending}"
        target.write_bytes(content)
        ways = {
            "channels": (None, "gray", "color", "all")[number % 4],
            "longest_side": (None, None, 20)[random.randint(3)],
        }
        yield f"{'crafted ' * is_crafted}{ending}: {outcome_of(target, ways)}"


def outcome_of(file, ways):
    """What becomes of a file. Nothing of it is kept: an error would keep the image that is decoded."""
    found, error, slow = watch(lambda: decode_image(file, **ways))
    if slow is not None:
        return f"{slow}, {error or found.shape}"
    if isinstance(error, BadImageError) and isinstance(error.__cause__, MemoryError):
        return "BAD: more than a gigabyte"
    if isinstance(error, BadImageError) and str(error):
        return "refused"
    if error is not None:
        return f"BAD: {type(error).__name__}: {error}"[:200]
    is_bands = file.suffix in (".tif", ".npy") and found.dtype.kind in "uifb" and np.isfinite(found).all()
    is_picture = found.ndim in (2, 3) and found.size > 0 and (found.dtype == np.uint8 or is_bands)
    return "a picture" if is_picture else f"BAD: {found.shape}"


if __name__ == "__main__":
    main(attack, __doc__, n_files=20_000, n_quick=200)
