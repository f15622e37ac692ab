"""What holds for every learner."""

import numpy as np
import pandas as pd
import pytest
import zarr
from refusals import result_or_reason
from sklearn.datasets import load_digits

from epls import ImageFeatures, load_model, open_shards, save_model
from epls.callbacks import OnEpoch
from epls.data.blocks import array_blocks
from epls.data.samples import ArraySamples
from epls.learners import LEARNERS
from epls.learners.base import Learner

QUICK = {"max_iter": 3}
# Those that shuffle what they read anew in each epoch: the order depends on where the samples are.
TAKES_BATCHES = {name: name in ("epls", "prototypes", "sparse_autoencoder", "sparse_rbm") for name in LEARNERS}


@pytest.fixture(scope="module")
def digits():
    return load_digits().data[:400].astype(np.float32)


def quick(name, **settings):
    learner = LEARNERS[name]()
    given = {"n_components": 12, "random_state": 0} | QUICK | settings
    return learner.set_params(**{key: value for key, value in given.items() if key in learner.get_params()})


# ICA says that three iterations are too few for it.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("name", LEARNERS)
def test_saved_and_loaded(name, digits, tmp_path):
    model = quick(name).fit(digits)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.transform(digits), model.transform(digits))


@pytest.mark.parametrize("name", LEARNERS)
def test_learns_from_images(name, tmp_path):
    images = load_digits().images[:60]
    features = ImageFeatures(quick(name), patch_size=4, n_patches=200, random_state=0)
    found = features.fit_transform(images)
    assert found.shape == (60, 4 * features.encoder_.n_codes)
    assert np.isfinite(found).all()
    assert found.min() >= 0
    assert np.all(found.std(axis=0).max() > 0)
    save_model(features, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").transform(images), found)


def test_what_is_to_tune_is_a_parameter_and_documented():
    for kind in LEARNERS.values():
        for parameter in kind.meta_parameters:
            assert parameter in kind().get_params()
            assert f"{parameter} :" in kind.__doc__


@pytest.mark.parametrize("name", LEARNERS)
def test_progress_and_the_same_result_twice(name, digits):
    told = []
    learner = quick(name).set_callbacks(OnEpoch(lambda done, total: told.append((done, total))))
    first = learner.fit(digits).components_
    assert told
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert len({total for _, total in told}) == 1
    np.testing.assert_array_equal(quick(name).fit(digits).components_, first)


@pytest.fixture(scope="module")
def sources(digits, tmp_path_factory):
    """The same samples as bytes: in memory, in a map, in shards and as a zarr array."""
    folder = tmp_path_factory.mktemp("sources")
    whole = digits.astype(np.uint8)
    (folder / "shards").mkdir()
    for number, part in enumerate(np.array_split(whole, 3)):
        np.save(folder / "shards" / f"{number}.npy", part)
    np.save(folder / "x.npy", whole)
    stored = zarr.create_array(str(folder / "x.zarr"), shape=whole.shape, chunks=(70, 64), dtype=whole.dtype)
    stored[:] = whole
    return {
        "array": whole,
        "map": np.load(folder / "x.npy", mmap_mode="r"),
        "shards": open_shards(folder / "shards"),
        "zarr": stored,
    }


@pytest.mark.parametrize("name", LEARNERS)
def test_bytes_and_maps_are_what_their_numbers_are(name, digits, sources):
    """Pixels need not be turned into floats first."""
    expected = quick(name).fit(digits)
    for kind in ("array", "map"):
        model = quick(name).fit(sources[kind])
        np.testing.assert_array_equal(model.components_, expected.components_)
        assert model.components_.dtype == np.float32
        codes = model.transform(sources[kind])
        assert codes.dtype == np.float32
        np.testing.assert_array_equal(codes, expected.transform(digits))


@pytest.mark.parametrize("name", LEARNERS)
def test_learns_from_data_in_parts(name, digits, sources):
    """Read block by block by the learners that take mini-batches, loaded by the others: all get all samples."""
    in_memory = quick(name).fit(digits)
    for kind in ("shards", "zarr"):
        model = quick(name).fit(sources[kind])
        assert model.components_.shape == in_memory.components_.shape
        assert np.isfinite(model.components_).all()
        assert model.n_features_in_ == 64
        parts = list(model.iter_transform(sources[kind]))
        np.testing.assert_allclose(np.concatenate(parts), model.transform(digits), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(quick(name).fit(sources[kind]).components_, model.components_)
        if not TAKES_BATCHES[name]:
            np.testing.assert_array_equal(model.components_, in_memory.components_)


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - {"raw"}))
def test_what_is_not_finite_is_refused_wherever_it_is(name, digits):
    bad = digits.astype(np.float64)
    bad[333, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        quick(name).fit(bad)
    with pytest.raises(ValueError, match="NaN or infinite in row 333"):
        quick(name).fit(array_blocks(bad))


def test_samples_of_ones_own(digits):
    table = pd.DataFrame(digits[:, :8]).add_prefix("x")
    model = quick("omp").fit(table)
    model.fit(ArraySamples(digits))
    assert model.n_features_in_ == 64
    assert not hasattr(model, "feature_names_in_")
    assert model.transform(digits).shape == (400, 12)


def test_parts_of_lists_and_tables(digits):
    table = pd.DataFrame(digits[:, :8].astype(float)).add_prefix("x")
    model = quick("epls").fit(table)
    expected = model.transform(table)
    np.testing.assert_array_equal(np.concatenate(list(model.iter_transform(table))), expected)
    np.testing.assert_array_equal(
        np.concatenate(list(quick("raw").fit(table.values).iter_transform(table.values.tolist()))), table.values
    )


class Own(Learner):
    """A learner as the guide describes it."""

    def __init__(self, n_components=None):
        self.n_components = n_components

    def learn(self, samples, random):
        return {"components_": samples.array()[: self.checked_n_components(samples.shape[0])]}

    def encode(self, X):
        return X @ self.components_.T


@pytest.mark.parametrize("n_components", [-3, 0, 2.7, "x"])
def test_parameters_of_ones_own_learner_are_checked(n_components, digits):
    assert Own(3).fit_transform(digits).shape == (400, 3)
    with pytest.raises(ValueError, match="The 'n_components' parameter of Own"):
        Own(n_components).fit(digits)


def test_a_learner_must_learn_components(digits, monkeypatch):
    monkeypatch.setattr(Own, "learn", lambda self, samples, random: {"mean_": 0})
    with pytest.raises(TypeError, match="without components_"):
        Own(3).fit(digits)


LARGE = [*((np.float32, 10.0**power) for power in (10, 17, 19, 25, 38)), (np.float64, 1e19), (np.float64, 1e155)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of scikit-learn's own check
@pytest.mark.parametrize(("dtype", "largest"), LARGE)
@pytest.mark.parametrize("name", LEARNERS)
def test_codes_of_large_numbers_are_finite_or_refused(name, digits, dtype, largest):
    model = quick(name).fit(digits / 16)
    samples = (np.sin(np.arange(64 * 9)).reshape(9, 64) * largest).astype(dtype)
    codes = result_or_reason(model.transform, samples)
    if isinstance(codes, str):
        assert largest >= 1e19
        assert "not finite" in codes
        assert "below 3e+38 in float32" in codes or "below 2e+308 in float64" in codes
    else:
        assert np.isfinite(codes).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("dtype", "largest"), LARGE)
@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_learned_from_large_numbers_is_finite_or_refused(name, digits, dtype, largest):
    samples = ((digits.astype(np.float64) / 8 - 1) * largest).astype(dtype)
    assert np.isfinite(samples).all()
    learner = quick(name)
    fitted = result_or_reason(learner.fit, samples)
    if isinstance(fitted, str):
        assert "scale" in fitted or "divide" in fitted
        assert not hasattr(learner, "components_")
    else:
        learned = [value for value in vars(learner).values() if isinstance(value, np.ndarray)]
        assert all(np.isfinite(value).all() for value in learned)


def test_what_is_learned_must_be_finite(digits):
    class Broken(Learner):
        def learn(self, samples, random):
            return {"components_": np.full((3, samples.shape[1]), np.inf)}

    model = Broken()
    with pytest.raises(ValueError, match=r"Broken learned components_ that are not finite: .* below 3e\+38 in float32"):
        model.fit(digits)
    assert not hasattr(model, "components_")
