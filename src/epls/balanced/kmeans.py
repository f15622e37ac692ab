"""k-means with groups of equal or limited size.

It is Lloyd's algorithm with another first step: an auction assigns the samples to the centres within the limits, then
each centre moves to the mean of its samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..callbacks import Epochs, earlier_fit_kept
from ..data.moments import check_squares
from ..utils.fields import COUNT, Floats, Number, Saved
from ..utils.sklearn import AT_LEAST_ONE, NOT_NEGATIVE, Interval, StrOptions, fit_context
from ..utils.sparse import check_sparse
from ..utils.threads import allowed_threads, one_blas_thread
from ..utils.types import Array, Float64, Indices
from .assignment import checked_counts
from .auction import Auction, Limits, NearBidders, dense, squared_norms

_TYPES = [np.float64, np.float32]
_SEEDED_PER_GROUP = 16  # samples per group that k-means++ chooses from
# Increments of auctions, in mean squared distances: from the mean of all in the first round, then from the centres.
_FIRST_INCREMENT, _INCREMENT = 0.01, 0.03
_MOST_PHASES = 8  # of an assignment whose increment was raised
_PART, _FEWEST_PER_GROUP = 16, 50  # centres are first found with a part of the samples, where there are enough
# The last few samples of an auction take most of its time. With many samples, they wait for the last rounds.
_MANY_SAMPLES = 5000
_SIZE = [Interval(Integral, 0, None, closed="left"), "array-like", None]


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
        the sizes of any two groups differ by at most one.
    sizes : array-like of shape (n_clusters,) or None, default=None
        The exact size of each group. The sizes must add up to the number of samples.
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
        The means of the groups. An empty group keeps its last centre.
    labels_ : ndarray of shape (n_samples,)
        The group of each sample. After ``partial_fit``, those of the last batch. Not saved in a model file.
    inertia_ : float
        The sum of squared distances from samples to the centres of their groups. After ``partial_fit``, that of the
        last batch.
    prices_ : ndarray of shape (n_clusters,)
        The price of a place in each group, in squared distance. It is high for groups in high demand.
    n_iter_ : int
        The number of rounds of the best start, or the number of batches.
    counts_ : ndarray of shape (n_clusters,)
        The number of samples in the mean of each centre.
    n_features_in_ : int
        The number of features.

    See Also
    --------
    balanced_assignment : Assign rows to columns for any matrix of costs.

    Notes
    -----
    Sizes count samples, so weights are not supported: ``sample_weight`` raises an error. The result does not depend on
    the number of threads.

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
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, **refused: Any) -> BalancedKMeans:
        """Group the samples.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.
        **refused
            No other arguments are accepted. The error for ``sample_weight`` says what to do instead.

        Returns
        -------
        self
        """
        _refuse("fit", refused)
        with earlier_fit_kept(self):
            X = self._checked(X, reset=True)
            limits = self._limits(X.shape[0])
            center = _origin(X)
            moved = X if center is None else X - center
            random = check_random_state(self.random_state)
            epochs = self.epochs(self.n_init * self.max_iter)
            with one_blas_thread():
                starts = (self._start(moved, center, limits, random, epochs) for _ in range(self.n_init))
                best = min(starts, key=lambda state: state.inertia)
            epochs.close()
        self.cluster_centers_ = best.centers if center is None else (best.centers + center).astype(X.dtype)
        self.labels_, self.prices_, self.inertia_ = best.labels, best.prices, best.inertia
        self.counts_ = np.bincount(best.labels, minlength=self.n_clusters).astype(np.float64)
        self.n_iter_ = best.n_rounds
        return self

    def _start(
        self, X: Any, center: Array | None, limits: Limits, random: np.random.RandomState, epochs: Any
    ) -> _State:
        """Return the result of one start. With many samples, it begins with a part of them."""
        centers, prices, n_before = self._first_centers(X, center, random), None, 0
        some = _part_of(X, limits, random)
        rounds: Iterator[int] = islice(epochs, self.max_iter)
        if some is not None:
            state = _Rounds(*some).run(centers, prices, self.tol, rounds)
            centers, prices, n_before = state.centers, state.prices, state.n_rounds
        state = _Rounds(X, limits).run(centers, prices, self.tol, rounds)
        state.n_rounds += n_before
        return state

    def _first_centers(self, X: Any, center: Array | None, random: np.random.RandomState) -> Array:
        n_samples = X.shape[0]
        if not isinstance(self.init, str):
            given = check_array(self.init, dtype=X.dtype, copy=True)
            if given.shape != (self.n_clusters, X.shape[1]):
                raise ValueError(
                    f"init has shape {given.shape}, but must have shape (n_clusters, n_features), here "
                    f"{(self.n_clusters, X.shape[1])}"
                )
            return given if center is None else given - center
        n_some = self.n_clusters if self.init == "random" else max(_SEEDED_PER_GROUP * self.n_clusters, 1000)
        chosen = X[np.sort(random.permutation(n_samples)[:n_some])]
        if self.init == "k-means++":
            chosen = kmeans_plusplus(chosen, self.n_clusters, random_state=random)[0]
        return dense(chosen)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, **refused: Any) -> BalancedKMeans:
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
        **refused
            No other arguments are accepted; see ``fit``.

        Returns
        -------
        self
        """
        _refuse("partial_fit", refused)
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
            limits = _batch_limits(counts, X.shape[0], self.size_min, self.size_max, self.sizes)
            labels, prices = self._assigned(X, centers, None if is_first else self.prices_, limits)
            new = np.bincount(labels, minlength=self.n_clusters)
            moves = _group_sums(X, labels, self.n_clusters) - new[:, None] * centers
            moves /= np.maximum(counts + new, 1)[:, None]
        self.cluster_centers_ = (centers + moves).astype(X.dtype)
        self.counts_, self.prices_, self.labels_ = counts + new, prices, labels
        self.inertia_ = _squared_distance(X, self.cluster_centers_, labels)
        self.n_iter_ = 1 if is_first else self.n_iter_ + 1
        return self

    def predict(self, X: Any, balanced: bool = False) -> Indices:
        """Assign samples to groups.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            The samples.
        balanced : bool, default=False
            Whether the groups of these samples, taken together, must have the required sizes: equal sizes, or those set
            by ``size_min``, ``size_max`` and ``sizes``. If False, each sample gets the group of its nearest centre.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The group of each sample.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        centers = self.cluster_centers_.astype(X.dtype, copy=False)
        if not balanced:
            return np.asarray(pairwise_distances_argmin(X, centers), np.intp)
        return self._assigned(X, centers, self.prices_, self._limits(X.shape[0]))[0]

    def _assigned(self, X: Any, centers: Array, prices: Any, limits: Limits) -> tuple[Indices, Any]:
        """Return the groups of samples within the limits, and the prices."""
        center = _origin(X)
        distance = None if prices is None else self.inertia_ / max(self.counts_.sum(), 1.0)
        with one_blas_thread():
            if center is None:
                return _Rounds(X, limits, distance).assign(centers, prices)
            return _Rounds(X - center, limits, distance).assign(centers - center, prices)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        check_sparse(X)  # before it is converted
        return validate_data(self, X, accept_sparse="csr", dtype=_TYPES, reset=reset)

    def _checked(self, X: Any, *, reset: bool, needs_all_groups: bool = True) -> Any:
        X = self._validated(X, reset=reset)
        if needs_all_groups and X.shape[0] < self.n_clusters:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than n_samples={X.shape[0]}: give fewer groups, or more samples"
            )
        check_squares(X, small=False)
        return sparse.csr_array(X) if sparse.issparse(X) else X

    def _limits(self, n_samples: int) -> Limits:
        return _size_limits(n_samples, self.n_clusters, self.size_min, self.size_max, self.sizes)

    def _restore_fitted_state(self, arrays: dict[str, Any], plain: dict[str, Any]) -> None:
        super()._restore_fitted_state(arrays, plain)
        if len(self.cluster_centers_) != self.n_clusters:
            raise ValueError(f"there are {len(self.cluster_centers_)} centres, but n_clusters is {self.n_clusters}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _origin(X: Any) -> Array | None:
    """Return the mean of samples, which makes products more precise. None for sparse samples, to keep them sparse."""
    return None if sparse.issparse(X) else X.mean(axis=0, dtype=np.float64).astype(X.dtype)


def _refuse(method: str, given: dict[str, Any]) -> None:
    """Raise an error for arguments that other clusterers accept."""
    if "sample_weight" in given:
        raise TypeError(
            f"BalancedKMeans.{method} does not support sample_weight, because sizes count samples: repeat the "
            f"samples, as in X.repeat(weights, axis=0) for whole numbers, or use sklearn.cluster.KMeans, whose groups "
            f"have any size"
        )
    if given:
        raise TypeError(f"BalancedKMeans.{method} has no argument {', '.join(map(repr, given))}: leave it out")


def _squared_distance(X: Any, centers: Array, labels: Indices) -> float:
    if sparse.issparse(X):
        near = np.square(centers, dtype=np.float64).sum(axis=1)[labels]
        products = np.asarray(X.multiply(centers[labels]).sum(axis=1), np.float64).ravel()
        return max(float((X.multiply(X).sum()) - 2 * products.sum() + near.sum()), 0.0)
    return float(np.square(X - centers[labels], dtype=np.float64).sum())


def _size_limits(n_samples: int, n_clusters: int, size_min: Any, size_max: Any, sizes: Any) -> Limits:
    """Return the minimum and maximum size of each group, from the parameters of BalancedKMeans."""
    if sizes is not None:
        if size_min is not None or size_max is not None:
            raise ValueError("sizes sets the size of each group: give it without size_min and size_max")
        exact = checked_counts("sizes", sizes, n_clusters, "group")
        n_exact = exact.sum(dtype=float)  # of very large integers, too
        if np.ndim(sizes) != 1 or n_exact != n_samples:
            raise ValueError(
                f"sizes must be {n_clusters} numbers whose sum is {n_samples}, the number of samples, but has "
                f"{np.size(sizes)} whose sum is {n_exact:.0f}"
            )
        return Limits(exact, exact)
    if size_min is None and size_max is None:
        size_min, size_max = n_samples // n_clusters, -(-n_samples // n_clusters)
    least = checked_counts("size_min", 0 if size_min is None else size_min, n_clusters, "group")
    most = checked_counts("size_max", n_samples if size_max is None else size_max, n_clusters, "group")
    if (least > most).any():
        j = int(np.argmax(least > most))
        raise ValueError(f"group {j} has size_min={least[j]}, above size_max={most[j]}: give a smaller size_min")
    n_least, n_most = least.sum(dtype=float), most.sum(dtype=float)
    if n_least > n_samples:
        raise ValueError(
            f"size_min asks for {n_least:.0f} samples in {n_clusters} groups, but there are {n_samples}: give a "
            f"size_min of {n_samples // n_clusters} at most, or fewer groups"
        )
    if n_most < n_samples:
        raise ValueError(
            f"size_max has room for {n_most:.0f} samples in {n_clusters} groups, but there are {n_samples}: give a "
            f"size_max of {-(-n_samples // n_clusters)} at least, or more groups"
        )
    return Limits(np.minimum(most, n_samples), least)


def _batch_limits(counts: Float64, n_samples: int, size_min: Any, size_max: Any, sizes: Any) -> Limits:
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
        return Limits(np.minimum(most - seen, n_samples), np.maximum(least - seen, 0))
    name, given = ("sizes", sizes) if size_max is None else ("size_max", size_max)
    left = np.clip(checked_counts(name, given, n_clusters, "group") - seen, 0, n_samples)
    if left.sum() < n_samples:
        raise ValueError(
            f"{name} leaves room for {left.sum()} samples after the previous batches, but this batch has {n_samples}: "
            f"give a larger {name}, more groups or fewer samples"
        )
    return Limits(left, np.zeros(n_clusters, np.int64))


@dataclass
class _State:
    """The result of a round."""

    centers: Array
    prices: Float64
    labels: Indices
    inertia: float
    n_rounds: int = 0


class _Rounds:
    """The rounds of k-means with some samples.

    Samples are rows of an array or csr_array, near the origin if possible: products are computed in their type.
    ``distance`` is their mean squared distance from the centres, if it is known.
    """

    def __init__(self, X: Any, limits: Limits, distance: float | None = None) -> None:
        self._X = X
        self._limits = limits
        self._bidders = NearBidders(X, len(limits.capacity))
        self._auction = Auction(self._bidders, limits, allowed_threads())
        self._size = float(squared_norms(X).sum())
        self._least_increment = max(1e-12 * self._size / X.shape[0], 1e-290)
        first = _FIRST_INCREMENT * self._size / X.shape[0] if distance is None else _INCREMENT * distance
        self._increment = max(first, self._least_increment)

    def assign(self, centers: Array, prices: Float64 | None, loosely: bool = False) -> tuple[Indices, Float64]:
        """Return the group of each sample and the prices of groups, given earlier prices if there are any.

        With ``loosely``, a few samples may be in groups that are already full.
        """
        self._check(centers, prices)
        self._bidders.approach(centers)
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

    def run(self, centers: Array, prices: Float64 | None, tol: float, epochs: Iterator[int]) -> _State:
        """Do rounds until one reduces the sum of squared distances by less than the fraction ``tol``."""
        if self._X.shape[0] < _MANY_SAMPLES:
            return self._until_settled(centers, prices, tol, epochs, loosely=False)
        loose = self._until_settled(centers, prices, tol, epochs, loosely=True)
        state = self._until_settled(loose.centers, loose.prices, tol, epochs, loosely=False)
        state.n_rounds += loose.n_rounds
        return state

    def _until_settled(
        self, centers: Array, prices: Float64 | None, tol: float, epochs: Iterator[int], *, loosely: bool
    ) -> _State:
        best: _State | None = None
        n_rounds = 0
        for _ in epochs:
            n_rounds += 1
            state = self._round(centers, prices, loosely)
            has_moved = best is None or state.inertia < (1 - tol) * best.inertia
            if best is None or state.inertia < best.inertia:
                best = state
            if not has_moved or np.array_equal(state.centers, centers):
                break
            centers, prices = state.centers, state.prices
        if best is None:  # a callback has ended the fit before the first round
            best = self._round(centers, prices, loosely)
        best.n_rounds = n_rounds
        return best

    def _round(self, centers: Array, prices: Float64 | None, loosely: bool = False) -> _State:
        """Assign samples to centres, and move centres to the means of their groups. An empty group keeps its centre."""
        labels, prices = self.assign(centers, prices, loosely)
        sums = _group_sums(self._X, labels, len(centers))
        counts = np.bincount(labels, minlength=len(centers))
        means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
        inertia = self._size - float((counts * squared_norms(means)).sum())
        self._increment = min(max(_INCREMENT * inertia / len(labels), self._least_increment), self._increment)
        return _State(means.astype(centers.dtype), prices, labels, max(inertia, 0.0))


def _group_sums(X: Any, labels: Indices, n_groups: int) -> Float64:
    """Return the sum of the samples of each group, in float64."""
    n_samples = X.shape[0]
    is_in = sparse.csr_array((np.ones(n_samples), labels, np.arange(n_samples + 1)), shape=(n_samples, n_groups))
    return dense(is_in.T @ X).astype(np.float64, copy=False)


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
