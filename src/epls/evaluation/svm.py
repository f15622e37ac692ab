"""Linear one-vs-all classifiers of features: their base, and the paper's SVM with a cross-validated C."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..solvers.svms import LinearSVMs, Solved
from ..utils.sklearn import AT_LEAST_ONE, POSITIVE, fit_context
from ..utils.threads import product, threads_for
from ..utils.types import Array

# C times the mean squared norm of the rows, in half decades. On image features, accuracy peaks at 0.3 to 3. With few
# features, or features whose means are far from 0, it can peak as late as 10,000.
_RELATIVE_CS = np.logspace(-3, 4, 15)
# Beyond this, accuracy only falls and the problems become harder: the last decades can take most of the time.
_ENOUGH_BELOW = 3
_FAR_BELOW = 5  # in standard errors; such a value counts twice
_MANY_SAMPLES = 20_000  # for which a single held-out fifth chooses C


class OneVsAll(ClassifierMixin, BaseEstimator):
    """A linear classifier with a row of ``coef_`` and ``intercept_`` for each class, or one for the second of two."""

    classes_: NDArray[Any]
    coef_: Array
    intercept_: Array

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[np.intp], Array]:
        """Return the samples, the numbers of their classes, and for each problem 1 or -1 for each sample.

        Sets ``classes_``.
        """
        data, labels = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, labels = np.unique(labels, return_inverse=True)
        if len(self.classes_) == 1:
            raise ValueError(
                f"all {len(data)} samples belong to one class, {self.classes_[0]!r}, but a classifier needs two or "
                f"more: give samples of another class too"
            )
        positive = np.arange(len(self.classes_))[1 if len(self.classes_) == 2 else 0 :, None]
        return data, labels, np.where(labels == positive, 1.0, -1.0)

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the margins w.x + b.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            The margin of each class, or of the second class if there are two.
        """
        check_is_fitted(self)
        data = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        margins = product(data, self.coef_.T.astype(data.dtype, copy=False))
        margins += self.intercept_.astype(data.dtype, copy=False)
        return margins[:, 0] if len(self.classes_) == 2 else margins

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the class with the largest margin for each sample."""
        margins = self.decision_function(X)
        return chosen_labels(self.classes_, margins)


def chosen_labels(classes: NDArray[Any], margins: Array) -> NDArray[Any]:
    """Return the label of the largest margin for each sample; a single margin is that of the second of two classes."""
    return classes[(margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)]


class L2SVMCV(OneVsAll):
    """Linear one-vs-all SVM with squared hinge loss that chooses C by cross-validation.

    Solves the problem of ``sklearn.svm.LinearSVC()`` to a stated accuracy, for all values of C, folds and classes
    together, with little more memory than the samples themselves; see :mod:`epls.solvers.svms`. Features should be on
    a common scale (``StandardScaler``).

    Parameters
    ----------
    Cs : float, array-like of float or None, default=None
        The weights of the loss to choose from. A single value is used without cross-validation. None tries half decades
        such that C times the mean squared norm of the rows (with the constant 1 of the intercept) goes from 0.001 to
        10,000. It stops early when accuracy is more than one standard error below the best three times in a row, or
        more than five twice in a row.
    cv : int, splitter or iterable of (train, test), default=5
        The folds. An int uses stratified folds without shuffling, as in scikit-learn.
    intercept_scaling : float or None, default=None
        As in ``LinearSVC``, the penalty on the intercept is b^2 / (2 intercept_scaling^2). None uses ten times the root
        mean square norm of the rows, which leaves the intercept practically free, as in textbooks. With many features,
        the 1 of ``LinearSVC`` keeps the intercept near 0, which costs two percent on STL-10.
    tol : float, default=1e-6
        Each problem is solved until its duality gap, half the squared norm of its gradient, is at most this fraction
        of its objective. Cross-validation uses at least 1e-4, which changes accuracy by much less than its standard
        error.
    max_iter : int, default=2000
        The maximum number of steps for one C. A ``ConvergenceWarning`` is issued if this is not enough.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
        The weights w, float32 for float32 data. With two classes, those of the second class.
    intercept_ : ndarray of shape (n_classes,) or (1,)
        The intercepts b.
    C_ : float
        The chosen C: the one with the highest mean accuracy, and the smallest in case of ties.
    Cs_ : ndarray of shape (n_Cs,)
        The values of C that were given or tried.
    scores_ : ndarray of shape (n_folds, n_Cs)
        The accuracy on the test part of each fold. It has no rows if there was only one C.
    objective_ : ndarray of shape (n_classes,) or (1,)
        The final value of the objective.
    n_iter_ : int
        The largest number of steps for any C.
    n_products_ : int
        The number of products of vectors with the samples and back. They take most of the time.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls.evaluation.svm import L2SVMCV
    >>> X, y = load_digits(return_X_y=True)
    >>> model = L2SVMCV().fit(X[:1000], y[:1000])
    >>> model.scores_.shape == (5, len(model.Cs_))
    True
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "Cs": [POSITIVE, "array-like", None],
        "cv": ["cv_object"],
        "intercept_scaling": [POSITIVE, None],
        "tol": [POSITIVE],
        "max_iter": [AT_LEAST_ONE],
    }

    def __init__(
        self,
        Cs: Any = None,
        *,
        cv: Any = 5,
        intercept_scaling: float | None = None,
        tol: float = 1e-6,
        max_iter: int = 2000,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> L2SVMCV:
        """Choose C by cross-validation, then fit all samples with it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, float32 or float64.
        y : array-like of shape (n_samples,)
            The labels of the samples.
        """
        data, labels, signs = self._checked(X, y)
        with threads_for(len(signs) * len(data) * min(data.shape)):
            problems = LinearSVMs(
                data, signs, intercept_scaling=self.intercept_scaling, tol=self.tol, max_iter=self.max_iter
            )
            self.Cs_ = _RELATIVE_CS / problems.mean_square if self.Cs is None else self._checked_grid()
            if len(self.Cs_) == 1:
                self.C_, self.scores_ = float(self.Cs_[0]), np.empty((0, 1))
                start = problems.start(1)
            else:
                start = self._choose(problems, labels)
            solution, (self.objective_,) = problems.solve(np.ones((1, len(data))), self.C_, start)
            self.coef_, self.intercept_ = problems.weights(solution)
        self.n_iter_, self.n_products_ = problems.most_steps, problems.n_products
        return self

    def _choose(self, problems: LinearSVMs, labels: NDArray[np.intp]) -> Solved:
        """Set ``C_`` and ``scores_``, and return the starting point for all samples."""
        largest = int(np.bincount(labels).max())
        if isinstance(self.cv, (int, np.integer)) and self.cv > largest:
            raise ValueError(
                f"no class has enough samples for cv={self.cv} folds, the largest has {largest}: give cv of at most "
                f"{largest}, more samples, or a single value of Cs, which needs no folds"
            )
        folds = list(check_cv(self.cv, labels, classifier=True).split(np.empty((len(labels), 0)), labels))
        # A sample that appears twice in a fold counts twice: its margin and the 1 are multiplied by the root of that.
        weights = np.sqrt([np.bincount(np.arange(len(labels))[train], minlength=len(labels)) for train, _ in folds])
        self.scores_ = np.empty((len(folds), len(self.Cs_)))
        solution = problems.start(len(folds))
        best, n_below = -1.0, 0
        for n_tried, k in enumerate(np.argsort(self.Cs_), 1):
            solution, _ = problems.solve(weights, self.Cs_[k], solution, problems.fold_tol)
            guesses = problems.predict(solution)
            self.scores_[:, k] = [np.mean(guesses[f, test] == labels[test]) for f, (_, test) in enumerate(folds)]
            score = float(self.scores_[:, k].mean())
            if score > best + 1e-12:  # equal means over folds may differ by rounding
                best, self.C_, start = score, float(self.Cs_[k]), problems.common(solution)
            error = np.sqrt(best * (1 - best) / len(labels))
            n_below = n_below + 1 + (score < best - _FAR_BELOW * error) if score < best - error else 0
            if self.Cs is None and n_below >= _ENOUGH_BELOW:
                self.Cs_, self.scores_ = self.Cs_[:n_tried], self.scores_[:, :n_tried]
                break
        return start

    def _checked_grid(self) -> Array:
        Cs = np.atleast_1d(np.asarray(self.Cs, dtype=np.float64))
        if Cs.ndim != 1 or not len(Cs) or not (np.isfinite(Cs) & (Cs > 0)).all():
            raise ValueError(
                f"Cs={self.Cs!r} must be one number or a list of one or more numbers, all finite and above 0, or None "
                f"for a grid that suits the data"
            )
        return Cs


def folds_for(n_samples: int, fewest: int) -> Any:
    """Return how to choose C with so many samples, of them so few of a class: five folds, or one of many samples."""
    if n_samples >= _MANY_SAMPLES:
        return StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    # Shuffled: folds of sorted samples would differ, and no C would suit all of them.
    return StratifiedKFold(max(min(5, fewest), 2), shuffle=True, random_state=0)


def svm_for(labels: NDArray[Any], n_views: int = 1) -> L2SVMCV:
    """Return an SVM with folds that suit these labels: five, or a single held-out fifth if there are many samples.

    With several views of a sample, such as its mirror image, its rows follow one another and stay in the same part.
    Otherwise C would be chosen on samples that are almost known.
    """
    splitter = folds_for(len(labels), int(np.unique(labels, return_counts=True)[1].min()))
    if n_views == 1:
        return L2SVMCV(cv=splitter)
    views = np.arange(len(labels) * n_views).reshape(-1, n_views)
    splits = splitter.split(labels, labels)
    return L2SVMCV(cv=[(views[train].ravel(), views[test].ravel()) for train, test in splits])
