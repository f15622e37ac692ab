"""What holds for every learner."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from epls import ImageFeatures, load_model, save_model
from epls.callbacks import OnEpoch
from epls.learners import LEARNERS

QUICK = {"max_iter": 3}


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


@pytest.mark.parametrize("name", LEARNERS)
def test_docstring_says_what_it_optimises_and_what_is_to_tune(name):
    kind = LEARNERS[name]
    assert kind.__doc__
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
