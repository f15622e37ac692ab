"""Images of many bands, as arrays and as TIFF files that other programs would write."""

import io
import struct
import zlib

import numpy as np
import tifffile
from PIL import Image


def cube(height, width, n_bands, dtype=np.uint16, seed=0):
    """An image whose bands are smooth in space and from band to band, as those of spectra are."""
    random = np.random.RandomState(seed)
    places = np.add.outer(random.uniform(5) * np.arange(height), random.uniform(5) * np.arange(width)) / 8
    waves = 1 + np.sin(places[:, :, None] + np.linspace(0, 3, n_bands)) + 0.2 * random.uniform(size=(height, width, 1))
    waves += 0.05 * random.uniform(size=(height, width, n_bands))
    scale = 0.4 * np.iinfo(dtype).max if np.dtype(dtype).kind in "ui" else 1.0
    return (scale * waves).astype(dtype)


def tiff(image, *, planar=False, **options):
    """The content of a TIFF file with an image (height, width, bands), written by tifffile."""
    file = io.BytesIO()
    stored = np.ascontiguousarray(np.moveaxis(image, 2, 0)) if planar else image
    options = {"photometric": "minisblack", "planarconfig": "separate" if planar else "contig", **options}
    tifffile.imwrite(file, stored, **options)
    return file.getvalue()


def handmade_tiff(image, rows_in_strip, compress, codec, predictor=1, order="<"):
    """The content of a TIFF file, pixel by pixel, with any codec and predictor: tifffile alone knows few of them."""
    height, width, n_bands = image.shape
    stored = image.astype(image.dtype.newbyteorder(order))
    strips = [compress(differences(stored[top : top + rows_in_strip], predictor))
              for top in range(0, height, rows_in_strip)]  # fmt: skip
    kind = {"u": 1, "i": 2, "f": 3}[image.dtype.kind]
    starts = 8 + np.cumsum([0, *map(len, strips)])
    fields = {256: [width], 257: [height], 258: [8 * image.dtype.itemsize] * n_bands, 259: [codec], 262: [1],
              273: list(starts[:-1]), 277: [n_bands], 278: [rows_in_strip], 279: list(map(len, strips)), 284: [1],
              317: [predictor], 339: [kind] * n_bands}  # fmt: skip
    return with_tags(b"".join(strips), fields, order)


def with_tags(body, fields, order="<"):
    """A TIFF file of a page with these tags, numbers of 32 bits all of them, after ``body``, which begins at 8."""
    directory = 8 + len(body)
    extra = directory + 2 + 12 * len(fields) + 4
    entries, values = b"", b""
    for tag, numbers in sorted(fields.items()):
        packed = struct.pack(f"{order}{len(numbers)}I", *map(int, numbers))
        place = packed if len(numbers) == 1 else struct.pack(order + "I", extra + len(values))
        entries += struct.pack(order + "HHI", tag, 4, len(numbers)) + place
        values += packed if len(numbers) > 1 else b""
    start = {"<": b"II", ">": b"MM"}[order] + struct.pack(order + "HI", 42, directory)
    return start + body + struct.pack(order + "H", len(fields)) + entries + bytes(4) + values


def differences(strip, predictor):
    """The bytes of a strip (rows, width, bands) with one of the predictors of TIFF."""
    if predictor == 2:
        whole = strip.view(strip.dtype.str.replace("f", "u").replace("i", "u")).copy()
        whole[:, 1:] -= strip.view(whole.dtype)[:, :-1]
        return whole.tobytes()
    if predictor == 3:
        rows = []
        for row in strip:
            planes = row.astype(row.dtype.newbyteorder(">")).reshape(-1, 1).view(np.uint8).T.reshape(-1)
            step = row.shape[1]
            rows.append(np.concatenate([planes[:step], planes[step:] - planes[:-step]]).astype(np.uint8))
        return np.concatenate(rows).tobytes()
    return strip.tobytes()


def by_pillow(compression):
    """A function that compresses bytes as Pillow does in the strip of a gray image."""

    def compress(content):
        file = io.BytesIO()
        image = Image.frombytes("L", (len(content), 1), content)
        image.save(file, "TIFF", compression=compression, strip_size=2**30)
        tags = Image.open(file).tag_v2
        (start,), (size,) = tags[273], tags[279]
        return file.getvalue()[start : start + size]

    return compress


COMPRESSORS = {"none": (1, bytes), "deflate": (8, zlib.compress), "old deflate": (32946, zlib.compress),
               "lzw": (5, by_pillow("tiff_lzw")), "packbits": (32773, by_pillow("packbits"))}  # fmt: skip
