"""Groups of similar channels, for layers whose units each see only some channels."""

from __future__ import annotations

import numpy as np

from ..utils.types import Array, Indices


def similar_channels(pixels: Array, n_groups: int, group_size: int, random: np.random.RandomState) -> list[Indices]:
    """Group the channels that are most correlated with one another.

    Each group consists of a channel and those most correlated with it, whatever the sign. The first channel of a group
    is drawn at random from those that are in the fewest groups so far. So every channel is used if there are enough
    groups.

    Parameters
    ----------
    pixels : ndarray of shape (n_pixels, n_channels)
        Pixels of some images.
    n_groups : int
        The number of groups.
    group_size : int
        The number of channels in a group, at most the number of all channels.
    random : RandomState
        Determines the first channel of each group.

    Returns
    -------
    list of ndarray of int
        The numbers of the channels of each group, in increasing order.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.RandomState(0)
    >>> a, b = random.normal(size=(2, 500))
    >>> pixels = np.column_stack([a, b, a, -b]) + 0.1 * random.normal(size=(500, 4))
    >>> sorted(group.tolist() for group in similar_channels(pixels, 2, 2, random))
    [[0, 2], [1, 3]]
    """
    centered = pixels - pixels.mean(axis=0, dtype=np.float64)
    covariance = centered.T @ centered
    deviations = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float64).tiny))
    similarity = np.abs(covariance / deviations / deviations[:, None])
    np.fill_diagonal(similarity, np.inf)  # a channel that never changes is also in its own group
    n_channels = len(similarity)
    memberships = np.zeros(n_channels, int)
    groups = []
    for _ in range(n_groups):
        first = random.choice(np.flatnonzero(memberships == memberships.min()))
        group = np.sort(np.argsort(-similarity[first], kind="stable")[: min(group_size, n_channels)])
        memberships[group] += 1
        groups.append(group)
    return groups
