"""Raw samples, random patches and k-means triangle."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.utils.estimator_checks import parametrize_with_checks

from epls import KMeansTriangle, RandomPatches, Raw, TriangleEncoder
from epls.callbacks import OnEpoch


@parametrize_with_checks([Raw(), RandomPatches(), KMeansTriangle()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def samples():
    return np.random.default_rng(0).normal(size=(200, 5))


def test_raw_codes_are_a_copy(samples):
    codes = Raw().fit_transform(samples)
    np.testing.assert_array_equal(codes, samples)
    assert not np.shares_memory(codes, samples)


def test_random_patches_are_different_samples_of_unit_norm(samples):
    model = RandomPatches(50, random_state=0).fit(samples)
    scaled = samples / np.linalg.norm(samples, axis=1, keepdims=True)
    places = [np.flatnonzero(np.isclose(scaled, base).all(axis=1)) for base in model.components_]
    assert all(len(place) == 1 for place in places)
    assert len({int(place[0]) for place in places}) == 50
    np.testing.assert_allclose(model.transform(samples), samples @ model.components_.T)
    other = RandomPatches(50, random_state=1).fit(samples).components_
    assert not np.array_equal(other, model.components_)


def test_kmeans_is_as_good_as_scikit_learns_and_codes_are_the_triangle_encoders(samples):
    model = KMeansTriangle(10, random_state=0).fit(samples)
    assert inertia(samples, model) <= 1.05 * KMeans(10, n_init=1, random_state=0).fit(samples).inertia_
    np.testing.assert_allclose(model.transform(samples), TriangleEncoder(model).transform(samples), atol=1e-5)


def test_kmeans_has_no_centre_for_a_single_outlier():
    """Of samples with heavy tails, centres that start at samples keep the outliers for themselves."""
    X = np.random.default_rng(0).standard_t(2, size=(3000, 20))
    model = KMeansTriangle(50, random_state=0).fit(X)
    nearest = np.linalg.norm(X[:, None] - model.components_[None], axis=2).argmin(axis=1)
    ours = np.sum(np.bincount(nearest, minlength=50) <= 2)
    theirs = np.bincount(KMeans(50, init="random", n_init=1, random_state=0).fit(X).labels_, minlength=50)
    assert ours < np.sum(theirs <= 2)


def inertia(X, model):
    return np.square(np.linalg.norm(X[:, None] - model.components_[None], axis=2).min(axis=1)).sum()


def test_progress_and_clear_errors(samples):
    told = []
    KMeansTriangle(3, random_state=0).set_callbacks(OnEpoch(lambda *n: told.append(n))).fit(samples)
    assert told == [(1, 1)]
    for learner in (RandomPatches, KMeansTriangle):
        with pytest.raises(ValueError, match="n_components=201 is more than n_samples=200"):
            learner(201).fit(samples)
        with pytest.raises(ValueError, match="minimum of 2 is required"):
            learner().fit(samples[:1])
