"""What is measured when a model is learned."""

import numpy as np
import pytest

from epls import EPLS, DeepFeatures, ImageFeatures, Layer, RandomPatches
from epls.evaluation.summary import dead_units, model_summary

IMAGES = np.random.default_rng(0).integers(256, size=(20, 12, 12), dtype=np.uint8)


def _features(learner):
    return ImageFeatures(learner, patch_size=4, n_patches=200, pooling="sum", random_state=0).fit(IMAGES)


@pytest.mark.parametrize("n_dead", [0, 3, 8, 10])
def test_units_that_never_answer_are_counted(n_dead):
    """Also if most of them do not, or none does."""
    features = _features(RandomPatches(10, random_state=0))
    features.estimator_.components_[:n_dead] = 0
    assert dead_units(features, IMAGES) == n_dead


def test_each_layer_is_measured():
    first = Layer(EPLS(6, max_iter=3), patch_size=3, pool=2, n_patches=200)
    second = Layer(EPLS(4, max_iter=2), patch_size=2, n_groups=2, group_size=3, n_patches=200)
    model = DeepFeatures([first, second], random_state=0).fit(IMAGES)
    model.layers_[1].features_[1].estimator_.components_[:] = 0
    found = model_summary(model, IMAGES)
    assert (found["kind"], found["samples"], found["units"], found["epochs"]) == ("images", 20, 14, 3)
    assert [layer["units"] for layer in found["layers"]] == [6, 8]
    assert [layer["unresponsive units"] for layer in found["layers"]] == [0, 4]
    assert found["unresponsive units"] == 4
    assert 0 < found["layers"][1]["population sparsity"] < 1
