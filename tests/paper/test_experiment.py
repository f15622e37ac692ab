"""What an experiment tells about a training: what ended it, and which units stay inactive."""

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from epls import EPLS, OMP, PAPER, ImageFeatures, RandomPatches
from epls.paper.experiment import training_facts

IMAGES = np.random.default_rng(0).integers(256, size=(20, 12, 12), dtype=np.uint8)


def _features(learner):
    return ImageFeatures(learner, patch_size=4, n_patches=200, pooling="sum", random_state=0).fit(IMAGES)


def test_units_are_silent_on_the_patches_that_they_learned_from(monkeypatch):
    seen = []
    fit = EPLS.fit
    monkeypatch.setattr(EPLS, "fit", lambda self, X, y=None: seen.append(X) or fit(self, X))
    features = _features(EPLS(10, random_state=0, max_iter=1))
    np.testing.assert_array_equal(features.draw_patches(IMAGES, 200, random_state=0), seen[0])


def test_what_ended_training():
    """As the estimator's own warning says."""
    X = load_digits().data
    for settings, expected in (
        ({}, "number of epochs"),
        ({"tol": 0.5, "max_iter": 30}, "stop rule"),
        ({"tol": 0.0, "max_iter": 3}, "limit on epochs"),
        ({"settings": PAPER, "max_iter": 1}, "limit on epochs"),
    ):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            learner = EPLS(20, random_state=0, **settings).fit(X)
        facts = training_facts(learner)
        assert facts["ended_by"] == expected, settings
        assert (expected == "limit on epochs") == any(w.category is ConvergenceWarning for w in told)
        assert facts["n_iter"] == learner.n_iter_ == len(facts["loss_curve"])
        assert facts["loss_curve"][-1] == learner.loss_curve_[-1]


def test_the_stop_rule_may_apply_in_the_last_epoch():
    """Then it is what ended training, though the number of epochs is the limit."""
    X = load_digits().data
    stopped = EPLS(20, random_state=0, tol=0.5, max_iter=30).fit(X)
    again = EPLS(20, random_state=0, tol=0.5, max_iter=30).fit(X).set_params(max_iter=stopped.n_iter_)
    assert training_facts(again)["ended_by"] == "stop rule"


def test_other_learners_tell_what_they_have():
    X = load_digits().data
    facts = training_facts(OMP(10, random_state=0, max_iter=3).fit(X))
    assert (facts["n_iter"], facts["ended_by"], len(facts["loss_curve"])) == (3, None, 3)
    assert training_facts(RandomPatches(10, random_state=0).fit(X)) == {
        "n_iter": None, "ended_by": None, "loss_curve": None,
    }  # fmt: skip
