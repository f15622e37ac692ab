"""What the encoder makes of the solver's codes; tests/solvers/test_lasso.py tests these."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from epls import EPLS, ImageFeatures, SparseCodingEncoder, load_model, save_model
from epls.data.blocks import array_blocks, joined
from epls.solvers.lasso import sparse_codes
from epls.utils.threads import BLOCK_ROWS


def unit_rows(components):
    norms = np.linalg.norm(components, axis=1, keepdims=True)
    return components / np.where(norms > 0, norms, 1)


def test_known_codes():
    # One component: the product, less the penalty.
    np.testing.assert_allclose(SparseCodingEncoder([[3.0, 4.0]], 0.5).transform([[5.0, 10.0]]), [[10.5, 0]])
    # Orthogonal components: the soft threshold.
    X = np.random.default_rng(0).normal(size=(5, 4))
    codes = SparseCodingEncoder(np.eye(4), 0.3, split_sign=False, tol=1e-9).transform(X)
    np.testing.assert_allclose(codes, np.sign(X) * np.maximum(np.abs(X) - 0.3, 0), atol=1e-9)
    # A component of zeros explains nothing, a penalty above every product explains nothing.
    assert not SparseCodingEncoder([[0.0, 0.0], [1.0, 0.0]], 5.0).transform([[4.0, 4.0]]).any()


def test_split_codes_and_sparse_output():
    random = np.random.default_rng(1)
    X, components = random.normal(size=(2 * BLOCK_ROWS + 5, 8)), random.normal(size=(12, 8))
    encoder = SparseCodingEncoder(components, 0.4)
    signed = clone(encoder).set_params(split_sign=False).transform(X)
    split = encoder.transform(X)
    np.testing.assert_array_equal(split, np.hstack([np.maximum(signed, 0), np.maximum(-signed, 0)]))
    stored = clone(encoder).set_params(sparse_output=True).transform(X)
    assert isinstance(stored, sparse.csr_array)
    assert stored.nnz == np.count_nonzero(split)
    np.testing.assert_array_equal(stored.toarray(), split)
    assert list(encoder.fit(X).get_feature_names_out()[[0, -1]]) == ["sparsecodingencoder0", "sparsecodingencoder23"]
    # Codes that are never negative have no negative part.
    assert SparseCodingEncoder(components, 0.4, positive=True).transform(X).shape == (len(X), 12)


def test_codes_do_not_depend_on_blocks_or_threads():
    random = np.random.default_rng(2)
    X, components = random.normal(size=(2 * BLOCK_ROWS + 3, 10)).astype(np.float32), random.normal(size=(30, 10))
    encoder = SparseCodingEncoder(components, 0.3)
    with threadpool_limits(1):
        codes = encoder.transform(X)
    with threadpool_limits(3):
        np.testing.assert_array_equal(encoder.transform(X), codes)
    np.testing.assert_allclose(encoder.transform(X[-1:]), codes[-1:], atol=2e-3)


def test_as_the_encoder_of_images(tmp_path):
    """Pooled codes of an image are the sums of the codes of its patches; and the model is saved with its encoder."""
    images = np.random.default_rng(4).integers(256, size=(6, 9, 9), dtype=np.uint8)
    encoder = SparseCodingEncoder(alpha=0.3)
    features = ImageFeatures(
        EPLS(7, max_iter=2), patch_size=5, n_patches=300, encoder=encoder, grid=1, pooling="sum", random_state=0
    ).fit(images)
    patches = np.array([image[r : r + 5, c : c + 5].ravel() for image in images for r in range(5) for c in range(5)])
    centered = patches - patches.mean(axis=1, keepdims=True)
    normalised = centered / np.sqrt(patches.var(axis=1, keepdims=True) + 10)
    codes = SparseCodingEncoder(features.estimator_, 0.3).transform(normalised)
    np.testing.assert_allclose(features.transform(images), codes.reshape(6, 25, 14).sum(axis=1), atol=0.02)
    save_model(features, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").transform(images), features.transform(images))


def test_codes_are_those_of_the_solver():
    random = np.random.default_rng(5)
    X, components = random.normal(size=(BLOCK_ROWS + 40, 8)), unit_rows(random.normal(size=(20, 8)))
    codes = sparse_codes(X, components, 0.3, tol=1e-9)
    expected = SparseCodingEncoder(components, 0.3, split_sign=False, tol=1e-9).transform(X)
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-7)


def test_bad_settings_are_named():
    X = np.ones((2, 3))
    for name in ("alpha", "tol"):
        for value in (0, -1, np.inf, np.nan):
            with pytest.raises(ValueError, match=f"{name}=.* must be a number above 0"):
                SparseCodingEncoder(np.eye(3), **{name: value}).transform(X)
    with pytest.raises(ValueError, match="alpha=1 must be a number above 0"):
        SparseCodingEncoder(np.eye(3), "1").transform(X)
    with pytest.raises(ValueError, match="alpha=1e-60 is out of the range of float32: scale the samples"):
        SparseCodingEncoder(np.eye(3), 1e-60).transform(X.astype(np.float32))
    with pytest.raises(ValueError, match="NaN"):
        SparseCodingEncoder(np.eye(3)).transform(X * np.nan)
    with pytest.raises(ValueError, match="X has 3 features, but"):
        SparseCodingEncoder(np.eye(4)).transform(X)


def test_sparse_output_of_data_in_parts():
    random = np.random.RandomState(0)
    X, components = random.normal(size=(700, 6)), random.normal(size=(9, 6))
    encoder = SparseCodingEncoder(components, 0.3, sparse_output=True)
    expected = SparseCodingEncoder(components, 0.3).transform(X)
    blocks = joined([array_blocks(X[:300]), array_blocks(X[300:])])
    for found in (encoder.transform(blocks), sparse.vstack(list(encoder.iter_transform(blocks)))):
        assert sparse.issparse(found)
        np.testing.assert_allclose(found.toarray(), expected, atol=1e-12)
    with pytest.raises(TypeError, match="dask"):
        encoder.transform(da.from_array(X))
