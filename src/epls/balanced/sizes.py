"""The sizes that groups may have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .auction import Limits


def size_limits(
    n_samples: int, n_clusters: int, size_min: Any = None, size_max: Any = None, sizes: Any = None
) -> Limits:
    """How many of so many samples each group may have.

    Parameters
    ----------
    n_samples, n_clusters : int
        How many there are.
    size_min, size_max : int, array-like of shape (n_clusters,) or None
        The smallest and the largest size of a group. If neither is given, and no ``sizes``, all groups are equally
        large, to within one.
    sizes : array-like of shape (n_clusters,) or None
        The exact sizes.

    Raises
    ------
    ValueError
        If no groups have such sizes.

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
            f"size_min asks for {least.sum()} samples in {n_clusters} groups, and there are {n_samples}: give a "
            f"size_min of {n_samples // n_clusters} at most, or fewer groups"
        )
    if most.sum() < n_samples:
        raise ValueError(
            f"size_max has room for {most.sum()} samples in {n_clusters} groups, and there are {n_samples}: give a "
            f"size_max of {-(-n_samples // n_clusters)} at least, or more groups"
        )
    return Limits(np.minimum(most, n_samples), least)


def _exact(n_samples: int, n_clusters: int, size_min: Any, size_max: Any, sizes: Any) -> Limits:
    if size_min is not None or size_max is not None:
        raise ValueError("sizes says how large each group is: give it without size_min and size_max")
    exact = _checked("sizes", sizes, n_clusters)
    if np.ndim(sizes) != 1 or exact.sum() != n_samples:
        raise ValueError(
            f"sizes must be {n_clusters} numbers with the sum {n_samples}, the number of samples, and has "
            f"{np.size(sizes)} with the sum {np.sum(sizes)}"
        )
    return Limits(exact, exact.copy())


def _checked(name: str, given: Any, n_clusters: int) -> NDArray[np.int64]:
    """One number for each group, none of them negative."""
    numbers = np.asarray(given)
    if numbers.dtype.kind not in "iu" or numbers.shape not in ((), (n_clusters,)):
        raise ValueError(
            f"{name} must be a whole number, or {n_clusters} of them, one for each group, and is of type "
            f"{numbers.dtype} and shape {numbers.shape}"
        )
    if numbers.size and (numbers.min() < 0 or numbers.max() > 2**62):
        raise ValueError(f"{name} has {numbers.min()}: no group can be smaller than 0, or larger than 2**62")
    return np.broadcast_to(numbers.astype(np.int64), n_clusters).copy()
