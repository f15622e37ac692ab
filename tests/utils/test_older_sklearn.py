"""A scikit-learn without callbacks, before 1.9: set_callbacks says so, and everything else works."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from epls import EPLS

pytestmark = pytest.mark.slow  # each starts a process

# This library does not find the module, but a later scikit-learn itself does.
WITHOUT_CALLBACKS = """
import sys
import sklearn.base
own = sys.modules.get("sklearn.callback")
sys.modules["sklearn.callback"] = None
import epls.utils.sklearn
del sys.modules["sklearn.callback"]
if own is not None:
    sys.modules["sklearn.callback"] = own
"""


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_CALLBACKS + code, *map(str, arguments)], capture_output=True, text=True
    )


def test_set_callbacks_says_what_is_missing():
    found = run("import epls\nepls.EPLS().set_callbacks(epls.Checkpoint('folder'))")
    assert "ImportError: callbacks, such as OnEpoch and Checkpoint, need scikit-learn 1.9 or later" in found.stderr


def test_learners_learn_the_same(tmp_path):
    code = """
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from epls import EPLS, OMP, BalancedKMeans, Prototypes
X = load_digits().data
model = clone(EPLS(10, max_iter=3, random_state=0)).fit(X)
for learner in OMP(5, max_iter=2), Prototypes(5, max_iter=2), BalancedKMeans(5, max_iter=2):
    learner.set_callbacks().fit(X)
np.save(sys.argv[1], model.components_)
"""
    found = run(code, tmp_path / "components.npy")
    assert found.returncode == 0, found.stderr
    expected = EPLS(10, max_iter=3, random_state=0).fit(load_digits().data)
    np.testing.assert_array_equal(np.load(tmp_path / "components.npy"), expected.components_)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_command_learns_but_keeps_no_checkpoints(checkpoint, tmp_path):
    np.save(tmp_path / "vectors.npy", load_digits().data[:200])
    options = ["--learner", "epls", *(["--checkpoint", tmp_path / "kept"] if checkpoint else [])]
    code = "from epls.cli.main import run\nsys.exit(run())"
    found = run(code, "fit", tmp_path / "vectors.npy", "-o", tmp_path / "model.epls", "--n-components", 5, *options)
    assert (tmp_path / "model.epls").exists() != checkpoint, found.stderr
    assert ("need scikit-learn 1.9" in found.stderr) == checkpoint
