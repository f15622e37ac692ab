"""Whether fewer operations make dense encoding faster: FFT and short convolutions against the products of patches.

    python benchmarks/fewer_operations.py
    python benchmarks/fewer_operations.py --components 400 --patch-size 6

For one image of 96 x 96 x 3, 1600 units, patches of 10 x 10, stride 1: the operations that each way takes, and the time
that one thread takes, by turns. A patch is normalised after it was cut out; a convolution makes up for it afterwards:
w·(p - mean(p)) / sd(p) = (w·p - mean(p) sum(w)) / sd(p). The prototype of the FFT has all of it but the activation and
the pooling, which are the same for all ways: the transforms of tiles, the products of spectra, the inverse transforms
and that correction. The products of patches are bare. Times are the processor's, of this thread.
"""

import argparse
import json
import time

import numpy as np
import scipy.fft
from numba import njit
from threadpoolctl import threadpool_limits

SIDE, CHANNELS = 96, 3
CHUNK = 32  # units at a time: their spectra stay in the cache


@njit(cache=True, nogil=True, fastmath=True)
def multiply_spectra(tiles, filters, out):
    """Products of spectra (n_tiles, channels, f) and (n_units, channels, f), summed over channels."""
    for unit in range(filters.shape[0]):
        for tile in range(tiles.shape[0]):
            for f in range(tiles.shape[2]):
                total = tiles[tile, 0, f] * filters[unit, 0, f]
                for channel in range(1, tiles.shape[1]):
                    total += tiles[tile, channel, f] * filters[unit, channel, f]
                out[unit, tile, f] = total


@njit(cache=True, nogil=True, fastmath=True)
def correct(found, means, scales, sums, valid, out):
    """Write (w·p - mean sum(w)) / sd of the valid part of every tile."""
    for unit in range(found.shape[0]):
        for tile in range(found.shape[1]):
            for row in range(valid):
                for column in range(valid):
                    z = found[unit, tile, row, column] - means[tile, row, column] * sums[unit]
                    out[unit, tile, row, column] = z * scales[tile, row, column]


