"""Which units count as dead."""

import numpy as np
import pytest

from epls import ImageFeatures, RandomPatches
from epls.evaluation.comparison import dead_units


@pytest.mark.parametrize("n_dead", [0, 3, 8, 10])
def test_units_that_never_answer_are_counted(n_dead):
    """Also if most of them do not, or none does."""
    images = np.random.default_rng(0).integers(256, size=(20, 12, 12), dtype=np.uint8)
    features = ImageFeatures(RandomPatches(10, random_state=0), patch_size=4, n_patches=200, random_state=0).fit(images)
    features.estimator_.components_[:n_dead] = 0
    assert dead_units(features, images) == n_dead
