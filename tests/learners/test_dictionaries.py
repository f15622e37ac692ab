"""OMP, sparse coding and predictive sparse decomposition: learners of dictionaries of unit norm."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from epls import OMP, PSD, Directions, SparseCoding
from epls.learners.psd import prediction_gradient
from epls.solvers.dictionary import (
    CodedBatch,
    first_components,
    improve_components,
    learn_online,
    replace_unused,
)

LEARNERS = [OMP(n_nonzero_coefs=2, max_iter=3), Directions(max_iter=3), SparseCoding(max_iter=2), PSD(max_iter=2)]


@parametrize_with_checks(LEARNERS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def unit_rows(components):
    return components / np.linalg.norm(components, axis=1, keepdims=True)


def made_of_atoms(n_samples, n_atoms, n_features, n_used, seed=0):
    """Samples that are sums of a few known components."""
    random = np.random.default_rng(seed)
    components = unit_rows(random.normal(size=(n_atoms, n_features)))
    codes = np.zeros((n_samples, n_atoms))
    for code in codes:
        code[random.choice(n_atoms, n_used, replace=False)] = random.normal(size=n_used) * 2 + 1
    return codes @ components, components


@pytest.mark.parametrize(
    ("learner", "n_used", "share"),
    [
        (OMP(60, random_state=0, max_iter=100), 1, 0.8),
        (Directions(60, random_state=0, max_iter=100), 1, 0.8),
        (OMP(20, n_nonzero_coefs=2, random_state=0, max_iter=100), 2, 0.8),
        (SparseCoding(20, alpha=0.2, max_iter=30, random_state=0), 2, 0.8),
        (PSD(20, alpha=0.2, prediction_penalty=0.05, max_iter=30, random_state=0), 2, 0.7),
    ],
    ids=["OMP-1", "Directions", "OMP-2", "SparseCoding", "PSD"],
)
@pytest.mark.slow
def test_known_components_are_found(learner, n_used, share):
    X, components = made_of_atoms(2000, 20, 12, n_used)
    found = np.abs(learner.fit(X).components_ @ components.T).max(axis=0)
    assert np.mean(found > 0.97) >= share
    chance = np.abs(unit_rows(np.random.default_rng(1).normal(size=(20, 12))) @ components.T).max(axis=0)
    assert np.mean(chance > 0.97) == 0
    assert learner.loss_curve_[-1] < learner.loss_curve_[0]


def test_omp_1_is_the_nearest_line():
    X, _ = made_of_atoms(300, 10, 6, 2)
    model = OMP(10, random_state=0).fit(X)
    products = X @ model.components_.T
    codes = model.transform(X)
    best = np.abs(products).argmax(axis=1)
    np.testing.assert_allclose(codes[np.arange(300), best], products[np.arange(300), best])
    assert np.count_nonzero(codes) == 300
    # The error it tells is that of the codes before the components were last improved.
    after = np.square(X - codes @ model.components_).sum(axis=1).mean()
    assert after <= model.loss_curve_[-1] + 1e-9


def test_components_are_improved_one_by_one_to_their_best():
    """Each update of a component is the best of unit norm, others being as they are: random turns are no better."""
    random = np.random.default_rng(0)
    X, codes = random.normal(size=(50, 6)), random.normal(size=(50, 4)) * (random.uniform(size=(50, 4)) < 0.5)
    components = unit_rows(random.normal(size=(4, 6)))

    def error(components):
        return np.square(X - codes @ components).sum()

    before = error(components)
    for _ in range(200):
        improve_components(components, codes.T @ codes, codes.T @ X)
    assert error(components) < before
    for k in range(4):
        for _ in range(50):
            turned = components.copy()
            turned[k] = unit_rows((turned[k] + 0.01 * random.normal(size=6))[None])[0]
            assert error(turned) >= error(components) - 1e-9


def test_unused_components_are_drawn_anew_and_counted():
    random = np.random.RandomState(0)
    X = random.standard_normal((10, 3))
    components = np.eye(3)
    assert list(replace_unused(components, np.array([4, 0, 2]), X, random)) == [1]
    np.testing.assert_array_equal(components[[0, 2]], np.eye(3)[[0, 2]])
    assert np.any(np.all(np.isclose(unit_rows(X), components[1]), axis=1))
    # Two kinds of samples and many components: most of them can have none.
    X = np.repeat([[1.0, 0.0], [0.0, 1.0]], 20, axis=0)
    model = OMP(10, random_state=0, max_iter=5, tol=0).fit(X)
    assert all(n == 8 for n in model.n_redrawn_)
    assert model.n_unused_ == 8


def test_components_drawn_anew_do_not_turn_back():
    """What the batches so far said about the component before is forgotten."""
    random = np.random.RandomState(0)
    X, components, drawn = random.normal(size=(12, 3)), np.eye(3), []

    def coded(batch):
        codes = random.normal(size=(12, 3))
        if drawn:
            codes[:, 1] = 0  # nobody uses it in the next batch
        return CodedBatch(1.0, np.array([12, 0, 12]), codes.T @ codes, codes.T @ batch)

    def redrawn(which):
        assert which.tolist() == [1]
        drawn.append(components[1].copy())

    learn_online(X, components, (epoch for epoch in range(2)), random, coded, redrawn)
    np.testing.assert_array_equal(components[1], drawn[0])


@pytest.mark.parametrize(("dtype", "scale"), [(np.float64, 1e140), (np.float64, 1e-140), (np.float32, 1e22)])
def test_very_large_and_small_samples(dtype, scale):
    """The scale is of no account to OMP; to a penalty it is."""
    X, _ = made_of_atoms(200, 6, 5, 2)
    usual = OMP(6, random_state=0).fit(X.astype(dtype))
    scaled = OMP(6, random_state=0).fit((X * scale).astype(dtype))
    np.testing.assert_allclose(np.linalg.norm(scaled.components_, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(scaled.loss_curve_[-1] / scale / scale, usual.loss_curve_[-1], rtol=0.1)
    for learner in (SparseCoding(6), PSD(6)):
        with pytest.raises(ValueError, match="scale them to about 1"):
            learner.fit((X * scale).astype(dtype))
    with pytest.raises(ValueError, match="too large to be squared"):
        OMP(6).fit(X * 1e200)


def test_samples_of_zeros_give_no_empty_components():
    X = np.zeros((12, 4))
    X[0] = 1
    components = first_components(X, 5, np.random.RandomState(0))
    np.testing.assert_allclose(np.linalg.norm(components, axis=1), 1)
    for learner in LEARNERS:
        assert np.isfinite(learner.fit(X).transform(X)).all()


def test_sparse_coding_codes_are_the_minimum():
    from epls import SparseCodingEncoder

    X, _ = made_of_atoms(400, 10, 6, 2)
    model = SparseCoding(10, alpha=0.3, random_state=0).fit(X)
    expected = SparseCodingEncoder(model, 0.3, split_sign=False).transform(X)
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-3)
    plain = 0.5 * np.square(X - expected @ model.components_).sum() + 0.3 * np.abs(expected).sum()
    assert plain / len(X) == pytest.approx(model.loss_curve_[-1], rel=0.05)


@pytest.mark.slow
def test_psd_predicts_the_codes():
    X, _ = made_of_atoms(2000, 20, 12, 2)
    model = PSD(20, alpha=0.2, prediction_penalty=0.5, max_iter=30, random_state=0).fit(X)
    predicted = model.transform(X)
    bent = np.tanh(X @ model.encoder_[:, :-1].T + model.encoder_[:, -1])
    np.testing.assert_allclose(predicted, bent * model.gain_)
    codes = model._sparse_codes(X, model.components_, predicted)
    assert np.square(codes - predicted).sum() < 0.4 * np.square(codes).sum()
    # The codes are the best for the components and predictions: moving any of them a little is worse.
    best = model._objective(X, model.components_, codes, predicted)
    random = np.random.default_rng(0)
    for _ in range(10):
        assert model._objective(X, model.components_, codes + 0.05 * random.normal(size=codes.shape), predicted) > best


def test_gradient_of_the_prediction():
    random = np.random.default_rng(0)
    X, codes, predictor = random.normal(size=(7, 3)), random.normal(size=(7, 2)), random.normal(size=(2, 5))

    def loss(predictor):
        bent = np.tanh(X @ predictor[:, :3].T + predictor[:, 3])
        return 0.5 * np.square(codes - bent * predictor[:, 4]).sum(axis=1).mean()

    bent = np.tanh(X @ predictor[:, :3].T + predictor[:, 3])
    gradient = prediction_gradient(X, bent, predictor[:, 4], codes)
    for place in np.ndindex(predictor.shape):
        moved = np.zeros_like(predictor)
        moved[place] = 1e-6
        assert gradient[place] == pytest.approx((loss(predictor + moved) - loss(predictor - moved)) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_types_seeds_and_errors(learner):
    X, _ = made_of_atoms(60, 5, 4, 2)
    learner.set_params(random_state=3)
    first = learner.fit(X.astype(np.float32)).components_
    assert first.dtype == learner.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(learner.fit(X.astype(np.float32)).components_, first)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-5)
    with pytest.raises(ValueError, match="n_components=61 is more than n_samples=60"):
        type(learner)(61).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        learner.fit(X * np.nan)


@pytest.mark.parametrize("kind", [SparseCoding, PSD])
@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float32, 1e5), (np.float32, 1e7), (np.float32, 1e9), (np.float64, 1e9)]
)
def test_components_of_samples_of_any_scale_have_unit_norm(kind, dtype, scale):
    """In single precision, norms of 1e20 were infinite, and components 0."""
    samples = (np.random.RandomState(0).laplace(size=(400, 20)) * scale).astype(dtype)
    model = kind(12, max_iter=3, random_state=0)
    if dtype == np.float32 and scale > 1e6:
        with pytest.raises(ValueError, match=r"but float32 supports 1e-10 to 1e\+06"):
            model.fit(samples)
    else:
        np.testing.assert_allclose(np.linalg.norm(model.fit(samples).components_, axis=1), 1, rtol=1e-5)