class Fourier:
    """Net inputs at all positions by the FFT of overlapping tiles."""

    def __init__(self, weights, patch_size, tile):
        self.tile, self.valid = tile, tile - patch_size + 1
        n_units = len(weights)
        filters = weights.reshape(n_units, patch_size, patch_size, CHANNELS).transpose(0, 3, 1, 2)
        spectra = np.conj(scipy.fft.rfft2(filters, (tile, tile))).astype(np.complex64)
        self.filters = spectra.reshape(n_units, CHANNELS, -1)
        self.sums = weights.sum(axis=1)
        self.n_positions = SIDE - patch_size + 1
        self.n_tiles = -(-self.n_positions // self.valid)
        self.products = np.empty((CHUNK, self.n_tiles**2, self.filters.shape[2]), np.complex64)
        self.out = np.empty((CHUNK, self.n_tiles**2, self.valid, self.valid), np.float32)
        self.means = np.zeros((self.n_tiles**2, self.valid, self.valid), np.float32)
        self.scales = np.ones_like(self.means)

    def __call__(self, image):
        padded = np.zeros((CHANNELS, *[self.n_tiles * self.valid + self.tile] * 2), np.float32)
        padded[:, :SIDE, :SIDE] = image.transpose(2, 0, 1)
        starts = [(r * self.valid, c * self.valid) for r in range(self.n_tiles) for c in range(self.n_tiles)]
        tiles = np.stack([padded[:, r : r + self.tile, c : c + self.tile] for r, c in starts])
        spectra = scipy.fft.rfft2(tiles).reshape(len(tiles), CHANNELS, -1)
        for start in range(0, len(self.filters), CHUNK):
            filters = self.filters[start : start + CHUNK]
            products = self.products[: len(filters)]
            multiply_spectra(spectra, filters, products)
            shape = (*products.shape[:2], self.tile, self.tile // 2 + 1)
            found = scipy.fft.irfft2(products.reshape(shape), (self.tile, self.tile), overwrite_x=True)
            correct(found, self.means, self.scales, self.sums[start : start + CHUNK], self.valid, self.out)
            yield start, self.out[: len(filters)]

    def whole(self, image):
        """The net inputs (n_units, rows, columns) of an image."""
        found = []
        for _, out in self(image):
            rows = out.reshape(len(out), self.n_tiles, self.n_tiles, self.valid, self.valid).transpose(0, 1, 3, 2, 4)
            rows = rows.reshape(len(out), self.n_tiles * self.valid, -1)
            found.append(rows[:, : self.n_positions, : self.n_positions].copy())
        return np.concatenate(found)

    def gigaflops(self):
        """Of products of spectra and inverse transforms; 2.5 n log2(n) is usual for n real numbers."""
        n, n_frequencies = self.tile**2, self.filters.shape[2]
        per_tile = 8 * CHANNELS * n_frequencies + 2.5 * n * np.log2(n) + 2 * self.valid**2
        return len(self.filters) * self.n_tiles**2 * per_tile / 1e9


@njit(cache=True, nogil=True, fastmath=True)
def combine(products, means, scales, sums, out):
    """Write the net inputs of the four positions of each 2 x 2 from its nine products, corrected as above."""
    for place in range(products.shape[1]):
        aa, ab, ac = products[0, place], products[1, place], products[2, place]
        ba, bb, bc = products[3, place], products[4, place], products[5, place]
        ca, cb, cc = products[6, place], products[7, place], products[8, place]
        m, s = means[place], scales[place]
        for unit in range(aa.size):
            total = sums[unit]
            upper, left = ab[unit] + bb[unit], ba[unit] + bb[unit]
            out[0, place, unit] = (aa[unit] + ba[unit] + upper - m[0] * total) * s[0]
            out[1, place, unit] = (upper - ac[unit] - bc[unit] - m[1] * total) * s[1]
            out[2, place, unit] = (left - ca[unit] - cb[unit] - m[2] * total) * s[2]
            out[3, place, unit] = (bb[unit] - bc[unit] - cb[unit] + cc[unit] - m[3] * total) * s[3]


class Phases:
    """Net inputs at all positions by nine products for four positions, instead of sixteen of a quarter each.

    With x0, x1 the even and odd rows and h0, h1 those of a filter, rows 2m and 2m + 1 of the result are A + B, B - C:
    A = h0 (x0 - x1), B = (h0 + h1) x1, C = h1 (x1 - x0 one row on). The same for columns.
    """

    def __init__(self, weights, patch_size, block, n_chunk):
        self.half, self.block, self.n_chunk = patch_size // 2, block, n_chunk
        self.n = (SIDE - patch_size + 2) // 2
        filters = weights.reshape(-1, patch_size, patch_size, CHANNELS)
        kinds = [g for rows in _phases(filters, 1) for g in _phases(rows, 2)]
        self.columns = [np.ascontiguousarray(g.reshape(len(weights), -1).T) for g in kinds]
        self.sums = weights.sum(axis=1)
        self.products = np.empty((9, block, n_chunk), np.float32)
        self.out = np.empty((4, block, n_chunk), np.float32)
        self.means, self.scales = np.zeros((block, 4), np.float32), np.ones((block, 4), np.float32)

    def __call__(self, image):
        padded = np.pad(image, ((0, 2), (0, 2), (0, 0)))
        planes = [p for rows in _differences(padded, 0) for p in _differences(rows, 1)]
        patches = [patches_of(plane[: self.n + self.half - 1, : self.n + self.half - 1], self.half) for plane in planes]
        for start in range(0, self.n**2, self.block):
            n_rows = min(self.block, self.n**2 - start)
            for first in range(0, len(self.sums), self.n_chunk):
                units = slice(first, first + self.n_chunk)
                for k in range(9):
                    np.matmul(
                        patches[k][start : start + n_rows], self.columns[k][:, units], out=self.products[k, :n_rows]
                    )
                combine(self.products[:, :n_rows], self.means, self.scales, self.sums[units], self.out[:, :n_rows])
                yield start, first, self.out[:, :n_rows]

    def whole(self, image):
        found = np.empty((len(self.sums), 4, self.n**2), np.float32)
        for start, first, out in self(image):
            found[first : first + self.n_chunk, :, start : start + out.shape[1]] = out.transpose(2, 0, 1)
        rows = found.reshape(-1, 2, 2, self.n, self.n).transpose(0, 3, 1, 4, 2).reshape(len(found), 2 * self.n, -1)
        return rows[:, :-1, :-1]

    def gigaflops(self):
        return self.n**2 * len(self.sums) * (9 * 2 * len(self.columns[0]) + 21) / 1e9


def _phases(filters, axis):
    even, odd = (np.take(filters, range(start, filters.shape[axis], 2), axis) for start in (0, 1))
    return even, even + odd, odd


def _differences(image, axis):
    n = image.shape[axis] // 2 - 1
    even, odd, next_even = (np.take(image, range(start, start + 2 * n, 2), axis) for start in (0, 1, 2))
    return even - odd, odd, odd - next_even


def patches_of(image, patch_size):
    windows = np.lib.stride_tricks.sliding_window_view(image, (patch_size, patch_size), axis=(0, 1))
    return np.ascontiguousarray(windows.transpose(0, 1, 3, 4, 2).reshape(-1, patch_size**2 * CHANNELS), np.float32)


def timed(function):
    started = time.thread_time()
    function()
    return time.thread_time() - started


def short_convolutions(patch_size):
    """Multiplications for each output of m outputs of a filter at a time, in one dimension and in both.

    m + r - 1 points are as few as there can be for a filter of r. Its transforms have entries that grow like powers of
    the points: with more than 8 or so, single precision has no correct digit left.
    """
    points = {m: m + patch_size - 1 for m in (2, 4, 6)}
    return {
        f"F({m}, {patch_size})": {
            "points": n,
            "multiplications against direct, rows only": round(n / (m * patch_size), 2),
            "condition of the transform": float(f"{_condition(n):.1e}"),
        }
        for m, n in points.items()
    }


def _condition(n_points):
    """Of the matrix of powers at the best real points, those of Chebyshev: errors grow by up to as much."""
    points = np.cos((2 * np.arange(n_points) + 1) * np.pi / (2 * n_points))
    return np.linalg.cond(np.vander(points))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--components", type=int, default=1600)
    parser.add_argument("--patch-size", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    random = np.random.RandomState(0)
    size = options.patch_size
    image = random.randint(256, size=(SIDE, SIDE, CHANNELS)).astype(np.float32)
    weights = random.standard_normal((options.components, size**2 * CHANNELS)).astype(np.float32)
    patches, columns = patches_of(image, size), np.asfortranarray(weights.T)
    room = np.empty((512, options.components), np.float32)
    ways = {f"FFT, tiles of {tile}": Fourier(weights, size, tile) for tile in (32, 96)}
    if size % 2 == 0:
        for block, chunk in ((176, 400), (484, 400), (484, 1600)):
            ways[f"phases, {block} x {min(chunk, options.components)}"] = Phases(
                weights, size, block, min(chunk, options.components)
            )

    def products():
        for start in range(0, len(patches), 512):
            block = patches[start : start + 512]
            np.matmul(block, columns, out=room[: len(block)])

    def exhaust(way):
        for _ in way(image):
            pass

    with threadpool_limits(1):
        expected = (patches @ columns).T.reshape(len(weights), *[SIDE - size + 1] * 2)
        seconds = {"products of patches": []} | {name: [] for name in ways}
        errors = {}
        for name, way in ways.items():
            errors[name] = float(f"{np.abs(way.whole(image) - expected).max() / np.abs(expected).max():.1e}")
        for _ in range(options.repeats):
            seconds["products of patches"].append(timed(products))
            for name, way in ways.items():
                seconds[name].append(timed(lambda way=way: exhaust(way)))
    bare = float(np.median(seconds["products of patches"]))
    direct = 2 * patches.size * options.components / 1e9
    found = {"products of patches": {"GFLOP": round(direct, 2), "ms": round(1e3 * bare, 1)}}
    for name, way in ways.items():
        taken = float(np.median(seconds[name]))
        found[name] = {
            "GFLOP": round(way.gigaflops(), 2),
            "ms": round(1e3 * taken, 1),
            "time against products": round(taken / bare, 2),
            "largest error": errors[name],
        }
    found["short convolutions"] = short_convolutions(size)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
