"""k-means with groups of equal or limited size.

It is Lloyd's algorithm with another first step: an auction assigns the samples to the centres within the limits, then
each centre moves to the mean of its samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..callbacks import Epochs, earlier_fit_kept
from ..data.blocks import Blocks, as_blocks, joined_rows
from ..data.moments import check_squares
from ..utils.fields import COUNT, Floats, Number, Saved
from ..utils.sklearn import AT_LEAST_ONE, NOT_NEGATIVE, StrOptions, fit_context
from ..utils.sparse import check_sparse
from ..utils.threads import allowed_threads, one_blas_thread
from ..utils.types import Array, Float64, Indices
from .auction import Auction, Limits, NearBidders, dense, squared_norms
from .sizes import batch_limits, size_limits
from .weights import WholeSamples

_TYPES = [np.float64, np.float32]
_SEEDED_PER_GROUP = 16  # samples per group that k-means++ chooses from
# Increments of auctions, in mean squared distances: from the mean of all in the first round, then from the centres.
_FIRST_INCREMENT, _INCREMENT = 0.01, 0.03
_MOST_PHASES = 8  # of an assignment whose increment was raised
_PART, _FEWEST_PER_GROUP = 16, 50  # centres are first found with a part of the samples, where there are enough
# The last few samples of an auction take most of its time. With many samples, they wait for the last rounds.
_MANY_SAMPLES = 5000
_SMALLEST_WEIGHT, _LARGEST_WEIGHT = 1e-250, 1e250  # of the largest, so that sums are far from the limits of float64
_ROWS_OF_PART = 2**16  # of data that are read in parts, unless a block has more
_SIZE = [NOT_NEGATIVE, "array-like", None]


class BalancedKMeans(Saved, ClusterMixin, Epochs, BaseEstimator):
    """k-means with groups of equal size, or with sizes within limits.

    Like KMeans, it minimises the sum of squared distances from samples to the centres of their groups, but only over
    groupings with the required sizes. In each round, an auction (see :func:`epls.balanced_assignment`) assigns the
    samples to the centres, and each centre moves to the mean of its group. With 5,000 samples or more, the first rounds
    may leave a few samples in full groups; the last rounds do not. It never stores the matrix of all distances: it
    needs memory for a few copies of the samples, plus about 250 bytes per sample.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of groups.
    size_min, size_max : int, array-like of shape (n_clusters,) or None, default=None
        The minimum and maximum size of a group, for all groups or for each one. If these and ``sizes`` are all None,
        the sizes of any two groups differ by at most one. With ``sample_weight``, sizes are total weights.
    sizes : array-like of shape (n_clusters,) or None, default=None
        The exact size of each group. The sizes must add up to the number of samples, or to their total weight.
    metric : {"euclidean", "cosine"}, default="euclidean"
        With "cosine", samples are scaled to unit length, and a centre is the mean of its group scaled to unit length:
        spherical k-means. The squared distance of such a sample and centre is twice its cosine distance.
    init : {"k-means++", "random"} or array-like of shape (n_clusters, n_features), default="k-means++"
        The initial centres: samples far from each other, random samples, or the given centres.
    n_init : int, default=1
        The number of starts. The best result is kept.
    max_iter : int, default=100
        The maximum number of rounds for each start.
    tol : float, default=1e-4
        Stop when a round reduces the sum of squared distances by less than this fraction.
    random_state : int, RandomState instance or None, default=None
        Determines the initial centres.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The means of the groups, of unit length with ``metric="cosine"``. An empty group keeps its last centre.
    labels_ : ndarray of shape (n_samples,)
        The group of each sample. After ``partial_fit``, those of the last batch. Not saved in a model file.
    inertia_ : float
        The sum of squared distances from samples to the centres of their groups, times their weights. After
        ``partial_fit``, that of the last batch.
    prices_ : ndarray of shape (n_clusters,)
        The price of a place in each group, in squared distance. It is high for groups in high demand.
    n_iter_ : int
        The number of rounds of the best start, or the number of batches.
    counts_ : ndarray of shape (n_clusters,)
        The number of samples in the mean of each centre, or their total weight.

    See Also
    --------
    balanced_assignment : Assign rows to columns for any matrix of costs.

    Notes
    -----
    With ``sample_weight``, the total weight of each group is within its limits (or equal to its share), up to the
    largest weight of a sample, and no sample is divided. The rounds use about as many draws as there are samples, each
    sample in proportion to its weight. Then a linear program assigns the samples that fit two groups about equally
    well, and the few samples that it divides are rounded (Shmoys and Tardos, 1993). The weighted sum of squared
    distances is then about that of the best assignment with exact sizes, or lower, for the same centres.

    The result does not depend on the number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [90.0]])
    >>> np.bincount(BalancedKMeans(2, random_state=0).fit_predict(X))
    array([3, 3])
    >>> model = BalancedKMeans(2, size_min=1, size_max=5, random_state=0).fit(X)
    >>> np.sort(np.bincount(model.labels_))
    array([1, 5])
    >>> bool(model.predict([[80.0]]) == model.labels_[-1])  # the group of the sample far away
    True
    """

    saved: ClassVar[dict[str, Any]] = {
        "cluster_centers_": Floats("n_clusters", "n_features"),
        "prices_": Floats("n_clusters"),
        "counts_": Floats("n_clusters", above=-1),
        "inertia_": Number(float, at_least=0),
        "n_iter_": COUNT,
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_clusters": [AT_LEAST_ONE],
        "size_min": _SIZE,
        "size_max": _SIZE,
        "sizes": ["array-like", None],
        "metric": [StrOptions({"euclidean", "cosine"})],
        "init": [StrOptions({"k-means++", "random"}), "array-like"],
        "n_init": [AT_LEAST_ONE],
        "max_iter": [AT_LEAST_ONE],
        "tol": [NOT_NEGATIVE],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        size_min: Any = None,
        size_max: Any = None,
        sizes: Any = None,
        metric: str = "euclidean",
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.size_min = size_min
        self.size_max = size_max
        self.sizes = sizes
        self.metric = metric
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BalancedKMeans:
        """Group the samples.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            The weights of samples, which count in means and in sizes. If all are 1, the result is that without weights.
        """
        with earlier_fit_kept(self):
            X = self._checked(X, reset=True)
            weights = self._checked_weights(sample_weight, X)
            limits = self._limits(X.shape[0], weights)
            center = self._near_origin(X)
            moved = X if center is None else X - center
            random = check_random_state(self.random_state)
            epochs = self.epochs(self.n_init * self.max_iter)
            with one_blas_thread():
                starts = (self._start(moved, center, limits, weights, random, epochs) for _ in range(self.n_init))
                best = min(starts, key=lambda state: state.inertia)
            epochs.close()
        self.cluster_centers_ = best.centers if center is None else (best.centers + center).astype(X.dtype)
        self.labels_, self.prices_, self.inertia_ = best.labels, best.prices, best.inertia
        self.counts_ = np.bincount(best.labels, weights, self.n_clusters).astype(np.float64)
        self.n_iter_ = best.n_rounds
        return self

    def _start(
        self, X: Any, center: Array | None, limits: Limits, weights: Float64 | None, random: Any, epochs: Any
    ) -> _State:
        """Return the result of one start."""
        rounds: Iterator[int] = islice(epochs, self.max_iter)
        if weights is None:
            return self._settled(X, center, limits, random, rounds)
        whole = WholeSamples(X, limits, weights)
        draws = whole.draws()
        state = self._settled(X[draws], center, whole.places(len(draws)), random, rounds)
        labels, prices = whole.assign(state.centers, state.prices, _Rounds)
        sums, counts = _group_sums(X, labels, self.n_clusters, weights)
        centers = _centers(sums, counts, state.centers, self._on_sphere)
        return _State(centers, prices, labels, _squared_distance(X, centers, labels, weights), state.n_rounds)

    def _settled(self, X: Any, center: Array | None, limits: Limits, random: Any, rounds: Iterator[int]) -> _State:
        """Do the rounds of a start. With many samples, the first ones are with a part of them."""
        state = _State(self._first_centers(X, center, random))
        some = _part_of(X, limits, random)
        if some is not None:
            state = _Rounds(*some, self._on_sphere).run(state, self.tol, rounds)
        return _Rounds(X, limits, self._on_sphere).run(state, self.tol, rounds)

    @property
    def _on_sphere(self) -> bool:
        return self.metric == "cosine"

    def _first_centers(self, X: Any, center: Array | None, random: np.random.RandomState) -> Array:
        n_samples = X.shape[0]
        if not isinstance(self.init, str):
            given = check_array(self.init, dtype=X.dtype, copy=True)
            if given.shape != (self.n_clusters, X.shape[1]):
                raise ValueError(
                    f"init has shape {given.shape}, but must have shape (n_clusters, n_features), here "
                    f"{(self.n_clusters, X.shape[1])}"
                )
            given = normalize(given) if self._on_sphere else given
            return given if center is None else given - center
        n_some = self.n_clusters if self.init == "random" else max(_SEEDED_PER_GROUP * self.n_clusters, 1000)
        chosen = X[np.sort(random.permutation(n_samples)[:n_some])]
        if self.init == "k-means++":
            chosen = kmeans_plusplus(chosen, self.n_clusters, random_state=random)[0]
        return dense(chosen)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> BalancedKMeans:
        """Continue with one more batch of samples. Each sample is seen once.

        Sizes count all batches together. Without limits, the sizes of groups differ by at most one after every batch.
        ``size_max`` and ``sizes`` are never exceeded. With ``sizes``, groups reach their sizes once enough samples have
        been seen. ``size_min`` raises an error, because the number of remaining samples is unknown.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            The batch. The first batch must have at least as many samples as there are groups.
        y : None
            Ignored.
        """
        is_first = not hasattr(self, "cluster_centers_")
        if not is_first and len(self.cluster_centers_) != self.n_clusters:
            raise ValueError(
                f"there are {len(self.cluster_centers_)} centres, but n_clusters={self.n_clusters} was set after fit: "
                f"call fit again"
            )
        with earlier_fit_kept(self):
            X = self._checked(X, reset=is_first, needs_all_groups=is_first)
            counts = np.zeros(self.n_clusters) if is_first else self.counts_
            if is_first:
                centers = self._first_centers(X, None, check_random_state(self.random_state))
            else:
                centers = self.cluster_centers_.astype(X.dtype, copy=False)
            limits = batch_limits(counts, X.shape[0], self.size_min, self.size_max, self.sizes)
            labels, prices = self._assigned(X, centers, None if is_first else self.prices_, limits)
            sums, new = _group_sums(X, labels, self.n_clusters)
            moves = sums - new[:, None] * centers
            moves /= np.maximum(counts + new, 1)[:, None]
            centers = centers + moves
        if self._on_sphere:
            centers = normalize(centers)
        self.cluster_centers_ = centers.astype(X.dtype)
        self.counts_, self.prices_, self.labels_ = counts + new, prices, labels
        self.inertia_ = _squared_distance(X, self.cluster_centers_, labels)
        self.n_iter_ = 1 if is_first else self.n_iter_ + 1
        return self

    def predict(self, X: Any, balanced: bool = False, sample_weight: Any = None) -> Indices:
        """Assign samples to groups.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features), or Blocks
            The samples. Memory maps of a gigabyte or more, zarr and dask arrays and
            :class:`epls.data.blocks.Blocks` are read some rows at a time.
        balanced : bool, default=False
            Whether the groups of these samples, taken together, must have the required sizes: equal sizes, or those set
            by ``size_min``, ``size_max`` and ``sizes``. If False, each sample gets the group of its nearest centre.
            Data that are read in parts must be in random order: no part may take more than its share of a group.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights that count in the sizes, as in ``fit``. Only with ``balanced=True``, for samples in memory.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The group of each sample.
        """
        check_is_fitted(self)
        if sample_weight is not None and not balanced:
            raise ValueError("sample_weight counts in sizes only: give balanced=True as well, or leave it out")
        blocks = as_blocks(X)
        if blocks is not None:
            if sample_weight is not None:
                raise ValueError("sample_weight needs samples in memory, but they are read in parts: give an array")
            return self._predicted_in_parts(blocks, balanced)
        X = self._validated(X, reset=False)
        centers = self.cluster_centers_.astype(X.dtype, copy=False)
        if not balanced:
            return np.asarray(pairwise_distances_argmin(X, centers), np.intp)
        weights = self._checked_weights(sample_weight, X)
        return self._assigned(X, centers, self.prices_, self._limits(X.shape[0], weights), weights)[0]

    def _predicted_in_parts(self, blocks: Blocks, balanced: bool) -> Indices:
        """Return the groups of data in parts, at the prices of the fit.

        After each part, groups are within their limits in proportion to the samples so far. Corrections are then small
        everywhere, instead of large in the last parts.
        """
        n_left, taken, labels = blocks.shape[0], np.zeros(self.n_clusters, np.int64), []
        limits = self._limits(n_left)
        for rows in joined_rows(blocks, _ROWS_OF_PART):
            if not balanced:
                labels.append(self.predict(rows))
                continue
            X = self._validated(rows, reset=False)
            centers, n_rows = self.cluster_centers_.astype(X.dtype, copy=False), X.shape[0]
            n_all, n_seen = blocks.shape[0], blocks.shape[0] - n_left + n_rows
            capacity = np.minimum(-(-limits.capacity * n_seen // n_all) - taken, n_rows)
            due = np.maximum(limits.minimum * n_seen // n_all - taken, 0)
            due = due * n_rows // max(due.sum(), n_rows)
            needed = np.maximum(limits.minimum - taken, 0)
            n_spare = n_left - int(needed.sum())  # samples that no group needs for its minimum
            for _ in range(2):
                zeros = np.zeros(self.n_clusters)
                found, _ = self._assigned(X, centers, zeros, Limits(capacity, due), fees=self.prices_)
                new = np.bincount(found, minlength=self.n_clusters)
                above = np.maximum(new - needed, 0)
                if above.sum() <= n_spare:
                    break
                capacity = needed + np.diff(np.cumsum(above) * n_spare // above.sum(), prepend=0)
            labels.append(found)
            taken, n_left = taken + new, n_left - n_rows
        return np.concatenate(labels)

    def _assigned(
        self, X: Any, centers: Array, prices: Any, limits: Limits, weights: Any = None, fees: Any = 0.0
    ) -> tuple[Indices, Any]:
        """Return the groups of samples within the limits, and the prices."""
        center = self._near_origin(X)
        if center is not None:
            X, centers = X - center, centers - center
        distance = None if prices is None else self.inertia_ / (self.counts_.sum() or 1.0)
        with one_blas_thread():
            if weights is not None:
                return WholeSamples(X, limits, weights).assign(centers, prices, _Rounds)
            return _Rounds(X, limits, distance=distance).assign(centers, prices, fees=fees)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        check_sparse(X)  # before it is converted
        X = validate_data(self, X, accept_sparse="csr", dtype=_TYPES, reset=reset)
        return normalize(X) if self._on_sphere else X

    def _checked(self, X: Any, *, reset: bool, needs_all_groups: bool = True) -> Any:
        X = self._validated(X, reset=reset)
        if needs_all_groups and X.shape[0] < self.n_clusters:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than n_samples={X.shape[0]}: give fewer groups, or more samples"
            )
        check_squares(X, small=False)
        return sparse.csr_array(X) if sparse.issparse(X) else X

    def _checked_weights(self, sample_weight: Any, X: Any) -> Float64 | None:
        """Return the weights, or None if all are 1."""
        if sample_weight is None:
            return None
        weights = check_array(sample_weight, dtype=np.float64, ensure_2d=False, input_name="sample_weight")
        if weights.shape != (X.shape[0],):
            raise ValueError(f"sample_weight has shape {weights.shape}, but must have shape {(X.shape[0],)}")
        if weights.min() < 0 or (weights > 0).sum() < self.n_clusters:
            raise ValueError(
                f"sample_weight has {(weights > 0).sum()} values above zero and {(weights < 0).sum()} below: give "
                f"none below zero, and at least n_clusters={self.n_clusters} above"
            )
        if not _SMALLEST_WEIGHT <= weights.max() <= _LARGEST_WEIGHT:
            raise ValueError(
                f"sample_weight has values of up to {weights.max():g}, but the largest must be from "
                f"{_SMALLEST_WEIGHT:g} to {_LARGEST_WEIGHT:g}: multiply or divide all of them"
            )
        return None if (weights == 1).all() else weights

    def _limits(self, n_samples: int, weights: Float64 | None = None) -> Limits:
        total = n_samples if weights is None else float(weights.sum())
        return size_limits(total, self.n_clusters, self.size_min, self.size_max, self.sizes)

    def _near_origin(self, X: Any) -> Array | None:
        """Return the mean of samples, which makes products more precise; None for samples that stay as they are."""
        if sparse.issparse(X) or self._on_sphere:
            return None
        return np.asarray(X.mean(axis=0, dtype=np.float64).astype(X.dtype))

    def _restore_fitted_state(self, arrays: dict[str, Any], plain: dict[str, Any]) -> None:
        super()._restore_fitted_state(arrays, plain)
        if len(self.cluster_centers_) != self.n_clusters:
            raise ValueError(f"there are {len(self.cluster_centers_)} centres, but n_clusters is {self.n_clusters}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _squared_distance(X: Any, centers: Array, labels: Indices, weights: Float64 | None = None) -> float:
    if sparse.issparse(X):
        near = np.square(centers, dtype=np.float64).sum(axis=1)[labels]
        products = np.asarray(X.multiply(centers[labels]).sum(axis=1), np.float64).ravel()
        distances = np.maximum(squared_norms(X) - 2 * products + near, 0)
    else:
        distances = squared_norms(X - centers[labels])
    return float(distances.sum() if weights is None else distances @ weights)


@dataclass
class _State:
    """The result of some rounds; before the first, there are only centres."""

    centers: Array
    prices: Any = None
    labels: Any = None
    inertia: float = np.inf
    n_rounds: int = 0


class _Rounds:
    """The rounds of k-means with some samples.

    Samples are rows of an array or csr_array, near the origin if possible: products are computed in their type.
    ``distance`` is their mean squared distance from the centres, if it is known.
    """

    def __init__(self, X: Any, limits: Limits, on_sphere: bool = False, distance: float | None = None) -> None:
        self._X = X
        self._limits = limits
        self._on_sphere = on_sphere
        self._bidders = NearBidders(X, len(limits.capacity))
        self._auction = Auction(self._bidders, limits, allowed_threads())
        self._size = float(squared_norms(X).sum())
        self._least_increment = max(1e-12 * self._size / X.shape[0], 1e-290)
        first = _FIRST_INCREMENT * self._size / X.shape[0] if distance is None else _INCREMENT * distance
        self._increment = max(first, self._least_increment)

    def assign(
        self, centers: Array, prices: Float64 | None, loosely: bool = False, fees: Any = 0.0
    ) -> tuple[Indices, Float64]:
        """Return the group of each sample and the prices of groups, given earlier prices if there are any.

        With ``loosely``, a few samples may be in groups that are already full. Groups may cost fixed ``fees``, too.
        """
        self._check(centers, prices)
        self._bidders.approach(centers, fees)
        if prices is None:
            prices = self._auction.first_prices(self._increment)
        increment = self._increment
        if loosely:
            return self._auction.hold_loosely(prices, increment)
        for _ in range(_MOST_PHASES):
            outcome = self._auction.hold(prices, increment)
            if outcome.increment <= 2 * self._increment:  # it was not raised because of many equal samples
                break
            prices, increment = outcome.prices, outcome.increment / 5
        return outcome.winners, outcome.prices

    def _check(self, centers: Array, prices: Float64 | None) -> None:
        """Raise an error if shapes or limits do not match, which compiled code would not notice."""
        n_groups, (n_samples, n_features) = len(self._limits.capacity), self._X.shape
        if centers.shape != (n_groups, n_features) or (prices is not None and prices.shape != (n_groups,)):
            raise ValueError(
                f"there are {len(centers)} centres, but n_clusters={n_groups} was set after fit: call fit again"
            )
        n_places = int(self._limits.capacity.sum()) if self._limits.capacity.min() >= 0 else 0
        if n_places < n_samples or self._limits.minimum.sum() > n_samples:
            raise ValueError(f"groups have room for {n_places} of {n_samples} samples: the model is damaged")

    def run(self, state: _State, tol: float, epochs: Iterator[int]) -> _State:
        """Do rounds until one reduces the sum of squared distances by less than the fraction ``tol``."""
        for loosely in (True, False) if self._X.shape[0] >= _MANY_SAMPLES else (False,):
            state = self._until_settled(state, tol, epochs, loosely)
        return state

    def _until_settled(self, state: _State, tol: float, epochs: Iterator[int], loosely: bool) -> _State:
        best: _State | None = None
        n_rounds = state.n_rounds
        for _ in epochs:
            n_rounds += 1
            before, state = state, self._round(state, loosely)
            has_moved = best is None or state.inertia < (1 - tol) * best.inertia
            if best is None or state.inertia < best.inertia:
                best = state
            if not has_moved or np.array_equal(state.centers, before.centers):
                break
        if best is None:  # a callback has ended the fit before the first round
            best = self._round(state, loosely)
        best.n_rounds = n_rounds
        return best

    def _round(self, state: _State, loosely: bool) -> _State:
        """Assign samples to centres, and move centres to the means of their groups."""
        centers = state.centers
        labels, prices = self.assign(centers, state.prices, loosely)
        sums, counts = _group_sums(self._X, labels, len(centers))
        means = _centers(sums, counts, centers, self._on_sphere)
        inertia = self._size - float((2 * sums * means).sum() - (counts * squared_norms(means)).sum())
        self._increment = min(max(_INCREMENT * inertia / len(labels), self._least_increment), self._increment)
        return _State(means.astype(centers.dtype), prices, labels, max(inertia, 0.0))


def _centers(sums: Float64, counts: Float64, centers: Array, on_sphere: bool) -> Float64:
    """Return the means of groups, of unit length if on a sphere. An empty group keeps its centre."""
    sizes = np.sqrt(squared_norms(sums)) if on_sphere else counts
    return np.where(sizes[:, None] > 0, sums / np.where(sizes > 0, sizes, 1)[:, None], centers)


def _group_sums(X: Any, labels: Indices, n_groups: int, weights: Float64 | None = None) -> tuple[Float64, Float64]:
    """Return the sum of the samples of each group, in float64, and their number; or weighted sum and total weight."""
    n_samples = X.shape[0]
    factors = np.ones(n_samples) if weights is None else weights
    is_in = sparse.csr_array((factors, labels, np.arange(n_samples + 1)), shape=(n_samples, n_groups))
    return dense(is_in.T @ X).astype(np.float64, copy=False), np.bincount(labels, factors, n_groups).astype(np.float64)


def _part_of(X: Any, limits: Limits, random: np.random.RandomState) -> tuple[Any, Limits] | None:
    """Return some of the samples with proportional limits; None if there are too few to gain from it."""
    n_samples, n_groups = X.shape[0], len(limits.capacity)
    n_part = max(n_samples // _PART, _FEWEST_PER_GROUP * n_groups)
    if n_samples < 4 * n_part:
        return None
    rows = np.sort(random.permutation(n_samples)[:n_part])
    least = limits.minimum * n_part // n_samples
    most = -(-limits.capacity * n_part // n_samples)
    return X[rows], Limits(most, least)
