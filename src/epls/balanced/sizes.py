"""The allowed sizes of groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .auction import Limits


def size_limits(
    n_samples: int, n_clusters: int, size_min: Any = None, size_max: Any = None, sizes: Any = None
) -> Limits:
    """Return the minimum and maximum size of each group.

    Parameters
    ----------
    n_samples, n_clusters : int
        The number of samples and of groups.
    size_min, size_max : int, array-like of shape (n_clusters,) or None
        The minimum and maximum size of a group. If these and ``sizes`` are all None, the sizes of any two groups differ
        by at most one.
    sizes : array-like of shape (n_clusters,) or None
        The exact sizes.

    Raises
    ------
    ValueError
        If no grouping has such sizes.

    Examples
    --------
    >>> limits = size_limits(10, 3)
    >>> limits.minimum, limits.capacity
    (array([3, 3, 3]), array([4, 4, 4]))
    """
    if sizes is not None:
        return _exact(n_samples, n_clusters, size_min, size_max, sizes)
    if size_min is None and size_max is None:
        size_min, size_max = n_samples // n_clusters, -(-n_samples // n_clusters)
    least = _checked("size_min", 0 if size_min is None else size_min, n_clusters)
    most = _checked("size_max", n_samples if size_max is None else size_max, n_clusters)
    if (least > most).any():
        j = int(np.argmax(least > most))
        raise ValueError(f"group {j} has size_min={least[j]}, above size_max={most[j]}: give a smaller size_min")
    if least.sum() > n_samples:
        raise ValueError(
            f"size_min asks for {least.sum()} samples in {n_clusters} groups, but there are {n_samples}: give a "
            f"size_min of {n_samples // n_clusters} at most, or fewer groups"
        )
    if most.sum() < n_samples:
        raise ValueError(
            f"size_max has room for {most.sum()} samples in {n_clusters} groups, but there are {n_samples}: give a "
            f"size_max of {-(-n_samples // n_clusters)} at least, or more groups"
        )
    return Limits(np.minimum(most, n_samples), least)


def batch_limits(counts: Any, n_samples: int, size_min: Any = None, size_max: Any = None, sizes: Any = None) -> Limits:
    """Return the minimum and maximum number of samples of a batch in each group, if sizes count all batches together.

    Parameters
    ----------
    counts : ndarray of shape (n_clusters,)
        The number of samples in each group from earlier batches.
    n_samples : int
        The number of samples in the batch.
    size_min, size_max, sizes
        As in :func:`size_limits`; ``size_min`` must be None.

    Raises
    ------
    ValueError
        If there is too little room for the batch.

    Examples
    --------
    >>> import numpy as np
    >>> batch_limits(np.array([2, 1, 1]), 3).capacity
    array([1, 2, 2])
    >>> batch_limits(np.array([4, 0, 1]), 3, size_max=5).capacity
    array([1, 3, 3])
    """
    n_clusters, seen = len(counts), counts.astype(np.int64)
    if size_min is not None:
        raise ValueError(
            "partial_fit does not know how many samples will follow and cannot guarantee size_min: give all samples to "
            "fit, or limit sizes with size_max or sizes"
        )
    if sizes is not None and size_max is not None:
        raise ValueError("sizes sets the size of each group: give it without size_max")
    if sizes is None and size_max is None:
        n_all = int(seen.sum()) + n_samples
        least, most = n_all // n_clusters, -(-n_all // n_clusters)
        return Limits(np.minimum(most - seen, n_samples), np.maximum(least - seen, 0))
    name, given = ("sizes", sizes) if size_max is None else ("size_max", size_max)
    left = np.clip(_checked(name, given, n_clusters) - seen, 0, n_samples)
    if left.sum() < n_samples:
        raise ValueError(
            f"{name} leaves room for {left.sum()} samples after the previous batches, but this batch has {n_samples}: "
            f"give a larger {name}, more groups or fewer samples"
        )
    return Limits(left, np.zeros(n_clusters, np.int64))


def _exact(n_samples: int, n_clusters: int, size_min: Any, size_max: Any, sizes: Any) -> Limits:
    if size_min is not None or size_max is not None:
        raise ValueError("sizes sets the size of each group: give it without size_min and size_max")
    exact = _checked("sizes", sizes, n_clusters)
    if np.ndim(sizes) != 1 or exact.sum() != n_samples:
        raise ValueError(
            f"sizes must be {n_clusters} numbers whose sum is {n_samples}, the number of samples, but has "
            f"{np.size(sizes)} whose sum is {np.sum(sizes)}"
        )
    return Limits(exact, exact.copy())


def _checked(name: str, given: Any, n_clusters: int) -> NDArray[np.int64]:
    """Return one number for each group, after checking that none is negative."""
    numbers = np.asarray(given)
    if numbers.dtype.kind not in "iu" or numbers.shape not in ((), (n_clusters,)):
        raise ValueError(
            f"{name} must be an integer, or {n_clusters} of them, one for each group, but has type "
            f"{numbers.dtype} and shape {numbers.shape}"
        )
    if numbers.size and (numbers.min() < 0 or numbers.max() > 2**62):
        raise ValueError(f"{name} has the value {numbers.min()}: sizes must be from 0 to 2**62")
    return np.broadcast_to(numbers.astype(np.int64), n_clusters).copy()
