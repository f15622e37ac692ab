"""Whole samples of different weights, in groups of limited total weight."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import BalancedKMeans
from epls.balanced.weights import drawn, limited


def samples_and_weights(seed, n_samples, kind):
    random = np.random.RandomState(seed)
    weights = {
        "integers": lambda: random.randint(1, 11, n_samples),
        "heavy tail": lambda: random.pareto(1.0, n_samples) + 1e-3,
        "some zero": lambda: np.where(np.arange(n_samples) % 3 == 1, 0, random.uniform(size=n_samples)),
        "one heavy": lambda: np.where(np.arange(n_samples) == 0, n_samples, 1.0),
        "equal": lambda: np.full(n_samples, 1e-8),
    }[kind]()
    return random.normal(size=(n_samples, 2)).round(seed % 3), weights.astype(float)


KINDS = st.sampled_from(["integers", "heavy tail", "some zero", "one heavy", "equal"])


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(0, 80), KINDS, st.sampled_from(["equal", "max", "both"]))
def test_totals_are_within_the_largest_weight_of_their_limits(seed, n_clusters, n_more, kind, limited):
    X, weights = samples_and_weights(seed, 2 * n_clusters + n_more, kind)
    share = weights.sum() / n_clusters
    limits = {
        "equal": {},
        "max": {"size_max": 1.1 * share},
        "both": {"size_min": np.linspace(0.2, 1, n_clusters) * share, "size_max": 2 * share},
    }[limited]
    model = BalancedKMeans(n_clusters, random_state=seed, **limits).fit(X, sample_weight=weights)
    low, high = limits.get("size_min", 0 if limits else share), limits.get("size_max", share)
    for labels in (model.labels_, model.predict(X[::-1], balanced=True, sample_weight=weights[::-1])[::-1]):
        totals = np.bincount(labels, weights, n_clusters)
        assert (totals <= high + weights.max() * (1 + 1e-6)).all()
        assert (totals >= low - weights.max() * (1 + 1e-6)).all()
    np.testing.assert_allclose(model.counts_, np.bincount(model.labels_, weights, n_clusters))
    distances = np.square(X - model.cluster_centers_[model.labels_]).sum(axis=1)
    assert model.inertia_ == pytest.approx(distances @ weights, rel=1e-6, abs=1e-12)


@given(st.integers(0, 1000), st.integers(2, 4), st.integers(0, 6), st.integers(2, 12))
def test_no_assignment_with_exact_totals_costs_less(seed, n_clusters, n_more, largest):
    """The oracle is an integer program over all assignments. The gap that is allowed is its tolerance."""
    random = np.random.RandomState(seed)
    n_samples = 2 * n_clusters + n_more
    X, weights = random.normal(size=(n_samples, 2)), random.randint(1, largest + 1, n_samples).astype(float)
    totals = np.bincount(np.arange(n_samples) % n_clusters, weights)  # so that there is such an assignment
    model = BalancedKMeans(n_clusters, sizes=totals, random_state=seed).fit(X, sample_weight=weights)
    cost = weights[:, None] * np.square(X[:, None] - model.cluster_centers_).sum(axis=2)
    once = LinearConstraint(np.kron(np.eye(n_samples), np.ones(n_clusters)), 1, 1)
    exact = LinearConstraint(np.kron(weights, np.eye(n_clusters)), totals, totals)
    best = milp(cost.ravel(), integrality=np.ones(cost.size), bounds=Bounds(0, 1), constraints=[once, exact]).fun
    labels = model.predict(X, balanced=True, sample_weight=weights)
    assert cost[np.arange(n_samples), labels].sum() <= best + 1e-4 * cost.max()


@pytest.mark.parametrize("settings", [{}, {"size_min": 20, "size_max": 60}, {"metric": "cosine"}], ids=str)
def test_weights_of_one_change_nothing(settings):
    X = np.random.RandomState(0).normal(size=(300, 3))
    model = BalancedKMeans(7, random_state=0, **settings)
    np.testing.assert_array_equal(model.fit_predict(X, sample_weight=np.ones(300)), model.fit_predict(X))


def test_weights_like_repeated_samples_without_dividing_them():
    random = np.random.RandomState(1)
    X = random.normal(size=(2000, 3)) + 4 * random.randint(0, 3, size=(2000, 1))
    weights = random.randint(1, 6, 2000)
    ours = BalancedKMeans(10, random_state=0).fit(X, sample_weight=weights)
    repeated = BalancedKMeans(10, random_state=0).fit(X.repeat(weights, axis=0))
    assert np.abs(ours.counts_ - weights.sum() / 10).max() <= 5
    assert ours.inertia_ < 1.05 * repeated.inertia_


def test_the_unit_of_weights_and_sparse_samples_do_not_matter():
    X, weights = samples_and_weights(4, 400, "heavy tail")
    model = BalancedKMeans(9, random_state=0)
    labels = model.fit_predict(X, sample_weight=weights)
    np.testing.assert_array_equal(model.fit_predict(X, sample_weight=2.0**-40 * weights), labels)
    totals = np.bincount(model.fit_predict(sparse.csr_array(X), sample_weight=weights), weights, 9)
    assert np.abs(totals - weights.sum() / 9).max() <= weights.max()


def test_many_equal_samples():
    """Groups that are equally near to all samples, more than a sample considers, have samples to exchange."""
    weights = np.random.RandomState(0).uniform(size=3000)
    model = BalancedKMeans(30, random_state=0).fit(np.ones((3000, 2)), sample_weight=weights)
    assert np.abs(model.counts_ - weights.sum() / 30).max() <= 1
    assert model.inertia_ == 0


def test_a_sample_heavier_than_groups_does_not_attract_their_centres():
    X, weights = samples_and_weights(3, 500, "equal")
    weights[0] = 1.0
    model = BalancedKMeans(8, random_state=0).fit(X, sample_weight=weights)
    assert model.inertia_ < 0.5 * weights @ np.square(X - X[0]).sum(axis=1)  # what it is if all centres are there


@given(st.integers(0, 100), st.integers(2, 50), st.integers(1, 10), KINDS)
def test_limited_weights(seed, n_samples, n_groups, kind):
    weights = np.maximum(samples_and_weights(seed, n_samples, kind)[1], 1e-9)
    some = limited(weights, 1 / min(n_groups, n_samples))
    heaviest = some == some.max()
    assert some.max() * min(n_groups, n_samples) <= 1.01 * some.sum()
    np.testing.assert_array_equal(some[~heaviest], weights[~heaviest])
    assert (some <= weights).all()


def test_in_a_pipeline_and_a_frame():
    X, weights = samples_and_weights(2, 90, "integers")
    model = make_pipeline(StandardScaler(), BalancedKMeans(5, random_state=0))
    labels = model.fit_predict(X, balancedkmeans__sample_weight=weights.tolist())
    assert np.abs(np.bincount(labels, weights) - weights.sum() / 5).max() <= 10


@pytest.mark.parametrize(
    ("settings", "weights", "message"),
    [
        ({}, np.ones(29), r"sample_weight has shape \(29,\), but must have shape \(30,\)"),
        ({}, -np.ones(30), "0 values above zero and 30 below: give none below zero, and at least n_clusters=3 above"),
        ({}, np.eye(1, 30)[0], "1 values above zero"),
        ({}, np.full(30, np.nan), "NaN"),
        (
            {},
            np.full(30, 1e308),
            r"values of up to 1e\+308, but the largest must be from 1e-250 to 1e\+250: multiply or",
        ),
        ({}, np.full(30, 5e-324), "values of up to 4.9.*e-324, but the largest must be from 1e-250"),
        ({"size_max": 1.5}, np.full(30, 0.5), "room for 4.5 units of weight in 3 groups, but there are 15: give a"),
        ({"size_min": 6}, np.full(30, 0.5), "asks for 18 units of weight in 3 groups.* a size_min of 5 at most"),
        ({"sizes": [5, 5, 6]}, np.full(30, 0.5), "whose sum is 15, the number of units of weight, but has 3 whose sum"),
        ({"size_min": [1, -1, 1]}, np.full(30, 0.5), "size_min has the value -1.0, but must be 0 or more"),
        ({"size_min": [1, 1]}, np.full(30, 0.5), r"size_min has shape \(2,\), but must be one number or 3"),
        ({"size_min": 2.5}, np.ones(30), "must be integers"),
    ],
)
def test_what_is_refused(settings, weights, message):
    X = np.random.RandomState(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match=message):
        BalancedKMeans(3, **settings).fit(X, sample_weight=weights)


@pytest.mark.parametrize("ratio", [1e9, 10**9.5, 1e30, 1e200])
def test_one_weight_far_above_the_others(ratio):
    """The linear program takes the others for 0, so that it cannot meet limits exactly."""
    X, weights = np.random.RandomState(0).normal(size=(1000, 2)), np.r_[ratio, np.ones(999)]
    model = BalancedKMeans(5, random_state=0).fit(X, sample_weight=weights)
    assert np.bincount(model.labels_, weights, 5).max() <= ratio + 999
    assert np.isfinite(model.cluster_centers_).all()


def test_weights_count_only_in_sizes():
    X = np.random.RandomState(0).normal(size=(30, 2))
    model = BalancedKMeans(3, random_state=0).fit(X)
    with pytest.raises(ValueError, match="give balanced=True"):
        model.predict(X, sample_weight=np.ones(30))


@given(st.integers(0, 100), st.integers(1, 50), st.integers(1, 200), KINDS)
def test_samples_are_drawn_in_proportion(seed, n_samples, n_draws, kind):
    _, weights = samples_and_weights(seed, n_samples, kind)
    times = np.bincount(drawn(weights, n_draws), minlength=n_samples)
    assert times.sum() == n_draws
    assert (np.abs(times - n_draws * weights / weights.sum()) < 1 + 1e-9).all()
    once = np.bincount(drawn(weights, n_draws, at_least=1), minlength=n_samples)
    np.testing.assert_array_equal(once, np.where(weights > 0, np.maximum(times, 1), 0))
