"""Prototypes: means of the samples that each unit wins, and the triangle code."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from epls import EPLS, Prototypes, TriangleEncoder
from epls.data.blocks import array_blocks


@parametrize_with_checks([Prototypes(max_iter=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


def test_every_prototype_is_the_mean_of_equally_many_samples(digits):
    X = digits[0][:1000]
    model = Prototypes(50, random_state=0).fit(X)
    assert_allclose(model.components_.mean(axis=0), X.mean(axis=0))  # 20 samples each
    spread = np.square(cdist(X, model.components_).min(axis=1)).sum()
    assert spread <= 1.15 * KMeans(50, n_init=1, random_state=0).fit(X).inertia_


def test_sorted_samples_are_shared_as_well_as_shuffled_ones():
    """Winners of a stretch of equal samples would be all units, and all means the same."""
    X = np.repeat(np.eye(4), 20_000, axis=0)
    means = Prototypes(4, random_state=0).fit(X).components_
    assert_allclose(means[np.argsort(means.argmax(axis=1))], np.eye(4), atol=0.02)


def test_codes_are_how_much_nearer_than_average_each_prototype_is(digits):
    X = digits[0][:300]
    model = Prototypes(20, random_state=0).fit(X)
    distances = cdist(X, model.components_)
    expected = np.maximum(distances.mean(axis=1, keepdims=True) - distances, 0)
    assert_allclose(model.transform(X), expected, atol=1e-9)
    assert list(model.get_feature_names_out()[:2]) == ["prototypes0", "prototypes1"]
    frame = model.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == list(model.get_feature_names_out())


@pytest.mark.parametrize("as_data", [np.asarray, array_blocks], ids=["array", "blocks"])
def test_prototype_indices_are_the_nearest_samples(digits, as_data):
    X = np.tile(digits[0].astype(np.float32), (12, 1))  # several blocks
    model = Prototypes(30, max_iter=1, random_state=0).fit(as_data(X))
    distances = cdist(X, model.components_)
    assert_allclose(distances[model.prototype_indices_, np.arange(30)], distances.min(axis=0), rtol=1e-5)


@pytest.mark.parametrize(("n_samples", "n_expected"), [(7, 7), (60, 10), (1000, 100), (5000, 400)])
def test_default_number_is_a_tenth_of_the_samples(n_samples, n_expected):
    X = np.random.default_rng(0).normal(size=(n_samples, 3))
    assert Prototypes(max_iter=1).fit(X).components_.shape == (n_expected, 3)


def test_few_labels_go_further_than_with_pixels_or_the_code_of_epls(digits):
    X, y = digits
    few = np.concatenate([np.flatnonzero(y == label)[:5] for label in range(10)])
    rest = np.setdiff1d(np.arange(len(y)), few)

    def accuracy(features):
        scaled = StandardScaler().fit_transform(features)
        return RidgeClassifier(scaled.shape[1]).fit(scaled[few], y[few]).score(scaled[rest], y[rest])

    found = accuracy(Prototypes(100, random_state=0).fit_transform(X))
    assert found > accuracy(X) + 0.02
    assert found > accuracy(EPLS(100, random_state=0, max_iter=30).fit_transform(X))


def test_in_a_pipeline_and_the_same_bits_twice(digits):
    X, y = digits
    pipeline = make_pipeline(StandardScaler(), Prototypes(random_state=0), RidgeClassifier(100))
    first, again = (pipeline.fit(X[:900], y[:900]).decision_function(X[900:]) for _ in range(2))
    assert_array_equal(first, again)


def test_dictionary_of_other_encoders(digits):
    model = Prototypes(12, max_iter=2, random_state=0).fit(digits[0][:200])
    assert_array_equal(TriangleEncoder(model).transform(digits[0]), model.transform(digits[0]))
