"""Sparse codes against the conditions of a minimum, the duality gap and scikit-learn's lasso."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.decomposition import sparse_encode
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from epls.solvers.lasso import LassoSolver, sparse_codes

KINDS = [
    "normal",
    "duplicate components",
    "one component",
    "mirrored components",
    "nearly equal components",
    "few directions",
    "whole numbers",
]


NEARLY_EQUAL = np.array([[0.12586, -0.13224, 0.64106], [0.12584, -0.13264, 0.64078], [0.12703, -0.13116, 0.63972]])


def unit_rows(rows):
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1)


def codes_of(X, components, alpha, **settings):
    return sparse_codes(X, unit_rows(np.asarray(components, np.float64)), alpha, **settings).toarray()


def violations(X, components, codes, alpha, positive=False):
    """How far the slope of each component is from where it must be, by the definition; in float64."""
    components = unit_rows(np.asarray(components, np.float64))
    slopes = (X - codes @ components) @ components.T
    beyond = np.maximum(slopes - alpha, 0 if positive else np.maximum(-slopes - alpha, 0))
    return np.where(codes != 0, np.abs(slopes - alpha * np.sign(codes)), beyond)


def objective(X, components, codes, alpha):
    residual = X - codes @ unit_rows(np.asarray(components, np.float64))
    return 0.5 * np.square(residual).sum(axis=1) + alpha * np.abs(codes).sum(axis=1)


@st.composite
def problems(draw):
    """Samples and components of many kinds, and penalties from a millionth of the largest that matters to above it."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_samples, n_features = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    n_components = draw(st.integers(1, 40) | st.integers(60, 300))
    kind = draw(st.sampled_from(KINDS))
    components = random.normal(size=(n_components, n_features))
    if kind == "duplicate components":
        components = components[random.integers(max(1, n_components // 3), size=n_components)]
    elif kind == "one component":
        components[:] = components[0]
    elif kind == "mirrored components":
        components[n_components // 2 :] = -components[: n_components - n_components // 2]
    elif kind == "nearly equal components":
        components = components[:1] + 1e-3 * components
    elif kind == "few directions":
        components = random.normal(size=(n_components, 2)) @ random.normal(size=(2, n_features))
    elif kind == "whole numbers":
        components = random.integers(-1, 2, size=(n_components, n_features)).astype(float)
    X = random.normal(size=(n_samples, n_features)) * 10.0 ** draw(st.integers(-3, 3))
    if draw(st.booleans()):
        X[random.integers(n_samples)] = 0
    if draw(st.booleans()):
        X = np.rint(X)
    largest = np.abs(X @ unit_rows(components).T).max()
    alpha = (largest or 1.0) * draw(st.sampled_from([1e-6, 1e-3, 0.03, 0.2, 0.5, 0.9, 1.0, 2.0]))
    return X, components, alpha


@given(problems(), st.booleans())
def test_the_conditions_of_a_minimum_hold(problem, positive):
    X, components, alpha = problem
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        codes = codes_of(X, components, alpha, positive=positive)
    assert codes.shape == (len(X), len(components))
    # Rounding errors of the check itself, for penalties of a millionth.
    rounding = 1e-13 * (np.abs(X).max() + np.abs(codes).sum(axis=1, keepdims=True))
    assert np.all(violations(X, components, codes, alpha, positive) <= 1e-3 * alpha + rounding)
    if positive:
        assert codes.min() >= 0


@given(problems(), st.booleans())
def test_single_precision_is_as_exact(problem, positive):
    """But for the rounding of samples, products and codes to single precision."""
    X, components, alpha = problem
    X = X.astype(np.float32)
    codes = codes_of(X, components, alpha, positive=positive)
    assert codes.dtype == np.float32
    rounding = 3e-7 * (np.linalg.norm(X, axis=1) + np.abs(codes).sum(axis=1))[:, None]
    assert np.all(
        violations(X.astype(float), components, codes.astype(float), alpha, positive) <= 1e-3 * alpha + rounding
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("alpha", [0.9, 0.1, 0.01])
def test_many_atoms_with_the_same_violation(dtype, positive, alpha):
    """More than may join a working set at once, none of them ahead of the others."""
    codes = codes_of(np.ones((2, 300), dtype), np.eye(300), alpha, positive=positive)
    np.testing.assert_allclose(codes, 1 - alpha, rtol=1e-3)
    equal = np.tile([[0.6, 0.8]], (500, 1))
    codes = codes_of(equal[:1].astype(dtype), equal, alpha, positive=positive)
    np.testing.assert_allclose(codes.sum(), 1 - alpha, rtol=1e-3)


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e-30), (np.float32, 1e30), (np.float64, 1e-250)])
def test_units_do_not_matter(dtype, scale):
    random = np.random.default_rng(7)
    X, components = random.normal(size=(20, 10)), random.normal(size=(50, 10))
    codes = codes_of(X.astype(dtype), components, 0.3)
    scaled = codes_of((X * scale).astype(dtype), components, 0.3 * scale)
    np.testing.assert_allclose(scaled / dtype(scale), codes, atol=5e-3)


def test_what_is_too_small_for_any_precision_is_told():
    random = np.random.default_rng(8)
    with pytest.warns(ConvergenceWarning, match="some sparse codes are not exact to tol=0.001, because alpha=1e-17"):
        codes_of(random.normal(size=(3, 8)), random.normal(size=(40, 8)), 1e-17)


@given(problems(), st.sampled_from([0.3, 1e-2, 1e-3, 1e-6]))
@example((np.array([[-1.27, -0.62, 0.04]]), NEARLY_EQUAL, 7.9e-8), 1e-6)  # once far from the minimum
def test_the_stated_bound_on_the_objective(problem, tol):
    """By weak duality: the scaled residual is feasible in the dual problem, whose value is never above the minimum."""
    X, components, alpha = problem
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        codes = codes_of(X, components, alpha, tol=tol)
    if told:  # only where the tolerance is in the rounding errors of the codes, as with nearly equal components
        rounding = 1e-14 * np.abs(codes).sum(axis=1).max() / alpha
        assert tol < rounding
        tol = 10 * rounding  # and then they are as exact as double precision allows
    unit = unit_rows(components)
    residual = X - codes @ unit
    slope = np.abs(residual @ unit.T).max(axis=1)
    feasible = residual * np.minimum(1, alpha / np.maximum(slope, alpha))[:, None]
    dual = (feasible * X).sum(axis=1) - 0.5 * np.square(feasible).sum(axis=1)
    primal = objective(X, components, codes, alpha)
    assert np.all(primal - dual <= 2 * tol * primal + 1e-9 * np.square(X).sum(axis=1))


@pytest.mark.parametrize("positive", [False, True])
def test_the_same_minimum_as_scikit_learn(positive):
    random = np.random.default_rng(0)
    X, components = random.normal(size=(30, 20)), unit_rows(random.normal(size=(50, 20)))
    ours = codes_of(X, components, 0.5, tol=1e-8, positive=positive)
    theirs = sparse_encode(X, components, algorithm="lasso_cd", alpha=0.5, positive=positive, max_iter=20_000)
    np.testing.assert_allclose(objective(X, components, ours, 0.5), objective(X, components, theirs, 0.5), rtol=1e-5)
    assert np.all(objective(X, components, ours, 0.5) <= objective(X, components, theirs, 0.5) + 1e-9)
    assert 5 < (ours != 0).sum(axis=1).mean() < 20


def test_working_sets_grow_beyond_their_first_room():
    """More components in a code than the solver makes room for at first; far more candidates than may join at once."""
    random = np.random.default_rng(3)
    X, components = random.normal(size=(2, 400)), random.normal(size=(900, 400))
    codes = codes_of(X, components, 1e-3)
    assert (codes != 0).sum(axis=1).min() > 256
    assert violations(X, components, codes, 1e-3).max() <= 1e-6


def test_other_gram_matrices():
    """Here that of a quadratic penalty besides, as in predictive sparse decomposition."""
    random = np.random.default_rng(5)
    X, components = random.normal(size=(552, 8)), unit_rows(random.normal(size=(20, 8)))
    weight, wanted = 0.7, random.normal(size=(len(X), 20))
    gram, products = (
        (components @ components.T + weight * np.eye(20)) / (1 + weight),
        (X @ components.T + weight * wanted) / (1 + weight),
    )
    found = np.empty_like(products)
    LassoSolver(gram, 0.3 / (1 + weight), tol=1e-6).solve(products, found)

    def objective_of(s):
        return objective(X, components, s, 0.3) + 0.5 * weight * np.square(s - wanted).sum(axis=1)

    for _ in range(20):
        other = found + 1e-3 * random.normal(size=found.shape) * (random.uniform(size=found.shape) < 0.3)
        assert np.all(objective_of(found) <= objective_of(other) + 1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_do_not_depend_on_threads(dtype):
    """Samples of several blocks."""
    random = np.random.default_rng(2)
    X, components = random.normal(size=(1200, 10)).astype(dtype), random.normal(size=(30, 10))
    with threadpool_limits(1):
        codes = codes_of(X, components, 0.3)
    with threadpool_limits(3):
        np.testing.assert_array_equal(codes_of(X, components, 0.3), codes)
    np.testing.assert_allclose(codes_of(X[-1:], components, 0.3), codes[-1:], atol=2e-3)


def test_bad_settings_are_named():
    X = np.ones((2, 3))
    for name in ("alpha", "tol"):
        for value in (0, -1, np.inf, np.nan, "1"):
            with pytest.raises(ValueError, match=f"{name}=.* must be a number above 0"):
                LassoSolver(np.eye(3), **({"alpha": 1.0} | {name: value}))
    with pytest.raises(ValueError, match="alpha=1e-60 is out of the range of float32: scale the samples"):
        sparse_codes(X.astype(np.float32), np.eye(3), 1e-60)
    with pytest.raises(ValueError, match="must have norm 1 or 0"):
        sparse_codes(X, 2 * np.eye(3), 1.0)
    assert sparse_codes(X[:0], np.eye(3), 1.0).shape == (0, 3)
