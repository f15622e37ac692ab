"""Positions of samples on a map: similar samples are close together, or each has its own place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors

from ..utils.types import Array, Indices

_LANDMARKS = 4000  # t-SNE takes time n log n: any further samples are placed by their nearest landmarks
_FEWEST = 6  # samples for t-SNE
_PERPLEXITY = 30
_NEAREST_LANDMARKS = 5
_OUTLYING = 0.2  # percent of the points of the map that may be moved to its edge
_FIRST_SPREAD = 1e-4


def map_positions(X: Array, random: np.random.RandomState) -> Array:
    """Return positions of samples between 0 and 1, with similar samples close to each other.

    t-SNE places up to 4,000 samples, starting from their first two principal components. If there are more samples,
    4,000 are drawn as landmarks, and each of the others is placed among the landmarks that it is most similar to. So
    the time is linear in the number of samples.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows of unit length.
    random : RandomState
        Determines the landmarks.

    Returns
    -------
    ndarray of shape (n_samples, 2)
        The positions.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 10, axis=0) + np.random.RandomState(0).normal(scale=0.01, size=(30, 3))
    >>> positions = map_positions(X, np.random.RandomState(0))
    >>> apart = np.linalg.norm(positions[:10].mean(axis=0) - positions[10:20].mean(axis=0))
    >>> bool(apart > 3 * positions[:10].std(axis=0).max())
    True
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
    return _in_unit_square(positions)


def _placed(X: Array, random: np.random.RandomState) -> Array:
    if not np.ptp(X, axis=0).any():
        return np.zeros((len(X), 2))
    first = PCA(min(2, *X.shape), random_state=random).fit_transform(X)
    first = np.pad(first, ((0, 0), (0, 2 - first.shape[1])))
    if len(X) < _FEWEST:
        return first
    start = first / first.std(axis=0).max() * _FIRST_SPREAD
    perplexity = min(_PERPLEXITY, (len(X) - 1) / 3)
    return TSNE(perplexity=perplexity, init=start.astype(np.float32), random_state=random).fit_transform(X)


def _among_landmarks(X: Array, landmarks: Array, placed: Array, random: np.random.RandomState) -> Array:
    """Place samples near their nearest landmark, shifted towards the next ones in the same part of the map."""
    index = NearestNeighbors(n_neighbors=_NEAREST_LANDMARKS, algorithm="brute").fit(landmarks)
    distances, nearest = index.kneighbors(X)
    own = NearestNeighbors(n_neighbors=1).fit(placed).kneighbors()[0]  # the distances between landmarks on the map
    reach = 4 * float(np.median(own))
    there = placed[nearest]
    near = np.linalg.norm(there - there[:, :1], axis=2) <= reach  # a mean over distant places would be nowhere
    weights = near / np.maximum(distances, 1e-6) ** 2
    means = np.einsum("nk,nkd->nd", weights, there) / weights.sum(axis=1, keepdims=True)
    return means + random.normal(scale=reach / 6, size=means.shape)


def _in_unit_square(positions: Array) -> Array:
    """Scale the map. Its shape is kept, but a few points far outside move to the edge to give the others room."""
    low, high = np.percentile(positions, (_OUTLYING / 2, 100 - _OUTLYING / 2), axis=0)
    middle, span = (low + high) / 2, float((high - low).max()) or 1.0
    return np.clip((positions - middle) / (1.06 * span) + 0.5, 0, 1)


def grid_positions(positions: Array) -> Indices:
    """Give each sample its own cell of a square grid, near its position on the map.

    The map is halved repeatedly, across and along, in proportion to the cells on each side.

    Parameters
    ----------
    positions : ndarray of shape (n_samples, 2)
        Positions on a map.

    Returns
    -------
    ndarray of int of shape (n_samples, 2)
        The column and row of each sample.

    Examples
    --------
    >>> grid_positions(np.array([[0.9, 0.1], [0.1, 0.2], [0.3, 0.9], [0.8, 0.9]])).tolist()
    [[1, 0], [0, 0], [0, 1], [1, 1]]
    """
    n_columns = int(np.ceil(np.sqrt(len(positions))))
    n_rows = -(-len(positions) // n_columns)
    cells = np.empty((len(positions), 2), np.intp)
    _halve(positions, np.arange(len(positions)), (0, 0, n_columns, n_rows), lambda rows, at: _put(cells, rows, at))
    return cells


def _put(cells: Indices, samples: Indices, at: tuple[int, int]) -> None:
    cells[samples] = at


def _halve(
    positions: Array, samples: Indices, room: tuple[int, int, int, int], put: Callable[[Indices, tuple[int, int]], None]
) -> None:
    """Distribute samples over the cells of a room (column, row, columns, rows). Cells at the end may stay empty."""
    column, row, n_columns, n_rows = room
    if len(samples) == 0:
        return
    if n_columns * n_rows == 1:
        put(samples, (column, row))
        return
    axis = 0 if n_columns >= n_rows else 1
    first = (n_columns if axis == 0 else n_rows) // 2
    ordered = samples[np.argsort(positions[samples, axis], kind="stable")]
    rooms = (
        ((column, row, first, n_rows), (column + first, row, n_columns - first, n_rows))
        if axis == 0
        else ((column, row, n_columns, first), (column, row + first, n_columns, n_rows - first))
    )
    # Both sides are filled to the same degree, so that empty cells are spread over the grid.
    share = rooms[0][2] * rooms[0][3] / (n_columns * n_rows)
    cut = round(len(samples) * share)
    cut = min(max(cut, len(samples) - rooms[1][2] * rooms[1][3]), rooms[0][2] * rooms[0][3])
    _halve(positions, ordered[:cut], rooms[0], put)
    _halve(positions, ordered[cut:], rooms[1], put)
