"""Directions: limits on the wins, the update of OMP-1 where they do not bind, and samples that compete with energy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from epls import Directions
from epls.learners.directions import _drawn_by_energy, limited_winners


@pytest.fixture(scope="module")
def white():
    return PCA(20, whiten=True, svd_solver="full").fit_transform(load_digits().data)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@given(st.integers(1, 60), st.integers(1, 8), st.floats(1, 6), st.booleans(), st.integers(0, 99))
def test_no_unit_wins_more_than_its_limit(n_rows, n_units, limit, ties, seed):
    values = np.random.RandomState(seed).uniform(size=(n_rows, n_units))
    winners = limited_winners(np.round(values, 1) if ties else values, limit)
    assert np.bincount(winners).max() <= np.ceil(limit * n_rows / n_units)


def test_winners_are_nearly_the_best_within_the_limit():
    """Against the Hungarian method, with a slot for each place."""
    values = np.random.RandomState(0).normal(size=(400, 10)) ** 2 * np.linspace(1, 3, 10)
    winners = limited_winners(values, 1.5)
    assert np.bincount(values.argmax(axis=1)).max() > 60
    rows, slots = linear_sum_assignment(values[:, np.repeat(np.arange(10), 60)], maximize=True)
    best = values[rows, slots // 60].sum()
    assert 0.995 * best < values[np.arange(400), winners].sum() <= best + 1e-9


def test_where_the_limit_does_not_bind_a_round_is_one_of_omp_1(white):
    X = unit(white)  # of equal energy: each is drawn once
    settings = {"limit": 20, "tol": 0, "random_state": 0}
    before, after = (Directions(20, max_iter=n, **settings).fit(X) for n in (3, 4))
    expected, error = np.zeros_like(before.components_), 0.0
    for x in X:
        products = [d @ x for d in before.components_]
        winner = int(np.argmax(np.abs(products)))
        expected[winner] += products[winner] * x
        error += 1 - products[winner] ** 2
    np.testing.assert_allclose(after.components_, unit(expected), atol=1e-9)
    assert after.loss_curve_[-1] == pytest.approx(error / len(X))


def test_a_line_with_most_of_the_samples_has_several_directions():
    random = np.random.RandomState(0)
    axis = np.where(random.uniform(size=4000) < 0.9, 0, random.randint(8, size=4000))
    X = np.eye(8)[axis] * random.choice([-1, 1], 4000)[:, None] + 0.02 * random.normal(size=(4000, 8))
    model = Directions(16, limit=3, random_state=0).fit(X)
    assert np.sum(np.abs(model.components_[:, 0]) > 0.99) >= 0.9 * 16 / 3
    assert model.n_unused_ == 0


def test_the_sign_and_the_unit_of_samples_do_not_matter(white):
    signs = np.random.RandomState(1).choice([-1.0, 1.0], len(white))[:, None]
    plain, mirrored = (Directions(20, random_state=0).fit(X).components_ for X in (white, white * signs))
    np.testing.assert_allclose(np.abs(np.sum(plain * mirrored, axis=1)), 1)
    for unit_of_measure in (1e-150, 1e150):
        other = Directions(20, random_state=0).fit(white * unit_of_measure).components_
        np.testing.assert_allclose(other, plain, atol=1e-9)


def test_samples_are_drawn_in_proportion_to_their_energy():
    norms = np.r_[0, 3, np.ones(41)]  # energies 0, 9 and 41 of 50, for 43 draws
    X = np.eye(43) * norms[:, None]
    counts = (_drawn_by_energy(X, np.random.RandomState(0)) != 0).sum(axis=0)
    np.testing.assert_allclose(counts, 43 * norms**2 / 50, atol=1)
    assert counts[0] == 0
    nothing = np.zeros((5, 2))
    np.testing.assert_array_equal(_drawn_by_energy(nothing, np.random.RandomState(0)), nothing)


def test_fewer_rows_than_units_and_equal_samples():
    model = Directions(4, random_state=0).fit(np.ones((5, 3)))
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    assert np.isfinite(model.loss_curve_).all()
