"""Encoders against plain formulas, one sample at a time."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from refusals import result_or_reason
from scipy.special import expit
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from epls import (
    EPLS,
    NaturalEncoder,
    SoftThresholdEncoder,
    SparseAutoencoder,
    SparseRBM,
    TriangleEncoder,
)
from epls.encoders import ENCODERS
from epls.utils.threads import BLOCK_ROWS


@pytest.fixture(scope="module")
def samples():
    return np.random.default_rng(0).normal(1.0, 2.0, size=(400, 6))


@pytest.fixture(scope="module")
def model(samples):
    return EPLS(8, random_state=0, max_iter=5).fit(samples)


def natural_code(model, x, sign):
    standard = (x - model.mean_) / model.scale_
    return expit(sign * (model.components_ @ standard) + model.intercept_)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-6)])
def test_natural_is_the_learners_formula(model, samples, dtype, tolerance):
    codes = NaturalEncoder(model, split_sign=True).transform(samples.astype(dtype))
    assert codes.dtype == dtype
    for x, code in zip(samples[:20], codes, strict=False):
        expected = np.concatenate([natural_code(model, x, 1), natural_code(model, x, -1)])
        np.testing.assert_allclose(code, expected, atol=tolerance)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5])
@pytest.mark.parametrize("kind", [EPLS, SparseAutoencoder, SparseRBM])
def test_natural_is_transform_wherever_the_samples_are(kind, samples, offset):
    """In single precision, what was not centred first would have lost its digits at an offset of 1e5."""
    data = (samples + offset).astype(np.float32)
    model = kind(8, max_iter=5, random_state=0).fit(data)
    np.testing.assert_allclose(NaturalEncoder(model).transform(data), model.transform(data), rtol=0, atol=2e-6)
    split = NaturalEncoder(model, split_sign=True).transform(data)
    np.testing.assert_allclose(split[:, :8], model.transform(data), rtol=0, atol=2e-6)


def test_natural_of_any_learner(samples):
    """Signed codes lose their sign, or are split by it."""
    pca = PCA(3).fit(samples)
    signed = pca.transform(samples)
    np.testing.assert_allclose(NaturalEncoder(pca).transform(samples), np.abs(signed))
    split = NaturalEncoder(pca, split_sign=True).transform(samples)
    np.testing.assert_allclose(split, np.hstack([np.maximum(signed, 0), np.maximum(-signed, 0)]))


numbers = st.floats(-10, 10, width=32)


@given(arrays(np.float64, (7, 4), elements=numbers), arrays(np.float64, (5, 4), elements=numbers), st.floats(0, 5))
def test_soft_threshold(X, components, alpha):
    codes = SoftThresholdEncoder(components, alpha=alpha).transform(X)
    for x, code in zip(X, codes, strict=True):
        for k, base in enumerate(components):
            norm = np.linalg.norm(base)
            product = x @ base / norm if norm > 0 else 0.0
            np.testing.assert_allclose(code[k], max(0, product - alpha), atol=1e-9)
            np.testing.assert_allclose(code[5 + k], max(0, -product - alpha), atol=1e-9)
    one_sided = SoftThresholdEncoder(components, alpha=alpha, split_sign=False).transform(X)
    np.testing.assert_array_equal(one_sided, codes[:, :5])


@given(arrays(np.float64, (7, 4), elements=numbers), arrays(np.float64, (5, 4), elements=numbers), st.booleans())
def test_triangle(X, components, split_sign):
    codes = TriangleEncoder(components, split_sign=split_sign).transform(X)
    units = np.concatenate([components, -components]) if split_sign else components
    for x, code in zip(X, codes, strict=True):
        distance = np.array([np.linalg.norm(x - unit) for unit in units])
        # A distance of nearly 0 is the root of a difference of large numbers.
        np.testing.assert_allclose(code, np.maximum(0, distance.mean() - distance), atol=1e-5)


def test_triangle_takes_kmeans(samples):
    kmeans = KMeans(4, n_init=1, random_state=0).fit(samples)
    np.testing.assert_array_equal(
        TriangleEncoder(kmeans).transform(samples), TriangleEncoder(kmeans.cluster_centers_).transform(samples)
    )


@pytest.mark.parametrize("encoder", [NaturalEncoder(split_sign=True), SoftThresholdEncoder(), TriangleEncoder()])
def test_codes_do_not_depend_on_blocks_or_threads(encoder, model):
    X = np.random.default_rng(1).normal(size=(2 * BLOCK_ROWS + 3, 6)).astype(np.float32)
    encoder = clone(encoder).set_params(dictionary=model)
    codes = encoder.transform(X)
    with threadpool_limits(1):
        np.testing.assert_array_equal(encoder.transform(X), codes)
    # A product of one row takes another way through the BLAS than one of many.
    np.testing.assert_allclose(encoder.transform(X[-1:]), codes[-1:], atol=1e-5)


def test_in_a_pipeline_with_names(model, samples):
    pandas = pytest.importorskip("pandas")
    encoder = SoftThresholdEncoder(model)
    frame = make_pipeline(encoder).set_output(transform="pandas").fit_transform(samples)
    assert isinstance(frame, pandas.DataFrame)
    assert frame.columns[0] == "softthresholdencoder0"
    assert frame.shape == (400, 16)


def test_errors_tell_what_to_do(samples, model):
    with pytest.raises(ValueError, match="has no dictionary: give it a fitted learner"):
        SoftThresholdEncoder().fit()
    with pytest.raises(ValueError, match="EPLS without components_: fit it first"):
        TriangleEncoder(EPLS(3)).transform(samples)
    with pytest.raises(ValueError, match="needs a learner with transform, got ndarray"):
        NaturalEncoder(model.components_).transform(samples)
    with pytest.raises(ValueError, match=r"X has 5 features, but .* components of 6"):
        SoftThresholdEncoder(model).transform(samples[:, :5])
    with pytest.raises(ValueError, match="alpha=-1 must be a number of at least 0"):
        SoftThresholdEncoder(model, alpha=-1).transform(samples)
    with pytest.raises(ValueError, match="NaN"):
        TriangleEncoder(model).transform(np.full((2, 6), np.nan))
    with pytest.raises(ValueError, match="dictionary contains NaN"):
        SoftThresholdEncoder([[np.nan]]).fit()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("split_sign", [False, True])
@pytest.mark.parametrize("name", ENCODERS)
def test_codes_of_large_numbers_are_finite_or_refused(name, split_sign, dtype, model, samples):
    """From numbers whose squares are the largest that there are, to those whose sums are."""
    encoder = ENCODERS[name]().set_params(dictionary=model, split_sign=split_sign).fit()
    largest = np.finfo(dtype).max
    for bound in (np.sqrt(largest) / 100, np.sqrt(largest), largest**0.7, largest / 100):
        large = (samples / np.abs(samples).max() * bound).astype(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # penalties are too small for such samples
            warnings.filterwarnings("ignore", "overflow", RuntimeWarning, "sklearn")
            codes = result_or_reason(encoder.transform, large)
        if isinstance(codes, str):
            assert bound >= np.sqrt(largest)
            assert "not finite" in codes
        else:
            assert np.isfinite(codes).all()
    with pytest.raises(ValueError, match=r"up to 1\.8e\+19, but their squares and products .* below 3e\+38 in float32"):
        TriangleEncoder(model).transform(np.full((2, 6), 1.8e19, np.float32))


def test_large_codes_whose_sum_is_not_finite_are_none_the_less_right():
    samples = np.full((600, 2), 1e38, np.float32)
    codes = SoftThresholdEncoder(np.eye(2), split_sign=False).transform(samples)
    np.testing.assert_array_equal(codes, samples)
