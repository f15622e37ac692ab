"""Directions: equally many wins, components along the samples won, and samples that compete with energy."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from epls import Directions
from epls.algorithm.target import ExactTarget
from epls.learners.directions import _drawn_by_energy


@pytest.fixture(scope="module")
def white():
    return PCA(20, whiten=True, svd_solver="full").fit_transform(load_digits().data)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_round_gives_each_direction_an_equal_number_of_samples_and_their_weighted_sum(white, monkeypatch):
    """With the exact target in place of the auction, against scipy's assignment with a slot for each win."""
    monkeypatch.setattr("epls.learners.directions.AuctionTarget", ExactTarget)
    X = unit(white[:120])  # of equal energy: each is drawn once; all are in one mini-batch
    settings = {"tol": 0, "random_state": 0}
    before, after = (Directions(6, max_iter=n, **settings).fit(X) for n in (3, 4))
    products = X @ before.components_.T
    _, slots = linear_sum_assignment(np.abs(products)[:, np.repeat(np.arange(6), 20)], maximize=True)
    winners = slots // 20
    assert np.any(winners != np.abs(products).argmax(axis=1))
    expected = np.zeros_like(before.components_)
    for n, winner in enumerate(winners):
        expected[winner] += products[n, winner] * X[n]
    np.testing.assert_allclose(after.components_, unit(expected), atol=1e-9)
    error = 1 - np.square(products[np.arange(120), winners]).mean()
    assert after.loss_curve_[-1] == pytest.approx(error)


def test_a_line_with_most_of_the_samples_has_as_many_of_the_directions():
    random = np.random.RandomState(0)
    axis = np.where(random.uniform(size=4000) < 0.9, 0, random.randint(8, size=4000))
    X = np.eye(8)[axis] * random.choice([-1, 1], 4000)[:, None] + 0.02 * random.normal(size=(4000, 8))
    model = Directions(16, random_state=0).fit(X)
    assert 13 <= np.sum(np.abs(model.components_[:, 0]) > 0.99) <= 15


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


def test_equal_samples_and_as_many_directions_as_samples():
    model = Directions(4, random_state=0).fit(np.ones((5, 3)))
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    assert np.isfinite(model.loss_curve_).all()
    X = np.random.RandomState(0).normal(size=(6, 40))
    assert Directions(6, random_state=0).fit(unit(X)).loss_curve_[-1] == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match="n_components=7"):
        Directions(7).fit(X)
