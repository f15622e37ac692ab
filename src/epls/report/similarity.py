"""Similar samples: the nearest neighbours of each sample, outliers, and near-duplicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from ..data.moments import unit_rows
from ..utils.types import Array, Indices

N_NEAREST = 12
_PRINCIPAL_COMPONENTS = 100
_SAME_PIXELS = 8.0  # levels of 255: the mean difference between small pictures of the same scene
_SAME_CONTRAST = 0.25  # at most, of a picture's standard deviation: pale pictures share only their background
_SAME_VECTOR = 0.02  # of the typical distance to the nearest sample


@dataclass(frozen=True)
class Similarity:
    """The nearest neighbours of each sample, by the cosine of their features.

    Attributes
    ----------
    nearest : ndarray of int of shape (n_samples, n_nearest)
        The nearest samples, the most similar first.
    cosines : ndarray of shape (n_samples, n_nearest)
        The cosines of these samples.
    """

    nearest: Indices
    cosines: Array

    def loneliness(self) -> Array:
        """One minus the mean cosine to the nearest samples. It is large for outliers."""
        return 1 - self.cosines.mean(axis=1)


def comparable(features: Array, random: np.random.RandomState, *, keep_length: bool = False) -> Array:
    """Return rows of unit length whose products are similarities: principal components of the standardised features.

    Each component is divided by the square root of its standard deviation. This is a compromise: without it, a few
    strong components dominate; with equal variances, the noise of the weak ones counts as much as the signal. With
    ``keep_length``, rows that differ only in length are also different, as they should be in a table with few columns.
    To do so, a constant is added to each row before it is scaled to unit length.

    Examples
    --------
    >>> import numpy as np
    >>> X = comparable(np.random.RandomState(0).normal(size=(50, 300)), np.random.RandomState(0))
    >>> X.shape[0], bool(np.allclose(np.linalg.norm(X, axis=1), 1))
    (50, True)
    """
    X = StandardScaler().fit_transform(np.asarray(features, np.float32))
    if not X.any():  # all samples are equal
        return np.ones((len(X), 1), np.float32)
    n_components = min(_PRINCIPAL_COMPONENTS, len(X), X.shape[1])
    parts = PCA(n_components, svd_solver="auto", random_state=random).fit_transform(X)
    deviations = parts.std(axis=0)
    parts /= np.sqrt(np.where(deviations > 1e-6 * deviations.max(), deviations, np.inf))
    if keep_length:
        typical = np.sqrt(np.square(parts).sum(axis=1).mean())
        parts = np.column_stack([parts, np.full(len(parts), typical, parts.dtype)])
    return unit_rows(parts)


def similarity(X: Array) -> Similarity:
    """Return the nearest neighbours of each row of :func:`comparable`."""
    n_nearest = min(N_NEAREST, len(X) - 1)
    distances, nearest = NearestNeighbors(n_neighbors=n_nearest, algorithm="brute").fit(X).kneighbors()
    return Similarity(nearest, np.clip(1 - np.square(distances) / 2, -1, 1))


def duplicate_pictures(found: Similarity, pictures: NDArray[np.uint8]) -> list[list[int]]:
    """Find sets of samples that are nearest neighbours and whose small pictures differ by a few levels of gray.

    Parameters
    ----------
    found : Similarity
        The nearest samples.
    pictures : ndarray of uint8 of shape (n_samples, height, width, 3)
        Small pictures.

    Returns
    -------
    list of list of int
        The sets, the largest first.
    """
    flat = pictures.reshape(len(pictures), -1)

    def alike(first: Indices, second: Indices) -> NDArray[np.bool_]:
        difference = np.abs(flat[first].astype(np.int16) - flat[second]).mean(axis=1)
        return difference <= np.minimum(_SAME_PIXELS, 1 + _SAME_CONTRAST * flat[first].std(axis=1))

    return _connected(found, alike)


def duplicate_vectors(found: Similarity) -> list[list[int]]:
    """Find sets of samples that are much closer to each other than nearest neighbours usually are."""
    distances = np.sqrt(np.maximum(2 - 2 * found.cosines, 0))
    close = distances <= _SAME_VECTOR * np.median(distances[:, 0])
    rows, places = np.nonzero(close)
    return _sets(rows, found.nearest[rows, places], len(found.nearest))


def _connected(found: Similarity, alike: Any) -> list[list[int]]:
    n_samples, n_nearest = found.nearest.shape
    first = np.repeat(np.arange(n_samples), n_nearest)
    second = found.nearest.ravel()
    kept = np.concatenate([alike(first[part], second[part]) for part in _parts(len(first))])
    return _sets(first[kept], second[kept], n_samples)


def _parts(n_pairs: int, at_a_time: int = 20_000) -> list[slice]:
    return [slice(start, start + at_a_time) for start in range(0, n_pairs, at_a_time)]


def _sets(first: Indices, second: Indices, n_samples: int) -> list[list[int]]:
    graph = sparse.coo_matrix((np.ones(len(first), bool), (first, second)), shape=(n_samples, n_samples))
    n_sets, of_sample = connected_components(graph, directed=False)
    sizes = np.bincount(of_sample, minlength=n_sets)
    members = np.split(np.argsort(of_sample, kind="stable"), np.cumsum(sizes)[:-1])
    several = [part.tolist() for part in members if len(part) > 1]
    return sorted(several, key=len, reverse=True)
