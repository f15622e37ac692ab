"""Similar samples: the nearest neighbours of each sample, outliers, groups, and a map of all of them.

Everything starts from the rows of :func:`comparable` or :func:`directions`, whose products are similarities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from ..balanced.kmeans import BalancedKMeans
from ..data.moments import unit_rows
from ..utils.threads import threads_for
from ..utils.types import Array, Indices
from ..utils.wording import counted

GroupKind = Literal["auto", "balanced", "density"]

N_NEAREST = 12
_PRINCIPAL_COMPONENTS = 100
_FAR = 4  # robust standard deviations above the median: an outlier
_LEAST_SPREAD = 0.05  # of logarithms of distances

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
_LARGEST_ISLAND = 0.5  # of all samples, where the dense regions of the map are clear groups
_MOST_OUTSIDE = 0.2  # of all samples, there
_MIDDLE = 0.1  # of the way between two centers, from the middle: a sample there is between two groups
_MOST_BETWEEN = _MIDDLE / 2  # of samples between clear groups: half of what samples spread evenly would give
_N_TRAITS = 3
_MOST_MEMBERS = 0.75  # are above the median of all samples, or below it, where a trait is mentioned
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
        parts = PCA(n_components, random_state=random).fit_transform(X)
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

    def distances(self) -> Array:
        """Return the Euclidean distances to the nearest samples, between rows of unit length."""
        return np.asarray(np.sqrt(np.maximum(2 - 2 * self.cosines, 0)))


def similarity(X: Array) -> Similarity:
    """Return the nearest neighbours of each row of :func:`comparable` or :func:`directions`."""
    n_nearest = min(N_NEAREST, len(X) - 1)
    with threads_for(X.size * len(X)):
        distances, nearest = NearestNeighbors(n_neighbors=n_nearest, algorithm="brute").fit(X).kneighbors()
    return Similarity(nearest, np.clip(1 - np.square(distances) / 2, -1, 1))


def outliers(found: Similarity) -> tuple[Indices, Array]:
    """Return samples that are unusually far from their nearest samples, the farthest first, and how far they are.

    The score of a sample is its mean distance to its nearest samples, divided by the (geometric) mean of theirs or the
    median of all, whichever is larger. So a sample in a thin region is no outlier if those around it are as far apart,
    nor is one at the edge of a dense region. Outliers are more than four robust standard deviations above the median of
    all scores, in logarithms.
    """
    logarithms = np.log(np.maximum(found.distances().mean(axis=1), np.finfo(np.float32).tiny))
    scores = logarithms - np.maximum(logarithms[found.nearest].mean(axis=1), np.median(logarithms))
    middle = np.median(scores)
    spread = max(1.4826 * float(np.median(np.abs(scores - middle))), _LEAST_SPREAD)
    order = np.argsort(-scores, kind="stable")
    far = order[scores[order] > middle + _FAR * spread]
    return far, np.exp(scores[far])


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
    X: Array, positions: Array, groups: int | GroupKind, random: np.random.RandomState
) -> tuple[Indices, GroupKind]:
    """Return the number of the group of each sample, or -1 for none, and the kind of the groups.

    Balanced groups, as many as ``groups`` or a usual number, are based on the rows. Dense groups are based on the map:
    they are the islands that a reader sees, and samples between them are in no group. "auto" takes the islands if they
    are clear: none has more than half of the samples, few samples are outside, and few are halfway between two of them
    in the rows.
    """
    if groups in ("auto", "density"):
        found = _islands(positions)
        if groups == "density" or _are_clear(X, found):
            return found, "density"
    n_clusters = min(groups, len(X)) if isinstance(groups, int) else usual_number(len(X))
    model = BalancedKMeans(n_clusters, random_state=random)
    return np.asarray(model.fit_predict(np.asarray(X, np.float32)), np.intp), "balanced"


def _islands(positions: Array) -> Indices:
    smallest = max(_FEWEST_OF_A_GROUP, len(positions) // _SMALLEST_SHARE)
    if len(positions) <= smallest:
        return np.zeros(len(positions), np.intp)
    dense = HDBSCAN(min_cluster_size=smallest, min_samples=_FEWEST_OF_A_GROUP, copy=True)
    with threads_for(0):
        found = dense.fit_predict(positions)
    return _largest_first(np.asarray(found, np.intp))


def _are_clear(X: Array, groups: Indices) -> bool:
    n_inside = int(np.sum(groups >= 0))
    largest = int(np.bincount(groups + 1)[1:].max(initial=0))
    if largest > _LARGEST_ISLAND * len(groups) or n_inside < (1 - _MOST_OUTSIDE) * len(groups):
        return False
    return sum(len(group.between) for group in described(X, groups)) <= _MOST_BETWEEN * n_inside


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
    between: Indices  # members that are about as close to the mean of that group, the closest first


def described(X: Array, groups: Indices) -> list[Group]:
    """Return each group with its typical samples, its nearest group, and the samples between the two."""
    n_groups = int(groups.max(initial=-1)) + 1
    members = [np.flatnonzero(groups == number) for number in range(n_groups)]
    means = np.stack([X[own].mean(axis=0) for own in members]) if n_groups else X[:0]
    centers = unit_rows(means)
    cosines = centers @ centers.T
    np.fill_diagonal(cosines, -np.inf)
    found = []
    for number, own in enumerate(members):
        typical = own[np.argsort(-(X[own] @ centers[number]), kind="stable")][:N_TYPICAL]
        next_to = int(cosines[number].argmax()) if n_groups > 1 else -1
        # From -1/2 at the mean of the other group to 1/2 at that of this one, without the sample itself: in many
        # dimensions, a sample is close to a mean that it is part of.
        rest = (len(own) * means[number] - X[own]) / max(len(own) - 1, 1)
        way = rest - means[next_to]
        length = np.maximum(np.square(way).sum(axis=1), np.finfo(np.float32).tiny)
        place = ((X[own] - (rest + means[next_to]) / 2) * way).sum(axis=1) / length
        order = np.argsort(place, kind="stable")
        between = own[order[place[order] < _MIDDLE]] if n_groups > 1 else own[:0]
        found.append(Group(own, typical, next_to, between))
    return found


def traits(columns: Array, groups: Sequence[Group], n_traits: int = _N_TRAITS) -> list[list[tuple[int, float]]]:
    """For each group, return the columns whose mean differs most from that of all samples, the strongest first.

    A column comes with its difference in standard deviations. Three quarters of the members, or more, are on that
    side of the median of all samples.
    """
    deviations = columns.std(axis=0)
    scale = np.where(deviations > 0, deviations, np.inf)
    center, middle = columns.mean(axis=0), np.median(columns, axis=0)
    found = []
    for group in groups:
        own = columns[group.members]
        difference = (own.mean(axis=0) - center) / scale
        on_that_side = np.where(difference > 0, (own > middle).mean(axis=0), (own < middle).mean(axis=0))
        holds = (np.abs(difference) >= _PLAIN) & (on_that_side >= _MOST_MEMBERS)
        strongest = np.argsort(-np.abs(difference) * holds, kind="stable")[: min(n_traits, int(holds.sum()))]
        found.append([(int(k), float(difference[k])) for k in strongest])
    return found


def shares(labels: Sequence[Any], groups: Sequence[Group]) -> list[list[tuple[str, int]]]:
    """For each group, count the samples with each label, the most frequent first. Unlabelled samples do not count."""
    return [Counter(labels[k] for k in group.members if labels[k]).most_common() for group in groups]
