"""The classifier of the paper: a linear one-vs-all SVM with squared hinge loss whose C is cross-validated.

For each class, with y = 1 for its samples and -1 for the others, it minimises what scikit-learn's ``LinearSVC`` does::

    f(w, b) = 1/2 (||w||^2 + b^2 / intercept_scaling^2) + C sum_i max(0, 1 - y_i (w.x_i + b))^2

Three things make the whole grid cheap, without changing the result:

1. The samples are rotated once so that their Gram matrix is diagonal. A rotation changes neither norms nor products,
   and 1000 samples of 6400 features become 1000 of 1000.
2. The problems of all classes and all folds have these rows in common and are solved together; a sample outside of a
   fold's training part has weight 0. What takes the time are then products of large matrices.
3. The diagonal of the Gram matrix nearly inverts the Hessian, and each C starts at the solution of the one before.

The method is Newton's with conjugate gradients (Keerthi and DeCoste 2005) and an exact line search. The gradients are
in double precision; the Newton directions, which need not be exact, are in single.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[np.floating]

# C times the mean squared norm of the rows, in half decades. Accuracy on features of images peaks at 0.3 to 3, but
# on a few features, or on such with means far from 0, as late as 10,000.
_RELATIVE_CS = np.logspace(-3, 4, 15)
# From then on accuracy only falls, and the problems get ever harder: the last decades can take most of the time.
_ENOUGH_BELOW = 3
_FREE_INTERCEPT = 10.0  # the constant of the intercept, against rows of mean squared norm 1
_BLOCK_ELEMENTS = 2**24  # of the data in double precision at a time
_DOUBLE_ELEMENTS = 2**27  # rotated rows with no more than that are kept in double precision, whatever the data
_DOUBLE_FEATURES = 2000  # eigenvectors of so many features are found in double precision, whatever the data
# Of the residual of a Newton direction, as a share of the gradient's norm. With 0.1, a large C from a cold start on
# separable data took more than 200 steps instead of 10, and nothing else took less time.
_DIRECTION_TOLERANCE = 0.01
_SLOPE_TOLERANCE = 0.01  # of the slope at the end of a step, as a share of that at its start
_MOST_PRODUCTS = 300  # of conjugate gradients for one direction


class L2SVMCV(ClassifierMixin, BaseEstimator):
    """Linear one-vs-all SVM with squared hinge loss that chooses its C by cross-validation.

    Solves the problem of ``sklearn.svm.LinearSVC()``, to a stated accuracy, for all values of C, folds and classes
    together: see :mod:`epls.evaluation.svm`. Features should be on a common scale (``StandardScaler``).

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
    cv_scores_ : ndarray of shape (n_folds, n_Cs)
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
    >>> model.cv_scores_.shape == (5, len(model.Cs_))
    True
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "Cs": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "cv": ["cv_object"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither"), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
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
        problems = _Problems(
            data, np.where(labels == positive, 1.0, -1.0), self.intercept_scaling, self.tol, self.max_iter
        )
        self.Cs_ = _RELATIVE_CS / problems.square if self.Cs is None else self._checked_grid()
        if len(self.Cs_) == 1:
            self.C_, self.cv_scores_ = float(self.Cs_[0]), np.empty((0, 1))
            start = problems.start(1)
        else:
            start = self._choose(problems, labels)
        (solution,), (self.objective_,) = problems.solve(np.ones((1, len(data))), self.C_, start)
        self.coef_, self.intercept_ = problems.weights(solution)
        self.n_iter_ = problems.most_steps
        return self

    def _choose(self, problems: _Problems, labels: NDArray[np.intp]) -> Array:
        """Set ``C_`` and ``cv_scores_``; where to start with all samples."""
        largest = int(np.bincount(labels).max())
        if isinstance(self.cv, (int, np.integer)) and self.cv > largest:
            raise ValueError(
                f"no class has enough samples for cv={self.cv} folds, the largest has {largest}: give cv of at most "
                f"{largest}, more samples, or a single value of Cs, which needs no folds"
            )
        folds = list(check_cv(self.cv, labels, classifier=True).split(np.empty((len(labels), 0)), labels))
        # A sample that a fold has twice counts twice: its margin and the 1 are both multiplied by the root of that.
        weights = np.sqrt([np.bincount(np.arange(len(labels))[train], minlength=len(labels)) for train, _ in folds])
        self.cv_scores_ = np.empty((len(folds), len(self.Cs_)))
        solution = start = problems.start(len(folds))
        best, n_below = -1.0, 0
        for n_tried, k in enumerate(np.argsort(self.Cs_), 1):
            solution, _ = problems.solve(weights, self.Cs_[k], solution)
            guesses = problems.predict(solution)
            self.cv_scores_[:, k] = [np.mean(guesses[f, test] == labels[test]) for f, (_, test) in enumerate(folds)]
            score = float(self.cv_scores_[:, k].mean())
            if score > best + 1e-12:  # equal means of other folds may differ by rounding
                best, self.C_, start = score, float(self.Cs_[k]), solution.mean(axis=0, keepdims=True)
            n_below = n_below + 1 if score < best - np.sqrt(best * (1 - best) / len(labels)) else 0
            if self.Cs is None and n_below == _ENOUGH_BELOW:
                self.Cs_, self.cv_scores_ = self.Cs_[:n_tried], self.cv_scores_[:, :n_tried]
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


class _Problems:
    """The problems of all classes on rotated rows of mean squared norm 1.

    With rows divided by s and weights multiplied by it, margins are the same and the objective is that of C s^2, times
    s^2: single precision then holds whatever the units of the data.
    """

    def __init__(self, X: Array, signs: Array, intercept_scaling: float | None, tol: float, max_iter: int) -> None:
        self.signs, self.tol, self.max_iter, self.most_steps = signs, tol, max_iter, 0
        self.rows, self.eigenvalues, self.square, self.weights = _rotate(X, intercept_scaling)
        self.single_rows = self.rows.astype(np.float32, copy=False)

    def start(self, n_folds: int) -> Array:
        return np.zeros((n_folds, len(self.signs), self.rows.shape[1]))

    def predict(self, solution: Array) -> NDArray[np.intp]:
        """The class of every sample by each fold's solution: (n_folds, n_samples)."""
        margins = _margins(solution.reshape(-1, solution.shape[2]), self.rows).reshape(*solution.shape[:2], -1)
        return (margins[:, 0] > 0).astype(np.intp) if len(self.signs) == 1 else margins.argmax(axis=1)

    def solve(self, weights: Array, C: float, start: Array) -> tuple[Array, Array]:
        """Solutions (n_folds, n_problems, n_rotated) and their objectives (n_folds, n_problems).

        Rows of ``targets`` are y_i, or 0 for samples that do not count; those of ``slack`` are 1 - y_i margin_i.
        """
        targets = (weights[:, None] * self.signs).reshape(-1, len(self.rows))
        V = start.reshape(len(targets), -1)
        solution, objective, unsolved = np.empty_like(V), np.empty(len(V)), np.arange(len(V))
        slack, loss_weight = np.abs(targets) - targets * _margins(V, self.rows), C * self.square
        for n_steps in range(self.max_iter + 1):
            hinge = np.maximum(slack, 0)
            gradient = V - 2 * loss_weight * _weighted_sum(targets * hinge, self.rows)
            value, square = 0.5 * _dot(V, V) + loss_weight * _dot(hinge, hinge), _dot(gradient, gradient)
            solution[unsolved], objective[unsolved] = V, value
            above = square > 2 * self.tol * value
            if n_steps == self.max_iter or not above.any():
                break
            unsolved, V, slack, targets, gradient = _pick(above, unsolved, V, slack, targets, gradient)
            enough = np.maximum(_DIRECTION_TOLERANCE**2 * square, 0.2 * self.tol * value)[above]
            direction = self._direction(np.where(slack > 0, 2 * loss_weight * targets**2, 0), gradient, enough)
            change = targets * _margins(direction, self.rows)
            length = _step_lengths(V, direction, slack, change, loss_weight)[:, None]
            V, slack = V + length * direction, slack - length * change
        self.most_steps = max(self.most_steps, n_steps)
        if above.any():
            warnings.warn(
                f"max_iter={self.max_iter} Newton steps left {above.sum()} of {len(solution)} problems of C={C:.3g} "
                f"above tol={self.tol:g}: raise max_iter or tol, or leave out so large a C",
                ConvergenceWarning,
                stacklevel=4,
            )
        return solution.reshape(start.shape), objective.reshape(start.shape[:2]) / self.square

    def _direction(self, curvature: Array, gradient: Array, enough: Array) -> Array:
        """Newton directions by preconditioned conjugate gradients, up to a squared residual of ``enough``.

        The Hessian is 1 + Z' diag(curvature) Z. Were the curvature the same for all samples, it would be diagonal: that
        diagonal is the preconditioner.
        """
        inverse = (1 / (1 + curvature.mean(axis=1, keepdims=True) * self.eigenvalues)).astype(np.float32)
        curvature = curvature.astype(np.float32)
        norm = np.sqrt(_dot(gradient, gradient))[:, None]  # taken out, so that nothing underflows in single precision
        residual = (-gradient / norm).astype(np.float32)
        enough, direction, unsolved = enough / norm[:, 0] ** 2, np.empty_like(gradient), np.arange(len(gradient))
        found, p = np.zeros_like(residual), inverse * residual
        energy = _dot(residual, p)
        for _ in range(_MOST_PRODUCTS):
            product = p + (curvature * (p @ self.single_rows.T)) @ self.single_rows
            length = (energy / _dot(p, product))[:, None]
            found += length * p
            residual -= length * product
            direction[unsolved] = found
            above = _dot(residual, residual) > enough
            if not above.any():
                break
            if not above.all():
                unsolved, found, residual, p, energy, inverse, curvature, enough = _pick(
                    above, unsolved, found, residual, p, energy, inverse, curvature, enough
                )
            steepest = inverse * residual
            before, energy = energy, _dot(residual, steepest)
            p = steepest + (energy / before)[:, None] * p
        return direction * norm


def _step_lengths(V: Array, direction: Array, slack: Array, change: Array, loss_weight: float) -> Array:
    """For each problem, where on its line the objective is least.

    Its slope is piecewise linear and rises: Newton's method finds the zero, kept between the bounds known by then.
    """
    linear, square = _dot(V, direction), _dot(direction, direction)
    slope_at_0 = linear - 2 * loss_weight * _dot(np.maximum(slack, 0), change)
    t, low, high = np.ones(len(V)), np.zeros(len(V)), np.full(len(V), np.inf)
    for _ in range(100):
        hinge = slack - t[:, None] * change
        active = np.where(hinge > 0, change, 0)
        slope = linear + t * square - 2 * loss_weight * _dot(active, hinge)
        off = np.abs(slope) > _SLOPE_TOLERANCE * np.abs(slope_at_0)
        if not off.any():
            break
        low, high = np.where(slope < 0, t, low), np.where(slope > 0, t, high)
        newton = t - slope / (square + 2 * loss_weight * _dot(active, active))
        middle = np.where(np.isinf(high), 2 * t, (low + high) / 2)
        t = np.where(off, np.where((newton > low) & (newton < high), newton, middle), t)
    return t


def _rotate(
    X: Array, intercept_scaling: float | None
) -> tuple[Array, Array, float, Callable[[Array], tuple[Array, Array]]]:
    """Coordinates in which the Gram matrix of the samples is diagonal, and last the constant of the intercept.

    Both divided by the root mean square norm of the rows (x, 1). Also that diagonal, the mean squared norm, and a
    function that takes solutions back to (coef, intercept).
    """
    n_samples, n_features = X.shape
    with np.errstate(over="ignore"):
        square = float(1 + sum(_dot(block, block).sum() for _, block in _blocks(X)) / n_samples)
    if not np.isfinite(square):
        raise ValueError("the features are too large to be squared: scale them, with a StandardScaler for example")
    constant = _FREE_INTERCEPT if intercept_scaling is None else intercept_scaling / np.sqrt(square)
    few = n_samples <= n_features
    gram: Array = np.zeros((min(X.shape), min(X.shape)))
    for _, block in _blocks(X.T if few else X):
        gram += block.T @ block
    if not few and X.dtype == np.float32 and n_features > _DOUBLE_FEATURES:
        # Rounded eigenvectors make the Hessian a little less diagonal but leave the problem the same.
        gram = gram.astype(np.float32)
    eigenvalues, vectors = eigh(gram, driver="evd", overwrite_a=True)
    if few:
        kept = eigenvalues > n_samples * np.finfo(np.float64).eps * eigenvalues[-1]  # the others are rounding
        eigenvalues, vectors = eigenvalues[kept], vectors[:, kept]
        rows = np.c_[vectors * np.sqrt(eigenvalues / square), np.full(n_samples, constant)]
    else:
        rows = np.empty((n_samples, n_features + 1), np.float64 if X.size <= _DOUBLE_ELEMENTS else X.dtype)
        rotation = (vectors / np.sqrt(square)).astype(rows.dtype)
        for some, _ in _blocks(X):
            rows[some, :-1] = X[some].astype(rows.dtype, copy=False) @ rotation
        rows[:, -1] = constant

    def weights(V: Array) -> tuple[Array, Array]:
        coef = V[:, :-1] / np.sqrt(square)
        if few:
            duals = (coef / np.sqrt(eigenvalues)) @ vectors.T
            coef = np.concatenate([duals @ block.T for _, block in _blocks(X.T)], axis=1)
        else:
            coef = coef @ vectors.T
        return coef.astype(X.dtype), (V[:, -1] * constant).astype(X.dtype)

    return rows, np.append(np.maximum(eigenvalues, 0) / square, n_samples * constant**2), square, weights


def _blocks(X: Array) -> Iterator[tuple[slice, Array]]:
    """Some rows after the other, in double precision."""
    step = max(1, _BLOCK_ELEMENTS // X.shape[1])
    for start in range(0, len(X), step):
        some = slice(start, start + step)
        yield some, X[some].astype(np.float64, copy=False)


def _margins(V: Array, rows: Array) -> Array:
    return np.concatenate([V @ block.T for _, block in _blocks(rows)], axis=1)


def _weighted_sum(weights: Array, rows: Array) -> Any:
    return sum(weights[:, some] @ block for some, block in _blocks(rows))


def _dot(A: Array, B: Array) -> Array:
    """The inner product of each row of one with the same row of the other."""
    return np.einsum("ij,ij->i", A, B)


def _pick(which: NDArray[np.bool_], *arrays: Any) -> Iterator[Any]:
    return (array[which] for array in arrays)
