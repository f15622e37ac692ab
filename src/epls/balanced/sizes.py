"""The sizes that the groups of BalancedKMeans may have: limits from its parameters, or what is wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils.types import Float64
from .assignment import checked_counts
from .auction import Limits


def size_limits(total: float, n_clusters: int, size_min: Any, size_max: Any, sizes: Any) -> Limits:
    """Return the minimum and maximum size of each group, from the parameters of BalancedKMeans.

    ``total`` is the number of samples, an int, or their total weight, a float.
    """
    whole = isinstance(total, int)
    checked, unit, form = (checked_counts, "samples", ".0f") if whole else (_checked_sizes, "units of weight", ".6g")
    slack = 0.0 if whole else 1e-9 * total
    if sizes is not None:
        if size_min is not None or size_max is not None:
            raise ValueError("sizes sets the size of each group: give it without size_min and size_max")
        exact = checked("sizes", sizes, n_clusters, "group")
        n_exact = exact.sum(dtype=float)  # of very large integers, too
        if np.ndim(sizes) != 1 or abs(n_exact - total) > slack:
            raise ValueError(
                f"sizes must be {n_clusters} numbers whose sum is {total:{form}}, the number of {unit}, but has "
                f"{np.size(sizes)} whose sum is {n_exact:{form}}"
            )
        return Limits(exact, exact)
    share = total // n_clusters, -(-total // n_clusters)
    smaller, larger = share if whole else (total / n_clusters, total / n_clusters)
    if size_min is None and size_max is None:
        size_min, size_max = smaller, larger
    least = checked("size_min", 0 if size_min is None else size_min, n_clusters, "group")
    most = checked("size_max", total if size_max is None else size_max, n_clusters, "group")
    if (least > most).any():
        j = int(np.argmax(least > most))
        raise ValueError(f"group {j} has size_min={least[j]}, above size_max={most[j]}: give a smaller size_min")
    n_least, n_most = least.sum(dtype=float), most.sum(dtype=float)
    if n_least > total + slack:
        raise ValueError(
            f"size_min asks for {n_least:{form}} {unit} in {n_clusters} groups, but there are {total:{form}}: give a "
            f"size_min of {smaller:{form}} at most, or fewer groups"
        )
    if n_most < total - slack:
        raise ValueError(
            f"size_max has room for {n_most:{form}} {unit} in {n_clusters} groups, but there are {total:{form}}: give "
            f"a size_max of {larger:{form}} at least, or more groups"
        )
    return Limits(np.minimum(most, total), least)


def batch_limits(counts: Float64, n_samples: int, size_min: Any, size_max: Any, sizes: Any) -> Limits:
    """Return the limits of a batch after batches with ``counts`` samples in each group; sizes count all together."""
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
        if seen.max() > most or np.maximum(least - seen, 0).sum() > n_samples:
            raise ValueError(
                f"groups have {seen.min()} to {seen.max()} samples so far, and {n_samples} more cannot make them "
                f"equal: set size_max or sizes, or begin with a new model"
            )
        return Limits(np.minimum(most - seen, n_samples), np.maximum(least - seen, 0))
    name, given = ("sizes", sizes) if size_max is None else ("size_max", size_max)
    left = np.clip(checked_counts(name, given, n_clusters, "group") - seen, 0, n_samples)
    if left.sum() < n_samples:
        raise ValueError(
            f"{name} leaves room for {left.sum()} samples after the previous batches, but this batch has {n_samples}: "
            f"give a larger {name}, more groups or fewer samples"
        )
    return Limits(left, np.zeros(n_clusters, np.int64))


def _checked_sizes(name: str, sizes: Any, n: int, of: str) -> Any:
    """Return one total weight for each group, after checking what was given."""
    given = np.asarray(sizes, np.float64)
    if given.shape not in ((), (n,)):
        raise ValueError(f"{name} has shape {given.shape}, but must be one number or {n}, one for each {of}")
    if not (given >= 0).all():
        raise ValueError(f"{name} has the value {given.min()}, but must be 0 or more")
    return np.broadcast_to(given, n).copy()
