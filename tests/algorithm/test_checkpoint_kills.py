"""Trainings that are killed at known points go on as if they had not been; at random ones: benchmarks/attack/kills.py.

For every checkpoint there are os.fsync of the file, os.replace to its name, and from the third on Path.unlink of the
oldest.
"""

import signal
import subprocess
import sys

import numpy as np
import pytest
from killed_process import run_in_child
from numpy.testing import assert_array_equal

from epls import EPLS, Checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")]


def train(folder, result):
    """In a process of its own, with a checkpoint after every batch."""
    X = np.random.RandomState(0).normal(size=(600, 10)).astype(np.float32)
    model = EPLS(20, max_iter=4, batch_size=60, random_state=0)
    if folder is not None:
        model.set_callbacks(Checkpoint(folder, seconds=0))
    np.save(result, model.fit(X).components_)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What a training that nobody disturbs learns. It compiles the kernels too, which numba keeps with os.replace."""
    result = tmp_path_factory.mktemp("whole") / "result.npy"
    assert run_in_child(train, None, result) == 0
    return np.load(result)


@pytest.mark.parametrize(
    ("kills", "n_left"),
    [
        ([("os", "fsync", 1)], 0),  # while the first one is written
        ([("os", "replace", 2)], 1),  # the second one is written, but has no name yet
        ([("pathlib:Path", "unlink", 1)], 3),  # before the oldest is removed
        ([("os", "fsync", 13), ("os", "replace", 20), ("pathlib:Path", "unlink", 4)], 3),  # again and again
    ],
    ids=["first", "unnamed", "three", "again and again"],
)
def test_kill_9_then_the_same_training(whole, tmp_path, kills, n_left):
    folder, result = tmp_path / "checkpoints", tmp_path / "result.npy"
    for kill in kills:
        assert run_in_child(train, folder, result, kill_at=kill) == -signal.SIGKILL
        assert not result.exists()
    assert len(list(folder.glob("checkpoint-*"))) == n_left
    assert run_in_child(train, folder, result) == 0
    assert_array_equal(np.load(result), whole)
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_another_process_waits_its_turn(tmp_path):
    """And a lock of a process that was killed is none."""
    script = """
import sys, time
import numpy as np
from epls import EPLS, Checkpoint
from epls.callbacks import OnEpoch
def hold(done, total):
    print("training", flush=True)
    time.sleep(60)
X = np.random.RandomState(0).normal(size=(600, 10)).astype(np.float32)
EPLS(20, max_iter=4, batch_size=60, random_state=0).set_callbacks(Checkpoint(sys.argv[1]), OnEpoch(hold)).fit(X)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "training\n"
        with pytest.raises(RuntimeError, match="another training is using"):
            train(tmp_path, tmp_path / "result.npy")
        other.kill()
    train(tmp_path, tmp_path / "result.npy")
