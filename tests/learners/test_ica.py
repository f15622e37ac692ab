"""ICA: known sources are found, whatever the rank of the data."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from epls.learners.ica import ICA


# The checks' samples are normal, for which there is nothing to converge to.
@pytest.mark.filterwarnings("ignore:FastICA did not converge")
@parametrize_with_checks([ICA(max_iter=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def sources():
    return np.random.RandomState(0).laplace(size=(3000, 10))


@pytest.fixture(scope="module")
def mixed(sources):
    return sources @ np.random.RandomState(1).normal(size=(10, 10)) + 5


def found(codes, sources):
    """For each source, the largest correlation with a code, if they are different codes."""
    n_codes = codes.shape[1]
    correlations = np.abs(np.corrcoef(codes.T, sources.T)[:n_codes, n_codes:])
    assert len(set(correlations.argmax(axis=0))) == sources.shape[1]
    return correlations.max(axis=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sources_are_found(mixed, sources, dtype):
    codes = ICA(random_state=0).fit_transform(mixed.astype(dtype))
    assert found(codes, sources).min() > 0.99


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_are_centred_white_and_the_formula_of_the_attributes(mixed, dtype):
    X = mixed.astype(dtype)
    model = ICA(random_state=0).fit(X)
    codes = model.transform(X)
    np.testing.assert_allclose(codes.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(codes.T @ codes / len(X), np.eye(10), atol=2e-4 if dtype == np.float32 else 1e-10)
    np.testing.assert_allclose(codes.var(axis=0), 1, rtol=1e-5)
    np.testing.assert_allclose(codes, (X - model.mean_) @ model.components_.T, atol=1e-5)
    assert model.components_.shape == (10, 10)
    assert model.components_.flags.c_contiguous
    assert 1 <= model.n_iter_ < 200
    assert ICA.meta_parameters == ()


class TestRank:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_patches_without_their_mean_have_one_direction_less(self, mixed, dtype):
        X = mixed.astype(dtype)
        X -= X.mean(axis=1, keepdims=True)
        model = ICA(random_state=0).fit(X)
        assert model.components_.shape == (9, 10)
        np.testing.assert_allclose(model.transform(X).std(axis=0), 1, rtol=1e-4)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("value", [0.0, 7.1])
    def test_constant_features_have_no_part(self, mixed, sources, dtype, value):
        X = np.full((len(mixed), 12), value, dtype)
        X[:, 1:11] = mixed
        model = ICA(random_state=0).fit(X)
        assert model.components_.shape == (10, 12)
        np.testing.assert_allclose(model.components_[:, [0, 11]], 0, atol=1e-5 * abs(model.components_).max())
        assert found(model.transform(X), sources).min() > 0.99

    def test_more_features_than_directions(self, mixed, sources):
        wide = mixed @ np.random.RandomState(2).normal(size=(10, 30))
        model = ICA(n_components=20, random_state=0).fit(wide)
        assert model.components_.shape == (10, 30)
        assert found(model.transform(wide), sources).min() > 0.99

    def test_rounding_is_not_a_direction(self, sources):
        """Far from the origin, float32 keeps few digits, and the second feature is the first but for these."""
        X = np.column_stack([sources[:, 0], sources[:, 0] + 1e4]).astype(np.float32)
        assert ICA(random_state=0).fit(X).components_.shape == (1, 2)

    @pytest.mark.filterwarnings("ignore:FastICA did not converge")
    def test_fewer_samples_than_features(self, mixed):
        X = mixed[:6]
        model = ICA(random_state=0).fit(X)
        assert model.components_.shape == (5, 10)
        assert np.isfinite(model.transform(X)).all()

    def test_fewer_components_are_those_of_most_variance(self, mixed):
        model = ICA(4, random_state=0).fit(mixed)
        directions = np.linalg.svd(mixed - mixed.mean(axis=0), full_matrices=False)[2]
        outside = model.components_ @ directions[4:].T
        assert model.components_.shape == (4, 10)
        assert np.abs(outside).max() < 1e-10 * np.abs(model.components_).max()


@pytest.mark.parametrize(("factor", "shift"), [(2.0**-30, 0), (2.0**60, 0), (1, 64)])
def test_unit_and_origin_of_the_data_do_not_matter(mixed, sources, factor, shift):
    codes = ICA(random_state=0).fit_transform(factor * mixed + shift)
    np.testing.assert_allclose(codes, ICA(random_state=0).fit_transform(mixed), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_types_and_seeds(mixed, dtype):
    X = mixed.astype(dtype)
    models = [ICA(random_state=seed).fit(X) for seed in (3, 3, 4)]
    assert models[0].components_.dtype == models[0].mean_.dtype == models[0].transform(X).dtype == dtype
    assert (models[0].components_ == models[1].components_).all()
    assert (models[0].components_ != models[2].components_).any()


def test_too_few_iterations_are_told(mixed):
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        ICA(max_iter=1, random_state=0).fit(mixed)


class TestBadInput:
    @pytest.mark.parametrize(
        ("X", "message"),
        [
            ([[1.0, np.nan], [2.0, 3.0]], "NaN"),
            ([[1.0, np.inf], [2.0, 3.0]], "infinity"),
            ([[1.0, 2.0]], "1 sample"),
            ([[1.0, 2.0], [1.0, 2.0]], "all samples are equal"),
            ([[1e200], [-1e200]], "too large"),
            ([[1e-200], [-1e-200]], "too small"),
        ],
    )
    def test_data(self, X, message):
        with pytest.raises(ValueError, match=message):
            ICA(random_state=0).fit(X)

    @pytest.mark.parametrize(("n_samples", "n_components", "most"), [(8, 9, 8), (100, 11, 10)])
    def test_more_components_than_there_can_be(self, mixed, n_samples, n_components, most):
        with pytest.raises(ValueError, match=rf"n_components={n_components} is more.*at most {most}"):
            ICA(n_components).fit(mixed[:n_samples])

    @pytest.mark.parametrize("settings", [{"n_components": 0}, {"max_iter": 0}, {"tol": -1}])
    def test_settings(self, settings, mixed):
        (name,) = settings
        with pytest.raises(ValueError, match=f"'{name}' parameter of ICA must be"):
            ICA(**settings).fit(mixed)


def test_directions_that_only_rounding_varies_in_are_left_out():
    """As in patches whose own mean was subtracted, in single precision, and which were whitened then."""
    X = np.random.RandomState(0).laplace(size=(5000, 20)).astype(np.float32)
    X -= X.mean(axis=1, keepdims=True)
    X = (X @ np.random.RandomState(1).normal(size=(20, 20)).astype(np.float32)).astype(np.float32)
    model = ICA(random_state=0, max_iter=500).fit(X)
    assert len(model.components_) == 19
    assert np.abs(model.components_).max() < 100
