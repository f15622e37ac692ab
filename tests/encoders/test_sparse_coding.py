"""Sparse codes against the conditions of a minimum, the duality gap and scikit-learn's lasso."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import sparse_encode
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from epls import EPLS, ImageFeatures, SparseCodingEncoder, load_model, save_model
from epls.encoders.base import BLOCK_ROWS
from epls.kernels.intrinsics import tag_of, tagged
from epls.solvers.lasso import LassoSolver, sparse_codes

KINDS = [
    "normal",
    "duplicate atoms",
    "one atom",
    "mirrored atoms",
    "nearly equal atoms",
    "few directions",
    "whole numbers",
]


def unit_rows(bases):
    norms = np.linalg.norm(bases, axis=1, keepdims=True)
    return bases / np.where(norms > 0, norms, 1)


def violations(X, bases, codes, alpha, positive=False):
    """How far the slope of each atom is from where it must be, by the definition; in float64."""
    bases = unit_rows(np.asarray(bases, np.float64))
    slopes = (X - codes @ bases) @ bases.T
    beyond = np.maximum(slopes - alpha, 0 if positive else np.maximum(-slopes - alpha, 0))
    return np.where(codes != 0, np.abs(slopes - alpha * np.sign(codes)), beyond)


def objective(X, bases, codes, alpha):
    residual = X - codes @ unit_rows(np.asarray(bases, np.float64))
    return 0.5 * np.square(residual).sum(axis=1) + alpha * np.abs(codes).sum(axis=1)


@st.composite
def problems(draw):
    """Samples and bases of many kinds, and penalties from a millionth of the largest that matters to above it."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_samples, n_features = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    n_bases = draw(st.integers(1, 40) | st.integers(60, 300))
    kind = draw(st.sampled_from(KINDS))
    bases = random.normal(size=(n_bases, n_features))
    if kind == "duplicate atoms":
        bases = bases[random.integers(max(1, n_bases // 3), size=n_bases)]
    elif kind == "one atom":
        bases[:] = bases[0]
    elif kind == "mirrored atoms":
        bases[n_bases // 2 :] = -bases[: n_bases - n_bases // 2]
    elif kind == "nearly equal atoms":
        bases = bases[:1] + 1e-3 * bases
    elif kind == "few directions":
        bases = random.normal(size=(n_bases, 2)) @ random.normal(size=(2, n_features))
    elif kind == "whole numbers":
        bases = random.integers(-1, 2, size=(n_bases, n_features)).astype(float)
    X = random.normal(size=(n_samples, n_features)) * 10.0 ** draw(st.integers(-3, 3))
    if draw(st.booleans()):
        X[random.integers(n_samples)] = 0
    if draw(st.booleans()):
        X = np.rint(X)
    largest = np.abs(X @ unit_rows(bases).T).max()
    alpha = (largest or 1.0) * draw(st.sampled_from([1e-6, 1e-3, 0.03, 0.2, 0.5, 0.9, 1.0, 2.0]))
    return X, bases, alpha


@settings(deadline=None, max_examples=300)
@given(problems(), st.booleans())
def test_the_conditions_of_a_minimum_hold(problem, positive):
    X, bases, alpha = problem
    encoder = SparseCodingEncoder(bases, alpha, split_sign=False, positive=positive)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        codes = encoder.transform(X)
    assert codes.shape == (len(X), len(bases))
    # Rounding errors of the check itself, for penalties of a millionth.
    rounding = 1e-13 * (np.abs(X).max() + np.abs(codes).sum(axis=1, keepdims=True))
    assert np.all(violations(X, bases, codes, alpha, positive) <= 1e-3 * alpha + rounding)
    if positive:
        assert codes.min() >= 0


@settings(deadline=None, max_examples=150)
@given(problems(), st.booleans())
def test_single_precision_is_as_exact(problem, positive):
    """But for the rounding of samples, products and codes to single precision."""
    X, bases, alpha = problem
    X = X.astype(np.float32)
    codes = SparseCodingEncoder(bases, alpha, split_sign=False, positive=positive).transform(X)
    assert codes.dtype == np.float32
    rounding = 3e-7 * (np.linalg.norm(X, axis=1) + np.abs(codes).sum(axis=1))[:, None]
    assert np.all(violations(X.astype(float), bases, codes.astype(float), alpha, positive) <= 1e-3 * alpha + rounding)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("alpha", [0.9, 0.1, 0.01])
def test_many_atoms_with_the_same_violation(dtype, positive, alpha):
    """More than may join a working set at once, none of them ahead of the others."""
    encoder = SparseCodingEncoder(np.eye(300), alpha, split_sign=False, positive=positive)
    np.testing.assert_allclose(encoder.transform(np.ones((2, 300), dtype)), 1 - alpha, rtol=1e-3)
    equal = np.tile([[0.6, 0.8]], (500, 1))
    codes = SparseCodingEncoder(equal, alpha, split_sign=False, positive=positive).transform(equal[:1].astype(dtype))
    np.testing.assert_allclose(codes.sum(), 1 - alpha, rtol=1e-3)


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e-30), (np.float32, 1e30), (np.float64, 1e-250)])
def test_units_do_not_matter(dtype, scale):
    random = np.random.default_rng(7)
    X, bases = random.normal(size=(20, 10)), random.normal(size=(50, 10))
    codes = SparseCodingEncoder(bases, 0.3).transform(X.astype(dtype))
    scaled = SparseCodingEncoder(bases, 0.3 * scale).transform((X * scale).astype(dtype))
    np.testing.assert_allclose(scaled / dtype(scale), codes, atol=5e-3)


def test_what_is_too_small_for_any_precision_is_told():
    random = np.random.default_rng(8)
    with pytest.warns(ConvergenceWarning, match="some sparse codes are not exact to tol=0.001, as alpha=1e-17"):
        SparseCodingEncoder(random.normal(size=(40, 8)), 1e-17).transform(random.normal(size=(3, 8)))


@settings(deadline=None, max_examples=100)
@given(problems(), st.sampled_from([0.3, 1e-2, 1e-3, 1e-6]))
def test_the_stated_bound_on_the_objective(problem, tol):
    """By weak duality: the scaled residual is feasible in the dual problem, whose value is never above the minimum."""
    X, bases, alpha = problem
    codes = SparseCodingEncoder(bases, alpha, split_sign=False, tol=tol).transform(X)
    unit = unit_rows(bases)
    residual = X - codes @ unit
    slope = np.abs(residual @ unit.T).max(axis=1)
    feasible = residual * np.minimum(1, alpha / np.maximum(slope, alpha))[:, None]
    dual = (feasible * X).sum(axis=1) - 0.5 * np.square(feasible).sum(axis=1)
    primal = objective(X, bases, codes, alpha)
    assert np.all(primal - dual <= 2 * tol * primal + 1e-9 * np.square(X).sum(axis=1))


@pytest.mark.parametrize("positive", [False, True])
def test_the_same_minimum_as_scikit_learn(positive):
    random = np.random.default_rng(0)
    X, bases = random.normal(size=(30, 20)), unit_rows(random.normal(size=(50, 20)))
    ours = SparseCodingEncoder(bases, 0.5, tol=1e-8, split_sign=False, positive=positive).transform(X)
    theirs = sparse_encode(X, bases, algorithm="lasso_cd", alpha=0.5, positive=positive, max_iter=20_000)
    np.testing.assert_allclose(objective(X, bases, ours, 0.5), objective(X, bases, theirs, 0.5), rtol=1e-5)
    assert np.all(objective(X, bases, ours, 0.5) <= objective(X, bases, theirs, 0.5) + 1e-9)
    assert 5 < (ours != 0).sum(axis=1).mean() < 20


def test_known_codes():
    # One base: the product, less the penalty.
    np.testing.assert_allclose(SparseCodingEncoder([[3.0, 4.0]], 0.5).transform([[5.0, 10.0]]), [[10.5, 0]])
    # Orthogonal bases: the soft threshold.
    X = np.random.default_rng(0).normal(size=(5, 4))
    codes = SparseCodingEncoder(np.eye(4), 0.3, split_sign=False, tol=1e-9).transform(X)
    np.testing.assert_allclose(codes, np.sign(X) * np.maximum(np.abs(X) - 0.3, 0), atol=1e-9)
    # A base of zeros explains nothing, a penalty above every product explains nothing.
    assert not SparseCodingEncoder([[0.0, 0.0], [1.0, 0.0]], 5.0).transform([[4.0, 4.0]]).any()


def test_split_codes_and_sparse_output():
    random = np.random.default_rng(1)
    X, bases = random.normal(size=(2 * BLOCK_ROWS + 5, 8)), random.normal(size=(12, 8))
    encoder = SparseCodingEncoder(bases, 0.4)
    signed = clone(encoder).set_params(split_sign=False).transform(X)
    split = encoder.transform(X)
    np.testing.assert_array_equal(split, np.hstack([np.maximum(signed, 0), np.maximum(-signed, 0)]))
    stored = clone(encoder).set_params(sparse_output=True).transform(X)
    assert isinstance(stored, sparse.csr_array)
    assert stored.nnz == np.count_nonzero(split)
    np.testing.assert_array_equal(stored.toarray(), split)
    assert list(encoder.fit(X).get_feature_names_out()[[0, -1]]) == ["sparsecodingencoder0", "sparsecodingencoder23"]
    # Codes that are never negative have no negative part.
    assert SparseCodingEncoder(bases, 0.4, positive=True).transform(X).shape == (len(X), 12)


def test_codes_do_not_depend_on_blocks_or_threads():
    random = np.random.default_rng(2)
    X, bases = random.normal(size=(2 * BLOCK_ROWS + 3, 10)).astype(np.float32), random.normal(size=(30, 10))
    encoder = SparseCodingEncoder(bases, 0.3)
    with threadpool_limits(1):
        codes = encoder.transform(X)
    with threadpool_limits(3):
        np.testing.assert_array_equal(encoder.transform(X), codes)
    np.testing.assert_allclose(encoder.transform(X[-1:]), codes[-1:], atol=2e-3)


def test_working_sets_grow_beyond_their_first_room():
    """More atoms in a code than the solver makes room for at first; far more candidates than may join at once."""
    random = np.random.default_rng(3)
    X, bases = random.normal(size=(2, 400)), random.normal(size=(900, 400))
    codes = SparseCodingEncoder(bases, 1e-3, split_sign=False).transform(X)
    assert (codes != 0).sum(axis=1).min() > 256
    assert violations(X, bases, codes, 1e-3).max() <= 1e-6


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


def test_the_engine_alone_gives_the_encoders_codes():
    """What learners of dictionaries use; and other Gram matrices, here that of a quadratic penalty besides."""
    random = np.random.default_rng(5)
    X, bases = random.normal(size=(BLOCK_ROWS + 40, 8)), unit_rows(random.normal(size=(20, 8)))
    codes = sparse_codes(X, bases, 0.3, tol=1e-9)
    expected = SparseCodingEncoder(bases, 0.3, split_sign=False, tol=1e-9).transform(X)
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-7)

    weight, wanted = 0.7, random.normal(size=(len(X), 20))
    gram, products = (
        (bases @ bases.T + weight * np.eye(20)) / (1 + weight),
        (X @ bases.T + weight * wanted) / (1 + weight),
    )
    found = np.empty_like(products)
    LassoSolver(gram, 0.3 / (1 + weight), tol=1e-6).solve(products, found)

    def objective_of(s):
        return objective(X, bases, s, 0.3) + 0.5 * weight * np.square(s - wanted).sum(axis=1)

    for _ in range(20):
        other = found + 1e-3 * random.normal(size=found.shape) * (random.uniform(size=found.shape) < 0.3)
        assert np.all(objective_of(found) <= objective_of(other) + 1e-9)


