"""Problems for the SVM and its solver, and what LinearSVC makes of them."""

from types import SimpleNamespace
from unittest import mock

import numpy as np
from sklearn.svm import LinearSVC

from epls.solvers.svms import LinearSVMs


def made_up(n_samples, n_features, n_classes, seed=0):
    """Classes that overlap, and features of very different variance."""
    random = np.random.RandomState(seed)
    y = np.arange(n_samples) % n_classes
    X = random.standard_normal((n_samples, n_features)) + 0.5 * random.standard_normal((n_classes, n_features))[y]
    return X / np.sqrt(1 + np.arange(n_features)) + 0.1 * random.standard_normal(n_features), y


def signs_of(y):
    """For each class 1 and -1; with two classes for the second one only."""
    classes = np.unique(y)
    return np.where(y == (classes[1:] if len(classes) == 2 else classes)[:, None], 1.0, -1.0)


def free_scaling(X):
    """Of an intercept that is free: ten times the root mean square norm of the rows (x, 1)."""
    return 10 * np.sqrt(1 + np.square(X, dtype=np.float64).sum(axis=1).mean())


def hinges(model, X, y):
    return np.maximum(0, 1 - signs_of(y) * (X @ model.coef_.T + model.intercept_).T)


def objectives(model, X, y, C, scaling):
    regularized = np.square(model.coef_).sum(axis=1) + (model.intercept_ / scaling) ** 2
    return 0.5 * regularized + C * np.square(hinges(model, X, y)).sum(axis=1)


def gradients(model, X, y, C, scaling):
    """With respect to the weights and, last, the scaled intercept."""
    weighted = 2 * C * signs_of(y) * hinges(model, X, y)
    return np.c_[model.coef_ - weighted @ X, model.intercept_ / scaling - scaling * weighted.sum(axis=1)]


def relative_gap(model, X, y, C, scaling):
    """Half the squared norm of the gradient, relative to the objective: the solver's tolerance."""
    return 0.5 * np.square(gradients(model, X, y, C, scaling)).sum(axis=1) / model.objective


def linear_svc(C, **settings):
    return LinearSVC(C=C, dual=True, tol=1e-8, max_iter=1_000_000, random_state=0, **settings)


def fold_weights(problems, solution):
    """For each fold the weights and the intercepts of all classes."""
    coefs, intercepts = problems.weights(solution)
    n_classes = len(problems.signs)
    return list(zip(coefs.reshape(-1, n_classes, coefs.shape[1]), intercepts.reshape(-1, n_classes), strict=True))


def solved(X, y, C, in_blocks=False, **options):
    """The solution with all samples, from a cold start."""
    with mock.patch.object(LinearSVMs, "block_elements", 700 if in_blocks else LinearSVMs.block_elements):
        problems = LinearSVMs(X, signs_of(y), **options)
        solution, (objective,) = problems.solve(np.ones((1, len(X))), C, problems.start(1))
        ((coef, intercept),) = fold_weights(problems, solution)
    return SimpleNamespace(coef_=coef, intercept_=intercept, objective=objective, problems=problems)
