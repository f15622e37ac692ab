"""The classifier of the paper: a linear one-vs-all SVM with squared hinge loss whose C is cross-validated."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..solvers.newton_svm import NewtonSVMs
from ..utils.constraints import AT_LEAST_ONE, POSITIVE
from ..utils.types import Array

# C times the mean squared norm of the rows, in half decades. Accuracy on features of images peaks at 0.3 to 3, but
# on a few features, or on such with means far from 0, as late as 10,000.
_RELATIVE_CS = np.logspace(-3, 4, 15)
# From then on accuracy only falls, and the problems get ever harder: the last decades can take most of the time.
_ENOUGH_BELOW = 3


class L2SVMCV(ClassifierMixin, BaseEstimator):
    """Linear one-vs-all SVM with squared hinge loss that chooses its C by cross-validation.

    Solves the problem of ``sklearn.svm.LinearSVC()``, to a stated accuracy, for all values of C, folds and classes
    together: see :mod:`epls.solvers.newton_svm`. Features should be on a common scale (``StandardScaler``).

    Parameters
    ----------
    Cs : float, array-like of float or None, default=None
        The weights of the loss to choose from; one value is taken as it is, without cross-validation. None takes half
        decades such that C times the mean squared norm of the rows (with the constant 1 of the intercept) goes from
        0.001 to 10,000, ending where accuracy was more than a standard error below the best three times running.
    cv : int, splitter or iterable of (train, test), default=5
        The folds; an int means stratified folds, not shuffled, as everywhere in scikit-learn.
    intercept_scaling : float or None, default=None
        As in ``LinearSVC``: the intercept is penalised by b^2 / (2 intercept_scaling^2). None takes ten times the root
        mean square norm of the rows, which leaves it free, as in textbooks. ``LinearSVC``'s 1 holds the intercept
        of many features near 0, which costs two percent of STL-10.
    tol : float, default=1e-6
        Each problem is solved until half the squared norm of its gradient is at most this share of its objective.
        Half the squared norm of the gradient is the duality gap, so the objective is within this share of its optimum.
    max_iter : int, default=200
        The largest number of Newton steps for one C; there is a ``ConvergenceWarning`` if it does not suffice.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
        The weights w, float32 for float32 data. With two classes they are those of the second.
    intercept_ : ndarray of shape (n_classes,) or (1,)
        The intercepts b.
    C_ : float
        The chosen C: that of the highest mean accuracy, the smallest of equals.
    Cs_ : ndarray of shape (n_Cs,)
        The values it was chosen from: those given, or those tried.
    scores_ : ndarray of shape (n_folds, n_Cs)
        Accuracy on the test part of each fold; no rows if there was nothing to choose.
    objective_ : ndarray of shape (n_classes,) or (1,)
        What the objective came to.
    n_iter_ : int
        The most Newton steps that any C took.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if ``fit`` was given any.

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
        max_iter: int = 200,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> L2SVMCV:
        """Choose C by cross-validation and fit all samples with it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, float32 or float64.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        self
        """
        data, labels = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, labels = np.unique(labels, return_inverse=True)
        if len(self.classes_) == 1:
            raise ValueError(
                f"all {len(data)} samples are of one class, {self.classes_[0]!r}, and a classifier needs two or more: "
                f"give samples of another class too"
            )
        positive = np.arange(len(self.classes_))[1 if len(self.classes_) == 2 else 0 :, None]
        problems = NewtonSVMs(
            data,
            np.where(labels == positive, 1.0, -1.0),
            intercept_scaling=self.intercept_scaling,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        self.Cs_ = _RELATIVE_CS / problems.mean_square if self.Cs is None else self._checked_grid()
        if len(self.Cs_) == 1:
            self.C_, self.scores_ = float(self.Cs_[0]), np.empty((0, 1))
            start = problems.start(1)
        else:
            start = self._choose(problems, labels)
        (solution,), (self.objective_,) = problems.solve(np.ones((1, len(data))), self.C_, start)
        self.coef_, self.intercept_ = problems.weights(solution)
        self.n_iter_ = problems.most_steps
        return self

    def _choose(self, problems: NewtonSVMs, labels: NDArray[np.intp]) -> Array:
        """Set ``C_`` and ``scores_``; where to start with all samples."""
        largest = int(np.bincount(labels).max())
        if isinstance(self.cv, (int, np.integer)) and self.cv > largest:
            raise ValueError(
                f"no class has enough samples for cv={self.cv} folds, the largest has {largest}: give cv of at most "
                f"{largest}, more samples, or a single value of Cs, which needs no folds"
            )
        folds = list(check_cv(self.cv, labels, classifier=True).split(np.empty((len(labels), 0)), labels))
        # A sample that a fold has twice counts twice: its margin and the 1 are both multiplied by the root of that.
        weights = np.sqrt([np.bincount(np.arange(len(labels))[train], minlength=len(labels)) for train, _ in folds])
        self.scores_ = np.empty((len(folds), len(self.Cs_)))
        solution = start = problems.start(len(folds))
        best, n_below = -1.0, 0
        for n_tried, k in enumerate(np.argsort(self.Cs_), 1):
            solution, _ = problems.solve(weights, self.Cs_[k], solution)
            guesses = problems.predict(solution)
            self.scores_[:, k] = [np.mean(guesses[f, test] == labels[test]) for f, (_, test) in enumerate(folds)]
            score = float(self.scores_[:, k].mean())
            if score > best + 1e-12:  # equal means of other folds may differ by rounding
                best, self.C_, start = score, float(self.Cs_[k]), solution.mean(axis=0, keepdims=True)
            n_below = n_below + 1 if score < best - np.sqrt(best * (1 - best) / len(labels)) else 0
            if self.Cs is None and n_below == _ENOUGH_BELOW:
                self.Cs_, self.scores_ = self.Cs_[:n_tried], self.scores_[:, :n_tried]
                break
        return start

    def _checked_grid(self) -> Array:
        Cs = np.atleast_1d(np.asarray(self.Cs, dtype=np.float64))
        if Cs.ndim != 1 or not len(Cs) or not (np.isfinite(Cs) & (Cs > 0)).all():
            raise ValueError(
                f"Cs={self.Cs!r} must be one number or a list of one or more numbers, all finite and above 0; None "
                f"takes a grid that suits the data"
            )
        return Cs

    def decision_function(self, X: ArrayLike) -> Array:
        """The margins w.x + b.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            The margin of each class, or that of the second.
        """
        check_is_fitted(self)
        data = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        margins = data @ self.coef_.T.astype(data.dtype, copy=False) + self.intercept_.astype(data.dtype, copy=False)
        return margins[:, 0] if len(self.classes_) == 2 else margins

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class with the largest margin.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            A label for each sample.
        """
        margins = self.decision_function(X)
        return self.classes_[(margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)]
