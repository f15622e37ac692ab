"""What is measured when a model is learned."""

import numpy as np
import pytest

from epls import EPLS, DeepFeatures, ImageFeatures, Layer, RandomPatches
from epls.evaluation.summary import model_summary, never_active_units

IMAGES = np.random.default_rng(0).integers(256, size=(20, 12, 12), dtype=np.uint8)


def _features(learner):
    return ImageFeatures(learner, patch_size=4, n_patches=200, pooling="sum", random_state=0).fit(IMAGES)


@pytest.mark.parametrize("n_silent", [0, 3, 8, 10])
def test_units_that_never_answer_are_counted(n_silent):
    """Also if most of them do not, or none does."""
    features = _features(RandomPatches(10, random_state=0))
    features.estimator_.components_[:n_silent] = 0
    assert never_active_units(features, IMAGES) == n_silent


@pytest.mark.parametrize("n_silent", [0, 3, 10])
def test_units_that_stay_inactive_are_counted(n_silent):
    features = _features(EPLS(10, random_state=0, max_iter=3))
    features.estimator_.intercept_[:n_silent] = -50
    assert never_active_units(features, IMAGES, 200, random_state=0) == n_silent


def test_each_layer_is_measured():
    first = Layer(EPLS(6, max_iter=3), patch_size=3, pool=2, n_patches=200)
    second = Layer(EPLS(4, max_iter=2), patch_size=2, n_groups=2, group_size=3, n_patches=200)
    model = DeepFeatures([first, second], random_state=0).fit(IMAGES)
    model.layers_[1].features_[1].estimator_.intercept_[:] = -50
    found = model_summary(model, IMAGES)
    assert (found["kind"], found["samples"], found["units"], found["epochs"]) == ("images", 20, 14, 3)
    assert [layer["units"] for layer in found["layers"]] == [6, 8]
    assert [layer["never active units"] for layer in found["layers"]] == [0, 4]
    assert found["never active units"] == 4
    assert 0 < found["layers"][1]["population sparsity"] < 1
