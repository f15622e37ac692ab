"""Similar samples: the nearest neighbours of each sample, outliers, near-duplicates, groups, and a map of all of them.

Everything starts from the rows of :func:`comparable` or :func:`directions`, whose products are similarities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from ..balanced.kmeans import BalancedKMeans
from ..data.moments import unit_rows
from ..utils.threads import row_blocks, threads_for
from ..utils.types import Array, Indices
from ..utils.wording import counted

N_NEAREST = 12
_PRINCIPAL_COMPONENTS = 100
_SAME_PIXELS = 8.0  # levels of 255: the mean difference between small pictures of the same scene
_SAME_CONTRAST = 0.25  # at most, of a picture's standard deviation: pale pictures share only their background
_SAME_VECTOR = 0.02  # of the typical distance to the nearest sample
_PAIRS_AT_A_TIME = 20_000

_LANDMARKS = 4000  # t-SNE takes time n log n: any further samples are placed by their nearest landmarks
_FEWEST_FOR_TSNE = 6
_PERPLEXITY = 30
_NEAREST_LANDMARKS = 5
_OUTLYING = 0.2  # percent of the points of the map that may be moved to its edge
_FIRST_SPREAD = 1e-4

N_TYPICAL = 12
_MOST_GROUPS = 24
_SMALLEST_SHARE = 100  # a dense group has at least one in this many samples
_FEWEST_OF_A_GROUP = 5
_N_TRAITS = 3
_PLAIN = 0.3  # standard deviations: smaller differences are not mentioned


def directions(features: Array) -> Array:
    """Return the features of each sample as they are, scaled to unit length: the products of rows are cosines."""
    X = unit_rows(np.asarray(features, np.float32))
    if n_zero := int((~X.any(axis=1)).sum()):
        raise ValueError(
            f"{counted(n_zero, 'samples')} {'has' if n_zero == 1 else 'have'} features that are all zero, the first "
            f"in row {int(X.any(axis=1).argmin())} (from 0), and no cosine: leave them out, or compare standardised "
            f"features"
        )
    return X


def comparable(features: Array, random: np.random.RandomState, *, keep_length: bool = False) -> Array:
    """Return rows of unit length whose products are similarities: principal components of the standardised features.

    Each component is divided by the square root of its standard deviation. This is a compromise: without it, a few
    strong components dominate; with equal variances, the noise of the weak ones counts as much as the signal. With
    ``keep_length``, rows that differ only in length are also different, as they should be in a table with few columns.
    To do so, a constant is added to each row before it is scaled to unit length.
    """
    X = StandardScaler().fit_transform(np.asarray(features, np.float32))
    if not X.any():  # all samples are equal
        return np.ones((len(X), 1), np.float32)
    n_components = min(_PRINCIPAL_COMPONENTS, len(X), X.shape[1])
    with threads_for(X.size * min(X.shape)):
        parts = PCA(n_components, svd_solver="auto", random_state=random).fit_transform(X)
    deviations = parts.std(axis=0)
    parts /= np.sqrt(np.where(deviations > 1e-6 * deviations.max(), deviations, np.inf))
    if keep_length:
        typical = np.sqrt(np.square(parts).sum(axis=1).mean())
        parts = np.column_stack([parts, np.full(len(parts), typical, parts.dtype)])
    return unit_rows(parts)


@dataclass(frozen=True)
class Similarity:
    """The nearest samples of each sample, the most similar first, and their cosines: (n_samples, n_nearest)."""

    nearest: Indices
    cosines: Array

    def loneliness(self) -> Array:
        """Return one minus the mean cosine to the nearest samples. It is large for outliers."""
        return 1 - self.cosines.mean(axis=1)


def similarity(X: Array) -> Similarity:
    """Return the nearest neighbours of each row of :func:`comparable` or :func:`directions`."""
    n_nearest = min(N_NEAREST, len(X) - 1)
    with threads_for(X.size * len(X)):
        distances, nearest = NearestNeighbors(n_neighbors=n_nearest, algorithm="brute").fit(X).kneighbors()
    return Similarity(nearest, np.clip(1 - np.square(distances) / 2, -1, 1))


def duplicate_pictures(found: Similarity, pictures: NDArray[np.uint8]) -> list[list[int]]:
    """Find sets of samples that are nearest neighbours and whose small pictures differ by a few levels of gray.

    ``pictures`` has the shape (n_samples, height, width, 3). The largest set comes first.
    """
    flat = pictures.reshape(len(pictures), -1)
    n_samples, n_nearest = found.nearest.shape
    first, second = np.repeat(np.arange(n_samples), n_nearest), found.nearest.ravel()
    alike = np.empty(len(first), np.bool_)
    for pairs in row_blocks(len(first), _PAIRS_AT_A_TIME):
        own = flat[first[pairs]]
        difference = np.abs(own.astype(np.int16) - flat[second[pairs]]).mean(axis=1)
        alike[pairs] = difference <= np.minimum(_SAME_PIXELS, 1 + _SAME_CONTRAST * own.std(axis=1))
    return _sets(first[alike], second[alike], n_samples)


def duplicate_vectors(found: Similarity) -> list[list[int]]:
    """Find sets of samples that are much closer to each other than nearest neighbours usually are."""
    distances = np.sqrt(np.maximum(2 - 2 * found.cosines, 0))
    close = distances <= _SAME_VECTOR * np.median(distances[:, 0])
    rows, places = np.nonzero(close)
    return _sets(rows, found.nearest[rows, places], len(found.nearest))


def _sets(first: Indices, second: Indices, n_samples: int) -> list[list[int]]:
    """Return the connected sets of several samples, given pairs; the largest set first."""
    graph = sparse.coo_matrix((np.ones(len(first), bool), (first, second)), shape=(n_samples, n_samples))
    n_sets, of_sample = connected_components(graph, directed=False)
    sizes = np.bincount(of_sample, minlength=n_sets)
    members = np.split(np.argsort(of_sample, kind="stable"), np.cumsum(sizes)[:-1])
    several = [part.tolist() for part in members if len(part) > 1]
    return sorted(several, key=len, reverse=True)


def map_positions(X: Array, random: np.random.RandomState) -> Array:
    """Return positions of samples between 0 and 1, with similar samples close to each other: (n_samples, 2).

    t-SNE places up to 4,000 samples, starting from their first two principal components. If there are more samples,
    4,000 are drawn as landmarks, and each of the others is placed among the landmarks that it is most similar to. So
    the time is linear in the number of samples.
    """
    chosen = np.arange(len(X))
    if len(X) > _LANDMARKS:
        chosen = np.sort(random.permutation(len(X))[:_LANDMARKS])
    placed = _placed(X[chosen], random)
    positions = np.empty((len(X), 2))
    positions[chosen] = placed
    others = np.setdiff1d(np.arange(len(X)), chosen)
    if len(others):
        positions[others] = _among_landmarks(X[others], X[chosen], placed, random)
    return framed(positions)


def framed(positions: Array) -> Array:
    """Return positions between 0 and 1. Their shape is kept, but a few points far outside move to the edge."""
    low, high = np.percentile(positions, (_OUTLYING / 2, 100 - _OUTLYING / 2), axis=0)
    middle, span = (low + high) / 2, float((high - low).max()) or 1.0
    return np.clip((positions - middle) / (1.06 * span) + 0.5, 0, 1)


def _placed(X: Array, random: np.random.RandomState) -> Array:
    if not np.ptp(X, axis=0).any():
        return np.zeros((len(X), 2))
    with threads_for(X.size * min(X.shape)):
        first = PCA(min(2, *X.shape), random_state=random).fit_transform(X)
    first = np.pad(first, ((0, 0), (0, 2 - first.shape[1])))
    if len(X) < _FEWEST_FOR_TSNE:
        return first
    start = first / first.std(axis=0).max() * _FIRST_SPREAD
    perplexity = min(_PERPLEXITY, (len(X) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init=start.astype(np.float32), random_state=random)
    # One thread: after each short step, threads of OpenMP spin until the last is done, for seconds on a busy machine.
    with threads_for(0):
        return np.asarray(tsne.fit_transform(X))


def _among_landmarks(X: Array, landmarks: Array, placed: Array, random: np.random.RandomState) -> Array:
    """Place samples near their nearest landmark, shifted towards the next ones in the same part of the map."""
    index = NearestNeighbors(n_neighbors=_NEAREST_LANDMARKS, algorithm="brute").fit(landmarks)
    with threads_for(X.size * len(landmarks)):
        distances, nearest = index.kneighbors(X)
        own = NearestNeighbors(n_neighbors=1).fit(placed).kneighbors()[0]  # the distances between landmarks on the map
    reach = 4 * float(np.median(own))
    there = placed[nearest]
    near = np.linalg.norm(there - there[:, :1], axis=2) <= reach  # a mean over distant places would be nowhere
    weights = near / np.maximum(distances, 1e-6) ** 2
    means = np.einsum("nk,nkd->nd", weights, there) / weights.sum(axis=1, keepdims=True)
    return means + random.normal(scale=reach / 6, size=means.shape)


def grid_positions(positions: Array) -> Indices:
    """Give each sample its own cell of a square grid, near its position on the map: (column, row) of each.

    The map is halved repeatedly, across and along, in proportion to the cells on each side.
    """
    n_columns = int(np.ceil(np.sqrt(len(positions))))
    n_rows = -(-len(positions) // n_columns)
    cells = np.empty((len(positions), 2), np.intp)
    _fill(cells, positions, np.arange(len(positions)), (0, 0, n_columns, n_rows))
    return cells


def _fill(cells: Indices, positions: Array, samples: Indices, room: tuple[int, int, int, int]) -> None:
    """Distribute samples over the cells of a room (column, row, columns, rows). Cells at the end may stay empty."""
    column, row, n_columns, n_rows = room
    if len(samples) == 0:
        return
    if n_columns * n_rows == 1:
        cells[samples] = column, row
        return
    if n_columns >= n_rows:
        axis, first = 0, n_columns // 2
        rooms = (column, row, first, n_rows), (column + first, row, n_columns - first, n_rows)
    else:
        axis, first = 1, n_rows // 2
        rooms = (column, row, n_columns, first), (column, row + first, n_columns, n_rows - first)
    ordered = samples[np.argsort(positions[samples, axis], kind="stable")]
    # Both sides are filled to the same degree, so that empty cells are spread over the grid.
    n_first, n_second = (n_across * n_along for _, _, n_across, n_along in rooms)
    cut = round(len(samples) * (n_first / (n_columns * n_rows)))
    cut = min(max(cut, len(samples) - n_second), n_first)
    _fill(cells, positions, ordered[:cut], rooms[0])
    _fill(cells, positions, ordered[cut:], rooms[1])


def grouped(
    X: Array, positions: Array, groups: int | Literal["density"] | None, random: np.random.RandomState
) -> Indices:
    """Return the number of the group of each sample, or -1 for none.

    Balanced groups, as many as ``groups`` (None: a usual number), are based on the rows. Dense groups are based on the
    map: they are the islands that a reader sees, and samples between them are in no group.
    """
    if groups == "density":
        smallest = max(_FEWEST_OF_A_GROUP, len(X) // _SMALLEST_SHARE)
        if len(X) <= smallest:
            return np.zeros(len(X), np.intp)
        dense = HDBSCAN(min_cluster_size=smallest, min_samples=_FEWEST_OF_A_GROUP, copy=True)
        with threads_for(0):
            found = dense.fit_predict(positions)
        return _largest_first(np.asarray(found, np.intp))
    n_clusters = usual_number(len(X)) if groups is None else min(groups, len(X))
    model = BalancedKMeans(n_clusters, random_state=random)
    return np.asarray(model.fit_predict(np.asarray(X, np.float32)), np.intp)


def usual_number(n_samples: int) -> int:
    """Return the default number of groups for this many samples."""
    return int(np.clip(round(np.sqrt(n_samples / 2)), 1, _MOST_GROUPS))


def _largest_first(groups: Indices) -> Indices:
    sizes = np.bincount(groups[groups >= 0], minlength=1)
    numbers = np.empty(len(sizes), np.intp)
    numbers[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return np.where(groups >= 0, numbers[groups], -1)


@dataclass(frozen=True)
class Group:
    """A group of similar samples."""

    members: Indices
    typical: Indices  # those closest to the mean, the most similar first
    next_to: int  # the number of the most similar group, or -1 if there is no other
    between: Indices  # the samples of this group that are most similar to the mean of that group


def described(X: Array, groups: Indices) -> list[Group]:
    """Return each group with its typical samples, its nearest group, and the samples between the two."""
    n_groups = int(groups.max(initial=-1)) + 1
    members = [np.flatnonzero(groups == number) for number in range(n_groups)]
    centers = unit_rows(np.stack([X[own].mean(axis=0) for own in members])) if n_groups else X[:0]
    cosines = centers @ centers.T
    np.fill_diagonal(cosines, -np.inf)
    found = []
    for number, own in enumerate(members):
        typical = own[np.argsort(-(X[own] @ centers[number]), kind="stable")][:N_TYPICAL]
        next_to = int(cosines[number].argmax()) if n_groups > 1 else -1
        margin = X[own] @ (centers[number] - centers[next_to])
        between = own[np.argsort(margin, kind="stable")][:N_TYPICAL] if n_groups > 1 else own[:0]
        found.append(Group(own, typical, next_to, between))
    return found


def traits(columns: Array, groups: Sequence[Group], n_traits: int = _N_TRAITS) -> list[list[tuple[int, float]]]:
    """For each group, return the columns whose mean differs most from that of all samples, the strongest first.

    A column comes with its difference in standard deviations.
    """
    deviations = columns.std(axis=0)
    scale = np.where(deviations > 0, deviations, np.inf)
    center = columns.mean(axis=0)
    found = []
    for group in groups:
        difference = (columns[group.members].mean(axis=0) - center) / scale
        strongest = np.argsort(-np.abs(difference), kind="stable")[:n_traits]
        found.append([(int(k), float(difference[k])) for k in strongest if abs(difference[k]) >= _PLAIN])
    return found


def shares(labels: Sequence[Any], groups: Sequence[Group]) -> list[list[tuple[str, int]]]:
    """For each group, count the samples with each label, the most frequent first. Unlabelled samples do not count."""
    return [Counter(labels[k] for k in group.members if labels[k]).most_common() for group in groups]
