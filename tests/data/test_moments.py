import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epls.data.moments import Moments, center_and_scale, moments_of, second_moments


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(1, 6), st.integers(0, 99))
def test_pieces_give_what_numpy_gives_for_the_whole(sizes, n_features, seed):
    X = np.random.RandomState(seed).normal(1e3, 5, size=(sum(sizes), n_features))
    cuts = np.cumsum([0, *sizes])
    moments = moments_of(X[a:b] for a, b in itertools.pairwise(cuts))
    center, scale = moments.center_and_scale()
    assert moments.n_samples == len(X)
    np.testing.assert_allclose(center, X.mean(axis=0))
    expected = np.sqrt(X.var(axis=0).mean())
    np.testing.assert_allclose(scale, expected if len(X) > 1 else 1.0)


def test_more_rows_than_a_block():
    X = np.random.RandomState(0).normal(size=(3, 1_500_000)).astype(np.float32).T
    center, scale = center_and_scale(X)
    np.testing.assert_allclose(center, X.mean(axis=0, dtype=np.float64))
    np.testing.assert_allclose(scale, np.sqrt(X.var(axis=0, dtype=np.float64).mean()))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-300, 12345.678])
def test_constant_data_have_scale_1(value):
    assert center_and_scale(np.full((1000, 3), value))[1] == 1.0


def test_data_that_overflow_are_refused():
    with pytest.raises(ValueError, match="too large"):
        center_and_scale(np.array([[1e200], [-1e200]]))


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from([0.0, 1e3]),
    st.integers(0, 99),
)
def test_moments_of_shards_merge_to_those_of_all(sizes, n_features, offset, seed):
    X = np.random.RandomState(seed).normal(offset, 5, size=(sum(sizes), n_features))
    merged = Moments()
    for shard in np.split(X, np.cumsum(sizes)[:-1]):
        moments = Moments()
        moments.add(shard)
        merged.merge(moments)
    assert merged.n_samples == len(X)
    if len(X) > 1:
        center, scale = merged.center_and_scale()
        np.testing.assert_allclose(center, X.mean(axis=0), atol=1e-9)
        np.testing.assert_allclose(scale, np.sqrt(X.var(axis=0).mean()))


def test_shards_that_are_constant_but_differ():
    merged = Moments()
    for value in (1.0, 3.0):
        moments = Moments()
        moments.add(np.full((4, 2), value))
        merged.merge(moments)
    assert merged.center_and_scale()[0].tolist() == [2.0, 2.0]
    assert merged.center_and_scale()[1] == 1.0


@pytest.mark.parametrize("n_samples", [1, 100, 5000])
def test_second_moments_are_numpys_covariance(n_samples):
    X = np.random.RandomState(0).normal(1e3, 2, size=(n_samples, 4)).astype(np.float32)
    mean = X.mean(axis=0, dtype=np.float64)
    wide = X.astype(np.float64)
    np.testing.assert_allclose(second_moments(X), wide.T @ wide, rtol=1e-12)
    if n_samples > 1:
        expected = np.cov(wide.T, bias=True) / 9
        np.testing.assert_allclose(second_moments(X, mean, 3.0) / n_samples, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("value", "what"), [(1e200, "too large"), (1e-200, "too small")])
def test_second_moments_beyond_double_precision_are_refused(value, what):
    with pytest.raises(ValueError, match=what):
        second_moments(np.array([[value], [-value]]))
