"""Near-duplicates: pairs of samples that are nearly the same, each with a score up to 1.

Images are compared by small pictures of them, in three steps. Low frequencies of the pictures, turned and mirrored in
all eight ways, find candidates. Each pair of candidates is aligned: scale and shift along both axes, brightness and
contrast. What remains is compared by the gradients of the aligned pictures. So copies that were recompressed, resized,
turned, mirrored, slightly cropped or turned into gray are found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.fft import dctn
from scipy.ndimage import convolve1d
from scipy.sparse.csgraph import minimum_spanning_tree

from ..utils.threads import row_blocks, threads_for
from ..utils.types import Array, Indices
from .similarity import Similarity

_LUMA = np.array([0.299, 0.587, 0.114], np.float32) / 64  # so that most pictures have a variance near 1
_LOW = 8  # frequencies along each axis that candidates are found by
_FEWEST_LEVELS = 1.0 / 64  # standard deviation: paler pictures are only compared with pictures equal to them
_LIKELY = 0.6  # the least product of candidates
_MOST_CANDIDATES = 8  # of a sample
_CROPPED = 0.9  # of the height and width: crops are found by the middle of a picture
_MIRRORED = 2  # among the eight ways to turn a picture
_STEPS = 4  # of the alignment, at half resolution and again at full resolution
_RIDGE = 1e-3
_LARGEST_CHANGE = 0.35  # of scale and shift, in halves of a picture's side
_LEAST_OVERLAP = 0.7  # of a picture's area
_ALIKE_AT_HALF = 0.6  # the least score of a pair at half resolution
_NOISE = 0.02 / 64**2  # the variance of gradients that rounding causes
_STRONG_EDGE = 2.0  # times the mean absolute gradient: stronger ones count as much
_LEAST, _USUAL = 0.8, 0.9
_LEAST_OF_VECTORS, _USUAL_OF_VECTORS = 0.9, 0.98
_OTHERS = 3  # the fourth most similar picture is usually no copy
_CLOSER = 0.25  # copies differ by at most this much of what pictures usually differ from that
_SAME_COLOR = 16 / 255
_COLORED = 3 / 255
_ROWS_AT_A_TIME = 1000
_PAIRS_AT_A_TIME = 2000


@dataclass(frozen=True)
class Duplicates:
    """Pairs of samples with their scores, the most similar first.

    For every least score, pairs with at least this score connect sets of near-duplicates.
    """

    pairs: list[tuple[int, int, float]]
    least: float  # no pair has a lower score
    usual: float  # pairs with a lower score may be different things that look alike


def duplicate_vectors(found: Similarity) -> Duplicates:
    """Find samples that are much closer than nearest neighbours usually are.

    The score is one minus the distance, relative to the median distance of nearest neighbours.
    """
    distances = found.distances()
    scores = np.where(distances > 0, 1 - distances / (np.median(distances[:, 0]) or np.inf), 1)
    rows, places = np.nonzero(scores >= _LEAST_OF_VECTORS)
    first, second, score = _each_once(rows, found.nearest[rows, places], scores[rows, places])
    return Duplicates(_tree(first, second, score, len(scores)), _LEAST_OF_VECTORS, _USUAL_OF_VECTORS)


def duplicate_pictures(pictures: NDArray[np.uint8], *, turned: bool = True) -> Duplicates:
    """Find images whose small pictures, of the shape (n_samples, side, side, 3), are nearly the same.

    The score is the cosine of the gradients of the two pictures, in gray and aligned. If both have colors, these must
    be similar, too. With ``turned``, mirrored and rotated copies count. In a collection of images that all look alike,
    such as digits, duplicates are only those that are much more alike than others.
    """
    flat = pictures.reshape(len(pictures), -1)
    _, chosen, copy_of = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    small = np.asarray(pictures[chosen], np.float32) @ _LUMA
    for axis in (1, 2):  # what is finer than a pixel or two depends on how a copy was resized
        small = convolve1d(small, [0.25, 0.5, 0.25], axis=axis, mode="nearest")
    first, second, way, cropped = _candidates(small, 8 if turned else 1)
    same = _same_color(pictures[chosen], first, second)
    first, second, way, cropped = first[same], second[same], way[same], cropped[same]
    scores = np.zeros(len(first), np.float32)
    with threads_for(0):  # small matrices
        for part in row_blocks(len(first), _PAIRS_AT_A_TIME):
            own = np.stack([_turned(small[k], w) for k, w in zip(second[part], way[part], strict=True)])
            scores[part] = _likeness(own, small[first[part]], cropped[part])
    first, second, scores = _each_once(first, second, scores)
    ends, of_ends = np.concatenate([first, second]), np.concatenate([scores, scores])
    others = np.zeros(len(small), np.float32)
    fourth = _rank(ends, of_ends) == _OTHERS
    others[ends[fourth]] = of_ends[fourth]
    usual = max(_USUAL, 1 - _CLOSER * (1 - float(np.median(others))))
    found = scores >= _LEAST
    # Pictures that are equal in every pixel are pairs as well.
    copies = np.setdiff1d(np.arange(len(pictures)), chosen)
    pairs = _tree(
        np.concatenate([chosen[first[found]], chosen[copy_of[copies]]]),
        np.concatenate([chosen[second[found]], copies]),
        np.concatenate([scores[found], np.ones(len(copies), np.float32)]),
        len(pictures),
    )
    return Duplicates(pairs, _LEAST, usual)


def _each_once(first: Indices, second: Indices, scores: Array) -> tuple[Indices, Indices, Array]:
    """Return each pair once, with its largest score."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    order = np.lexsort((-scores, high, low))
    low, high, scores = low[order], high[order], scores[order]
    new = np.ones(len(low), np.bool_)
    new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    return low[new], high[new], scores[new]