def test_bad_settings_are_named():
    X = np.ones((2, 3))
    for name in ("alpha", "tol"):
        for value in (0, -1, np.inf, np.nan):
            with pytest.raises(ValueError, match=f"{name}=.* must be a number above 0"):
                SparseCodingEncoder(np.eye(3), **{name: value}).transform(X)
    with pytest.raises(ValueError, match="alpha=1 must be a number above 0"):
        SparseCodingEncoder(np.eye(3), "1").transform(X)
    with pytest.raises(ValueError, match="alpha=1e-60 is beyond the numbers of float32: scale the samples"):
        SparseCodingEncoder(np.eye(3), 1e-60).transform(X.astype(np.float32))
    with pytest.raises(ValueError, match="must have norm 1 or 0"):
        sparse_codes(X, 2 * np.eye(3), 1.0)
    assert sparse_codes(X[:0], np.eye(3), 1.0).shape == (0, 3)
    with pytest.raises(ValueError, match="NaN"):
        SparseCodingEncoder(np.eye(3)).transform(X * np.nan)
    with pytest.raises(ValueError, match="X has 3 features, but"):
        SparseCodingEncoder(np.eye(4)).transform(X)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_tagged_number_keeps_its_size_and_tells_its_tag(kind):
    @njit
    def there_and_back(value, tag, keep):
        marked = tagged(value, tag, keep)
        return marked, tag_of(marked, keep)

    marked, tag = there_and_back(kind(3.7), 1234, ~2047)
    assert tag == 1234
    assert marked == pytest.approx(3.7, rel=float(2048 * np.finfo(kind).eps))
