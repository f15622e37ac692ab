"""Measures of what a model learned: sparsity, balance, dead outputs, redundant and noisy filters."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

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


def dead_outputs(outputs: ArrayLike, *, inactive: float = 0.0, active: float = 1.0, threshold: float = 0.1) -> Indices:
    """Find units whose largest output never gets far from inactive.

    Parameters
    ----------
    outputs : array-like of shape (n_samples, n_components)
        Codes of all training samples.
    inactive, active : float
        The two target values of the activation function.
    threshold : float, default=0.1
        A unit is dead if its largest output is below this fraction of the way from inactive to active.

    Returns
    -------
    ndarray of int
        The indices of the dead units.

    Examples
    --------
    >>> dead_outputs([[0.0, 0.9], [0.05, 0.0]])
    array([0])
    """
    largest = check_array(outputs).max(axis=0)
    return np.flatnonzero(largest < inactive + threshold * (active - inactive))


def win_spread(winners: ArrayLike, n_components: int) -> int:
    """Return the difference between the most and the fewest wins of a unit: 0 or 1 if the assignment is balanced.

    Parameters
    ----------
    winners : array-like of int of shape (n_samples,)
        The winning unit of each sample.
    n_components : int
        The number of units.

    Examples
    --------
    >>> win_spread([0, 1, 1, 1], n_components=3)
    3
    """
    counts = np.bincount(np.asarray(winners, dtype=np.intp), minlength=n_components)
    return int(counts.max() - counts.min())


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


def unresponsive_units(codes: ArrayLike) -> Indices:
    """Find units that respond to all samples alike. It works for any learner and any scale of codes.

    Parameters
    ----------
    codes : array-like of shape (n_samples, n_components)
        Codes. The response is their absolute value.

    Returns
    -------
    ndarray of int
        The indices of the units whose responses vary by at most a tenth of the variation of the median unit.

    Examples
    --------
    >>> unresponsive_units([[0.5, 0.0, 1.0], [0.5, 0.8, 0.0]])
    array([0])
    """
    answers = np.abs(check_array(codes))
    ranges = answers.max(axis=0) - answers.min(axis=0)
    alive = ranges[ranges > 0]
    return np.flatnonzero(ranges <= 0.1 * np.median(alive)) if len(alive) else np.arange(len(ranges))


def summary(codes: ArrayLike, components: ArrayLike) -> dict[str, float]:
    """Summarise a fitted learner with a few key figures.

    Parameters
    ----------
    codes : array-like of shape (n_samples, n_components)
        The learner's codes of some samples.
    components : array-like of shape (n_components, n_features)
        The learner's components.

    Returns
    -------
    dict
        The mean population and lifetime sparsity, the number of unresponsive units and the largest redundancy.

    Examples
    --------
    >>> summary([[0, 1], [1, 0]], [[1, 0], [0, 1]])
    {'population sparsity': 1.0, 'lifetime sparsity': 1.0, 'unresponsive units': 0, 'largest redundancy': 0.0}
    """
    return {
        "population sparsity": float(population_sparsity(codes).mean()),
        "lifetime sparsity": float(lifetime_sparsity(codes).mean()),
        "unresponsive units": len(unresponsive_units(codes)),
        "largest redundancy": float(redundancy(components).max()),
    }