def _tree(first: Indices, second: Indices, scores: Array, n_samples: int) -> list[tuple[int, int, float]]:
    """Return fewer pairs than there are samples, which connect the same sets for every least score."""
    costs = 2 - np.minimum(scores, 1)  # a sparse matrix has no entries of zero
    graph = sparse.coo_matrix((costs, (first, second)), shape=(n_samples, n_samples))
    tree = minimum_spanning_tree(graph.tocsr()).tocoo()
    ends = np.sort([tree.row, tree.col], axis=0).tolist()
    return sorted(zip(*ends, (2 - tree.data).tolist(), strict=True), key=lambda pair: (-pair[2], pair[:2]))


# --- candidates ---
def _turned(pictures: Array, way: int) -> Array:
    """Turn pictures of the shape (..., side, side) in one of the eight ways. The first leaves them as they are."""
    if way & 4:
        pictures = pictures.swapaxes(-1, -2)
    return pictures[..., :: -1 if way & 1 else 1, :: -1 if way & 2 else 1]


def _descriptors(small: Array) -> Array:
    """Return rows of unit length: low frequencies, each weighted by its frequency, as photographs have less of them."""
    frequencies = np.arange(_LOW)
    weights = np.hypot(frequencies[:, None], frequencies)
    rows = (dctn(small, axes=(1, 2), norm="ortho")[:, :_LOW, :_LOW] * weights).reshape(len(small), -1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9
    rows[small.std(axis=(1, 2)) < _FEWEST_LEVELS] = 0
    return rows.astype(np.float32)


def _candidates(small: Array, n_ways: int) -> tuple[Indices, Indices, Indices, NDArray[np.bool_]]:
    """Return likely pairs, the way to turn the second picture, and whether the first is rather a crop of it."""
    rows = _descriptors(small)
    middle = _stretched(np.full(1, _CROPPED, np.float32), np.zeros(1, np.float32), small.shape[1])
    cropped = middle @ small @ middle.swapaxes(1, 2)
    queries = [(way, False) for way in range(n_ways)] + [(way, True) for way in (0, _MIRRORED) if way < n_ways]
    found = []
    with threads_for(len(rows) ** 2 * rows.shape[1]):
        for way, is_crop in queries:
            others = _descriptors(_turned(cropped if is_crop else small, way))
            for block in row_blocks(len(rows), _ROWS_AT_A_TIME):
                # Without a crop, a pair in one order is enough.
                start = 0 if is_crop else block.start
                at, other = np.nonzero((products := rows[block] @ others[start:].T) >= _LIKELY)
                product = products[at, other]
                at, other = at + block.start, other + start
                keep = (at != other) if is_crop else (at < other)
                kinds = np.full(keep.sum(), way), np.full(keep.sum(), is_crop)
                found.append((at[keep], other[keep], product[keep], *kinds))
    first, second, product, way_of, crop_of = (np.concatenate(part) for part in zip(*found, strict=True))
    near = (_rank(first, product) < _MOST_CANDIDATES) | (_rank(second, product) < _MOST_CANDIDATES)
    return first[near], second[near], way_of[near], crop_of[near]


def _rank(samples: Indices, product: Array) -> Indices:
    """Return how many pairs of the same sample have a larger product."""
    order = np.lexsort((-product, samples))
    ordered = samples[order]
    rank = np.empty(len(samples), np.intp)
    rank[order] = np.arange(len(samples)) - np.searchsorted(ordered, ordered)
    return rank


def _same_color(pictures: NDArray[np.uint8], first: Indices, second: Indices) -> NDArray[np.bool_]:
    """Tell which pairs have a similar mean color, whatever its brightness, or a picture without colors."""
    color = np.concatenate([_mean_color(pictures[block]) for block in row_blocks(len(pictures), _ROWS_AT_A_TIME)])
    differs = np.abs(color[first] - color[second]).max(axis=1) > _SAME_COLOR
    gray = np.ptp(color, axis=1) <= _COLORED
    return ~differs | gray[first] | gray[second]


def _mean_color(pictures: NDArray[np.uint8]) -> Array:
    color = pictures.mean(axis=(1, 2), dtype=np.float32) / 255
    return np.asarray(color - color.mean(axis=1, keepdims=True))


# --- alignment ---
def _stretched(scale: Array, shift: Array, side: int) -> Array:
    """Return matrices (n, side, side) that take values at scale * x + shift, where x goes from -1 to 1."""
    x = (2 * np.arange(side, dtype=np.float32) + 1) / side - 1
    at = ((scale[:, None] * x + shift[:, None] + 1) * side - 1) / 2
    return np.maximum(0, 1 - np.abs(at[:, :, None] - np.arange(side, dtype=np.float32)))


def _warped(change: Array, side: int) -> tuple[Array, Array, Array]:
    """Return matrices for rows and columns, and where the result is known. Changes: scale and shift along x, then y."""
    across = _stretched(1 + change[:, 0], change[:, 1], side)
    along = _stretched(1 + change[:, 2], change[:, 3], side)
    known = (along.sum(axis=2) > 0.99)[:, :, None] & (across.sum(axis=2) > 0.99)[:, None, :]
    return along, across.swapaxes(1, 2), known.astype(np.float32)


def _aligned(own: Array, other: Array, change: Array) -> Array:
    """Return the change of scale and shift that makes pictures most similar to others, by Gauss-Newton steps.

    Brightness and contrast are fitted as well.
    """
    n_pairs, side, _ = own.shape
    x = (2 * np.arange(side, dtype=np.float32) + 1) / side - 1
    slope_x, slope_y = np.gradient(own, 2 / side, axis=2), np.gradient(own, 2 / side, axis=1)
    for _ in range(_STEPS):
        along, across, known = _warped(change, side)
        picture, dx, dy = (along @ part @ across for part in (own, slope_x, slope_y))
        columns = np.stack([dx * x, dx, dy * x[:, None], dy, picture, np.ones_like(picture)], axis=3)
        columns = (columns * known[..., None]).reshape(n_pairs, -1, 6)
        normal = columns.swapaxes(1, 2) @ columns + _RIDGE * side**2 * np.eye(6, dtype=np.float32)
        solved = np.linalg.solve(normal, columns.swapaxes(1, 2) @ other.reshape(n_pairs, -1, 1))[..., 0]
        contrast = np.maximum(solved[:, 4:5], 0.2)
        change = change + np.clip(solved[:, :4] / contrast, -0.1, 0.1)
        change = np.clip(change, -_LARGEST_CHANGE, _LARGEST_CHANGE)
    return change


def _scores(own: Array, other: Array, change: Array) -> Array:
    """Return the cosine of the gradients of two pictures, where the first, changed, overlaps the second."""
    along, across, known = _warped(change, own.shape[1])
    both = np.concatenate([_flat(known[:, 1:] * known[:, :-1]), _flat(known[:, :, 1:] * known[:, :, :-1])], axis=1)
    n_gradients = both.sum(axis=1)
    u, v = _gradients(along @ own @ across, both, n_gradients), _gradients(other, both, n_gradients)
    products = [np.einsum("nk,nk->n", *pair) for pair in ((u, v), (u, u), (v, v))]
    noise = _NOISE * n_gradients
    score = products[0] / np.sqrt((products[1] + noise) * (products[2] + noise) + 1e-12)
    return np.where(known.mean(axis=(1, 2)) >= _LEAST_OVERLAP, score, 0)


def _flat(pictures: Array) -> Array:
    return pictures.reshape(len(pictures), -1)


def _gradients(pictures: Array, known: Array, n_known: Array) -> Array:
    """Return gradients where they are known. A few strong edges, as those of a frame, do not count for everything."""
    found = np.concatenate([_flat(np.diff(pictures, axis=axis)) for axis in (1, 2)], axis=1) * known
    most = _STRONG_EDGE * np.abs(found).sum(axis=1) / np.maximum(n_known, 1)
    return np.clip(found, -most[:, None], most[:, None])


def _likeness(own: Array, other: Array, cropped: NDArray[np.bool_]) -> Array:
    """Return the score of each pair of pictures after alignment, first at half resolution, then at full resolution."""
    change = np.zeros((len(own), 4), np.float32)
    change[cropped, 0] = change[cropped, 2] = _CROPPED - 1
    half_own, half_other = _halved(own), _halved(other)
    change = _aligned(half_own, half_other, change)
    likely = np.flatnonzero(_scores(half_own, half_other, change) >= _ALIKE_AT_HALF)
    score = np.zeros(len(own), np.float32)
    score[likely] = _scores(own[likely], other[likely], _aligned(own[likely], other[likely], change[likely]))
    return np.minimum(score, 1)


def _halved(pictures: Array) -> Array:
    n, side, _ = pictures.shape
    return pictures.reshape(n, side // 2, 2, side // 2, 2).mean(axis=(2, 4))
