"""Groups of similar samples, the typical samples of each group, and how it differs from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.cluster import HDBSCAN

from ..balanced.kmeans import BalancedKMeans
from ..data.moments import unit_rows
from ..utils.types import Array, Indices

Kind: TypeAlias = Literal["balanced", "density"]
KINDS: tuple[Kind, ...] = ("balanced", "density")
N_TYPICAL = 12
_MOST_GROUPS = 24
_SMALLEST_SHARE = 100  # a dense group has at least one in this many samples
_FEWEST_OF_A_GROUP = 5
_N_TRAITS = 3
_PLAIN = 0.3  # standard deviations: smaller differences are not mentioned


@dataclass(frozen=True)
class Trait:
    """How a group differs: a column, and the distance of its mean from that of all samples in standard deviations."""

    column: int
    difference: float


@dataclass(frozen=True)
class Group:
    """A group of similar samples.

    Attributes
    ----------
    members, typical : ndarray of int
        All samples of the group; and those closest to its mean, the most similar first.
    next_to : int
        The number of the most similar group, or -1 if there is no other.
    between : ndarray of int
        The samples of this group that are most similar to the mean of that group.
    """

    members: Indices
    typical: Indices
    next_to: int
    between: Indices


def usual_number(n_samples: int) -> int:
    """Return the default number of groups for this many samples."""
    return int(np.clip(round(np.sqrt(n_samples / 2)), 1, _MOST_GROUPS))


def grouped(X: Array, positions: Array, kind: Kind, n_groups: int | None, random: np.random.RandomState) -> Indices:
    """Return the number of the group of each sample, or -1 for none.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows of unit length. Balanced groups are based on them.
    positions : ndarray of shape (n_samples, 2)
        Positions on the map. Dense groups are based on them: they are the islands that a reader sees.
    kind : {"balanced", "density"}
        Groups of equal size, or all dense regions; samples between dense regions are in no group.
    n_groups : int or None
        The number of balanced groups.
    random : RandomState
        Determines the start of balanced groups.
    """
    if kind == "density":
        smallest = max(_FEWEST_OF_A_GROUP, len(X) // _SMALLEST_SHARE)
        if len(X) <= smallest:
            return np.zeros(len(X), np.intp)
        found = HDBSCAN(min_cluster_size=smallest, min_samples=_FEWEST_OF_A_GROUP, copy=True).fit_predict(positions)
        return _largest_first(np.asarray(found, np.intp))
    n_clusters = usual_number(len(X)) if n_groups is None else min(n_groups, len(X))
    model = BalancedKMeans(n_clusters, random_state=random)
    return np.asarray(model.fit_predict(np.asarray(X, np.float32)), np.intp)


def _largest_first(groups: Indices) -> Indices:
    sizes = np.bincount(groups[groups >= 0], minlength=1)
    numbers = np.empty(len(sizes), np.intp)
    numbers[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return np.where(groups >= 0, numbers[groups], -1)


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


def traits(columns: Array, groups: Sequence[Group], n_traits: int = _N_TRAITS) -> list[list[Trait]]:
    """For each group, return the columns whose mean differs most from that of all samples, the strongest first."""
    deviations = columns.std(axis=0)
    scale = np.where(deviations > 0, deviations, np.inf)
    center = columns.mean(axis=0)
    found = []
    for group in groups:
        difference = (columns[group.members].mean(axis=0) - center) / scale
        strongest = np.argsort(-np.abs(difference), kind="stable")[:n_traits]
        found.append([Trait(int(k), float(difference[k])) for k in strongest if abs(difference[k]) >= _PLAIN])
    return found


def shares(labels: Sequence[Any], groups: Sequence[Group]) -> list[list[tuple[str, int]]]:
    """For each group, count the samples with each label, the most frequent first. Unlabelled samples do not count."""
    found = []
    for group in groups:
        counts: dict[str, int] = {}
        for k in group.members:
            if labels[k]:
                counts[labels[k]] = counts.get(labels[k], 0) + 1
        found.append(sorted(counts.items(), key=lambda pair: -pair[1]))
    return found
