"""Measures of what a model learned: sparsity, units that are never active, redundant and noisy filters."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from .algorithm.activations import Activation, resolve_activation
from .utils.threads import row_blocks
from .utils.types import Array, Indices

_VARIANCE = 0.99  # the fraction inside the principal subspace


def _sparsity(outputs: Array, axis: int) -> Array:
    """Return 1 minus the Treves-Rolls ratio (mean |h|)**2 / mean h**2, scaled to [0, 1]; 0 if all outputs are 0."""
    n = outputs.shape[axis]
    if n == 1:
        return np.zeros(outputs.shape[1 - axis])
    mean = np.abs(outputs).mean(axis=axis, dtype=np.float64)
    mean_square = np.square(outputs, dtype=np.float64).mean(axis=axis)
    silent = mean_square == 0
    ratio = np.where(silent, 1.0, mean**2 / np.where(silent, 1.0, mean_square))
    return np.clip((1 - ratio) / (1 - 1 / n), 0, 1)


def population_sparsity(outputs: ArrayLike) -> Array:
    """Measure how few units are active for each sample.

    Parameters
    ----------
    outputs : array-like of shape (n_samples, n_components)
        Codes; 0 means inactive.

    Returns
    -------
    ndarray of shape (n_samples,)
        1 if a single unit is active, 0 if all units are equally active or none is.

    Examples
    --------
    >>> population_sparsity([[0, 1, 0], [1, 1, 1]])
    array([1., 0.])
    """
    return _sparsity(check_array(outputs), axis=1)


def lifetime_sparsity(outputs: ArrayLike) -> Array:
    """Measure how few samples each unit is active for.

    Parameters
    ----------
    outputs : array-like of shape (n_samples, n_components)
        Codes; 0 means inactive.

    Returns
    -------
    ndarray of shape (n_components,)
        1 if a unit is active for a single sample, 0 if it is equally active for all samples or for none.

    Examples
    --------
    >>> lifetime_sparsity([[0, 1], [0, 1], [1, 1]])
    array([1., 0.])
    """
    return _sparsity(check_array(outputs), axis=0)


def never_active(codes: ArrayLike, activation: str | Activation | None = None) -> Indices:
    """Find units that are never active: no sample brings them a tenth of the way from inactive to active.

    Parameters
    ----------
    codes : array-like of shape (n_samples, n_components)
        Codes of all training samples.
    activation : str, Activation or None, default=None
        The activation of the units, which defines inactive and active. None is for codes of any kind and scale: 0 is
        inactive, and the median over the units of their largest absolute code is active.

    Returns
    -------
    ndarray of int
        The indices of the units.

    Examples
    --------
    >>> never_active([[0.0, 0.9], [0.02, 0.0]])
    array([0])
    """
    outputs = check_array(codes)
    if activation is not None:
        return np.flatnonzero(~resolve_activation(activation).is_active(outputs.max(axis=0)))
    largest = np.abs(outputs).max(axis=0)
    typical = np.median(largest[largest > 0]) if largest.any() else 1.0
    return np.flatnonzero(largest < 0.1 * typical)


def redundancy(components: ArrayLike) -> Array:
    """Return the absolute cosine between each component and the one most similar to it.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Components. A zero component has redundancy 0.

    Returns
    -------
    ndarray of shape (n_components,)
        1 for a component that appears twice (up to sign and length), 0 for one that is orthogonal to all others.

    Examples
    --------
    >>> redundancy([[1, 0, 0], [-2, 0, 0], [0, 1, 0]])
    array([1., 1., 0.])
    """
    rows = check_array(components, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.where(norms == 0, 1, norms)
    nearest = np.zeros(len(rows))
    for some in row_blocks(len(rows), 1024):  # avoids the full square matrix
        cosines = np.abs(rows[some] @ rows.T)
        cosines[np.arange(len(cosines)), np.arange(some.start, some.stop)] = 0
        nearest[some] = cosines.max(axis=1)
    return nearest


def noise_filters(components: ArrayLike, X: ArrayLike) -> Indices:
    """Find components with less than half of their energy in the principal subspace with 99 % of the data's variance.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Components.
    X : array-like of shape (n_samples, n_features)
        The data that the components were learned from.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 2)) * [10, 0.1]
    >>> noise_filters([[1, 0], [0, 1]], X)
    array([1])
    """
    rows = check_array(components, dtype=np.float64)
    data = check_array(X, dtype=[np.float64, np.float32])
    covariance = np.cov(data, rowvar=False, dtype=np.float64).reshape(data.shape[1], data.shape[1])
    eigenvalues, eigenvectors = np.linalg.eigh(covariance)
    if eigenvalues.sum() <= 0:
        raise ValueError("X is constant: it has no variance to explain")
    held = np.cumsum(eigenvalues[::-1]) / eigenvalues.sum()
    n_principal = int(np.searchsorted(held, _VARIANCE)) + 1
    inside = np.square(rows @ eigenvectors[:, ::-1][:, :n_principal]).sum(axis=1)
    energy = np.square(rows).sum(axis=1)
    return np.flatnonzero(inside / np.where(energy == 0, 1, energy) < 0.5)
