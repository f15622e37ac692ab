"""k-means with groups of equal or limited size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin, _fit_context
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..utils.constraints import AT_LEAST_ONE, NOT_NEGATIVE
from ..utils.epochs import Epochs, earlier_fit_kept
from ..utils.fields import COUNT, Floats, Number, Saved
from ..utils.threads import Crew
from ..utils.types import Array, Indices
from .auction import Limits
from .lloyd import Rounds, State, group_sums, part_of
from .sizes import size_limits

_TYPES = [np.float64, np.float32]
_SEEDED_PER_GROUP = 16  # samples that k-means++ chooses from, for each group
_SIZE = [Interval(Integral, 0, None, closed="left"), "array-like", None]


class BalancedKMeans(Saved, ClusterMixin, Epochs, BaseEstimator):
    """k-means whose groups are equally large, or have sizes within limits.

    Minimises the sum of squared distances of samples to the centre of their group, as KMeans does, over all groupings
    with the sizes asked for. In each round an auction (see :func:`epls.balanced_assignment`) assigns the samples to the
    centres, and centres move to the means of their groups. From 5,000 samples on, the first rounds leave a few samples
    in groups that are full, and the last rounds do not. No matrix of all distances is made: memory is that of a few
    copies of the samples, and about 250 bytes for each.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of groups.
    size_min, size_max : int, array-like of shape (n_clusters,) or None, default=None
        The smallest and the largest size of a group, for all groups or for each. If neither they nor ``sizes`` are
        given, the sizes of any two groups differ by one at most.
    sizes : array-like of shape (n_clusters,) or None, default=None
        The exact size of each group. Their sum is the number of samples.
    init : {"k-means++", "random"} or array-like of shape (n_clusters, n_features), default="k-means++"
        The centres to start from: samples far from each other, any samples, or those given.
    n_init : int, default=1
        How often to start; the best result is kept.
    max_iter : int, default=100
        The largest number of rounds of each start.
    tol : float, default=1e-4
        Rounds end when the sum of squared distances falls by less than this share.
    random_state : int, RandomState instance or None, default=None
        Chooses the centres to start from.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The means of the groups; of a group that is empty, its last centre.
    labels_ : ndarray of shape (n_samples,)
        The group of each sample. After ``partial_fit``, of the last batch; not in a model file.
    inertia_ : float
        The sum of squared distances of samples to the centre of their group. After ``partial_fit``, of the last batch.
    prices_ : ndarray of shape (n_clusters,)
        What a place in each group costs, in squared distance: how much the group is wanted.
    n_iter_ : int
        The number of rounds of the best start, or of batches.
    counts_ : ndarray of shape (n_clusters,)
        How many samples the centres are the means of.
    n_features_in_ : int
        The number of features.

    See Also
    --------
    balanced_assignment : Assign rows to columns for any matrix of costs.

    Notes
    -----
    There are no sample weights: sizes count samples. The result is the same for any number of threads.

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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> BalancedKMeans:
        """Find groups.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.

        Returns
        -------
        self
        """
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
        """The result of one start: with a part of the samples first, if there are many."""
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
                    f"init has shape {given.shape}, and must be (n_clusters, n_features), here "
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

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> BalancedKMeans:
        """Go on with one more batch of samples, each of which is seen once.

        The groups of all batches together are equally large, to within one. Limits of sizes need all samples: give them
        to ``fit``.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            The batch; the first has at least as many samples as there are groups.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        if not (self.size_min is None and self.size_max is None and self.sizes is None):
            raise ValueError(
                "partial_fit makes groups of equal size; size_min, size_max and sizes are limits over all samples: "
                "give all samples to fit, or leave the limits out"
            )
        is_first = not hasattr(self, "cluster_centers_")
        if not is_first and len(self.cluster_centers_) != self.n_clusters:
            raise ValueError(
                f"there are {len(self.cluster_centers_)} centres, and n_clusters={self.n_clusters} was set after they "
                f"were found: call fit again"
            )
        with earlier_fit_kept(self):
            X = self._checked(X, reset=is_first, needs_all_groups=is_first)
            counts = np.zeros(self.n_clusters) if is_first else self.counts_
            if is_first:
                centers = self._first_centers(X, None, check_random_state(self.random_state))
            else:
                centers = self.cluster_centers_.astype(X.dtype, copy=False)
            labels, prices = self._assigned(
                X, centers, None if is_first else self.prices_, _next_limits(counts, X.shape[0])
            )
            new = np.bincount(labels, minlength=self.n_clusters)
            moves = (group_sums(X, labels, self.n_clusters) - new[:, None] * centers) / np.maximum(counts + new, 1)[
                :, None
            ]
        self.cluster_centers_ = (centers + moves).astype(X.dtype)
        self.counts_, self.prices_, self.labels_ = counts + new, prices, labels
        self.inertia_ = _squared_distance(X, self.cluster_centers_, labels)
        self.n_iter_ = 1 if is_first else self.n_iter_ + 1
        return self

    def predict(self, X: Any, balanced: bool = False) -> Indices:
        """The groups of samples.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            The samples.
        balanced : bool, default=False
            Whether the groups of these samples, taken together, shall have the sizes that were asked for: equal sizes,
            or ``size_min``, ``size_max`` and ``sizes`` as they are. Otherwise each sample has the group of the nearest
            centre.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The groups.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=_TYPES, reset=False)
        centers = self.cluster_centers_.astype(X.dtype, copy=False)
        if not balanced:
            return np.asarray(pairwise_distances_argmin(X, centers), np.intp)
        return self._assigned(X, centers, self.prices_, self._limits(X.shape[0]))[0]

    def _assigned(self, X: Any, centers: Array, prices: Any, limits: Limits) -> tuple[Indices, Any]:
        """The groups of samples within limits, and the prices."""
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
        largest = float(np.abs(X).max())
        most = float(np.sqrt(np.finfo(X.dtype).max / (16 * X.shape[1])))
        if largest > most:
            raise ValueError(
                f"the samples have values of up to {largest:.2g}, and distances of values above {most:.2g} cannot be "
                f"squared in {X.dtype}: bring them to a scale of about 1"
            )
        return sparse.csr_array(X) if sparse.issparse(X) else X

    def _limits(self, n_samples: int) -> Limits:
        return size_limits(n_samples, self.n_clusters, self.size_min, self.size_max, self.sizes)

    def _restore_fitted_state(self, arrays: dict[str, Any], plain: dict[str, Any]) -> None:
        super()._restore_fitted_state(arrays, plain)
        if len(self.cluster_centers_) != self.n_clusters:
            raise ValueError(f"there are {len(self.cluster_centers_)} centres, where n_clusters is {self.n_clusters}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _origin(X: Any) -> Array | None:
    """The mean of samples, which products are more precise around; None for sparse ones, which it would fill."""
    return None if sparse.issparse(X) else X.mean(axis=0, dtype=np.float64).astype(X.dtype)


def _next_limits(counts: Any, n_samples: int) -> Limits:
    """What a batch may add to groups that are equally large to within one, so that they still are."""
    n_all = int(counts.sum()) + n_samples
    least, most = n_all // len(counts), -(-n_all // len(counts))
    seen = counts.astype(np.int64)
    return Limits(np.minimum(most - seen, n_samples), np.maximum(least - seen, 0))


def _squared_distance(X: Any, centers: Array, labels: Indices) -> float:
    if sparse.issparse(X):
        near = np.square(centers, dtype=np.float64).sum(axis=1)[labels]
        products = np.asarray(X.multiply(centers[labels]).sum(axis=1), np.float64).ravel()
        return max(float((X.multiply(X).sum()) - 2 * products.sum() + near.sum()), 0.0)
    return float(np.square(X - centers[labels], dtype=np.float64).sum())
