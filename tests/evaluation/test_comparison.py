"""Comparisons: an entry for each experiment, whether it succeeds or not."""

import numpy as np
import pytest

from epls.evaluation.cache import Cache
from epls.evaluation.comparison import as_plain, compare_settings
from epls.evaluation.experiment import LabelledImages, Settings, Task


@pytest.fixture
def task():
    images = np.random.default_rng(0).integers(256, size=(20, 12, 12), dtype=np.uint8)
    return Task(images, LabelledImages(images, np.arange(20) % 2), [np.arange(10)])


def test_one_that_fails_stops_no_other(task, tmp_path):
    small = {"n_components": 5, "n_patches": 50, "patch_size": 4, "stride": 4}
    wanted = [
        Settings(**small),
        Settings(learner_settings={"max_iter": -1}, **small),
        Settings(learner="random_patches", **small),
    ]
    told, learned = [], []
    entries = compare_settings(
        wanted, task, Cache(tmp_path), lambda *step: told.append(step[0]), lambda k, _: learned.append(k)
    )
    assert [entry.failed is None for entry in entries] == [True, False, True]
    assert "max_iter" in entries[1].failed
    assert learned == [0, 2]
    assert "1/3 epls, natural: learn" in told
    first, _, last = as_plain(entries)
    assert (first["n_units"], last["n_units"]) == (5, 5)
    assert first["training"]["ended_by"] == "number of epochs"
    assert first["n_dead"] == first["training"]["n_unresponsive"]
