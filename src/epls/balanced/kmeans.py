"""k-means with groups of equal or limited size."""

from __future__ import annotations

from collections.abc import Iterator
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

from ..data.moments import check_squares
from ..utils.epochs import Epochs, earlier_fit_kept
from ..utils.fields import COUNT, Floats, Number, Saved
from ..utils.sklearn import AT_LEAST_ONE, NOT_NEGATIVE, Interval, StrOptions, fit_context
from ..utils.threads import Crew
from ..utils.types import Array, Indices
from .auction import Limits
from .lloyd import Rounds, State, group_sums, part_of
from .sizes import batch_limits, size_limits

_TYPES = [np.float64, np.float32]
_SEEDED_PER_GROUP = 16  # samples per group that k-means++ chooses from
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
            with Crew() as crew:
                best = self._start(moved, center, limits, random, epochs, crew)
                for _ in range(self.n_init - 1):
                    state = self._start(moved, center, limits, random, epochs, crew)
                    best = state if state.inertia < best.inertia else best
            epochs.close()
        self.cluster_centers_ = best.centers if center is None else (best.centers + center).astype(X.dtype)
        self.labels_, self.prices_, self.inertia_ = best.labels, best.prices, best.inertia
        self.counts_ = np.bincount(best.labels, minlength=self.n_clusters).astype(np.float64)
        self.n_iter_ = best.n_rounds
        return self

    def _start(
        self, X: Any, center: Array | None, limits: Limits, random: np.random.RandomState, epochs: Any, crew: Crew
    ) -> State:
        """Return the result of one start. With many samples, it begins with a part of them."""
        centers, prices, n_before = self._first_centers(X, center, random), None, 0
        some = part_of(X, limits, random)
        rounds: Iterator[int] = islice(epochs, self.max_iter)
        if some is not None:
            state = Rounds(*some, crew).run(centers, prices, self.tol, rounds)
            centers, prices, n_before = state.centers, state.prices, state.n_rounds
        state = Rounds(X, limits, crew).run(centers, prices, self.tol, rounds)
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
        if self.init == "random":
            chosen = X[np.sort(random.permutation(n_samples)[: self.n_clusters])]
            return np.asarray(chosen.toarray() if sparse.issparse(chosen) else chosen)
        n_some = min(n_samples, max(_SEEDED_PER_GROUP * self.n_clusters, 1000))
        some = X[np.sort(random.permutation(n_samples)[:n_some])]
        chosen = kmeans_plusplus(some, self.n_clusters, random_state=random)[0]
        return np.asarray(chosen.toarray() if sparse.issparse(chosen) else chosen)

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
            limits = batch_limits(counts, X.shape[0], self.size_min, self.size_max, self.sizes)
            labels, prices = self._assigned(X, centers, None if is_first else self.prices_, limits)
            new = np.bincount(labels, minlength=self.n_clusters)
            moves = group_sums(X, labels, self.n_clusters) - new[:, None] * centers
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
        X = validate_data(self, X, accept_sparse="csr", dtype=_TYPES, reset=False)
        centers = self.cluster_centers_.astype(X.dtype, copy=False)
        if not balanced:
            return np.asarray(pairwise_distances_argmin(X, centers), np.intp)
        return self._assigned(X, centers, self.prices_, self._limits(X.shape[0]))[0]

    def _assigned(self, X: Any, centers: Array, prices: Any, limits: Limits) -> tuple[Indices, Any]:
        """Return the groups of samples within the limits, and the prices."""
        center = _origin(X)
        distance = None if prices is None else self.inertia_ / max(self.counts_.sum(), 1.0)
        with Crew() as crew:
            if center is None:
                return Rounds(X, limits, crew, distance).assign(centers, prices)
            return Rounds(X - center, limits, crew, distance).assign(centers - center, prices)

    def _checked(self, X: Any, *, reset: bool, needs_all_groups: bool = True) -> Any:
        X = validate_data(self, X, accept_sparse="csr", dtype=_TYPES, reset=reset)
        if needs_all_groups and X.shape[0] < self.n_clusters:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than n_samples={X.shape[0]}: give fewer groups, or more samples"
            )
        check_squares(X, small=False)
        return sparse.csr_array(X) if sparse.issparse(X) else X

    def _limits(self, n_samples: int) -> Limits:
        return size_limits(n_samples, self.n_clusters, self.size_min, self.size_max, self.sizes)

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
