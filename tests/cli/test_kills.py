"""Commands that are killed at known points, and the same command again; Ctrl-C at known points, too."""

import json
import signal
import sys
from contextlib import redirect_stderr

import numpy as np
import pytest
from killed_process import run_in_child
from numpy.testing import assert_array_equal
from run_command import epls
from sklearn.datasets import load_sample_images

from epls import Checkpoint, load_model
from epls.cli.main import run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")]


def command(arguments):
    """In a process of its own."""
    sys.exit(run([str(argument) for argument in arguments]))


def fit(arguments):
    """Checkpoints are a minute apart: here, after every batch."""
    Checkpoint.__init__.__kwdefaults__["seconds"] = 0.0
    command(arguments)


@pytest.fixture(autouse=True)
def short_training():
    """Processes of their own train for as long as usual, so this one does, too."""


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "x.npy"
    np.save(path, np.random.RandomState(0).normal(size=(900, 5)).astype(np.float32))
    return path


@pytest.mark.parametrize("n_saved", [1, 2, 30])
def test_a_killed_fit_goes_on(vectors, tmp_path, capsys, n_saved):
    """Killed when that many checkpoints are written and the next one is due; at most two are kept."""

    def arguments(name, *more):
        return ["fit", vectors, "-o", tmp_path / name, "--learner", "epls", "--units", 10, "--threads", 1, *more]

    checkpoints = tmp_path / "kept"
    killed = arguments("killed.epls", "--checkpoint", checkpoints)
    kill_at = ("epls.algorithm.checkpoint", "write_container", n_saved + 1)
    assert run_in_child(fit, killed, kill_at=kill_at) == -signal.SIGKILL
    assert len(list(checkpoints.glob("checkpoint-*.safetensors"))) == min(n_saved, 2)
    assert not (tmp_path / "killed.epls").exists()

    code, _, err = epls(capsys, *arguments("o.epls", "--checkpoint", checkpoints, "--seed", 1))
    assert code == 1
    assert "has a checkpoint of another training, with different random_state" in err
    assert epls(capsys, *killed)[0] == 0
    assert list(checkpoints.glob("checkpoint-*")) == []
    assert epls(capsys, *arguments("whole.epls"))[0] == 0
    models = [load_model(tmp_path / name) for name in ("killed.epls", "whole.epls")]
    assert_array_equal(models[0].components_, models[1].components_)
    assert models[0].loss_curve_ == models[1].loss_curve_


@pytest.fixture(scope="module")
def stl10(tmp_path_factory):
    """A small data set in the official layout: 30 images of 3 classes, made of pieces of photographs."""
    folder = tmp_path_factory.mktemp("data") / "stl10_binary"
    folder.mkdir()
    first, second = load_sample_images().images
    sources = (first, second, first[::-1, :, ::-1])
    random = np.random.RandomState(0)
    labels = np.arange(30) % 3
    images = np.empty((30, 96, 96, 3), np.uint8)
    for image, label in zip(images, labels, strict=True):
        top, left = random.randint(300), random.randint(500)
        image[...] = sources[label][top : top + 96, left : left + 96]
    images.transpose(0, 3, 2, 1).tofile(folder / "train_X.bin")
    (labels + 1).astype(np.uint8).tofile(folder / "train_y.bin")
    folds = [random.permutation(30)[:18] for _ in range(10)]
    (folder / "fold_indices.txt").write_text("".join(" ".join(map(str, fold)) + "\n" for fold in folds))
    return folder.parent


def reproduce(stl10, output):
    small = ["--units", 8, "--patches", 400, "--stride", 20, "--folds", 2]
    return ["reproduce", "stl10", "--data", stl10, "--output", output, *small]


def figures(output):
    (path,) = output.glob("*.json")
    return [(fold["accuracy"], fold["C"]) for fold in json.loads(path.read_text())["folds"]]


@pytest.fixture(scope="module")
def expected(stl10, tmp_path_factory):
    """Of a run that nobody stops."""
    output = tmp_path_factory.mktemp("expected")
    assert run_in_child(command, reproduce(stl10, output)) == 0
    return figures(output)


def test_kill_9_then_the_same_command(expected, stl10, tmp_path):
    """Killed in every stage, one after the other, in the same folder."""
    cache = "epls.evaluation.cache"
    for kill_at, stages in [
        ((cache, "save_model", 1), set()),  # learned, but not saved
        ((cache, "write_atomically", 2), {"learned"}),  # encoded, but not in the journal
        ((cache, "write_atomically", 2), {"learned", "codes"}),  # a fold classified, but not noted
        ((cache, "write_atomically", 2), {"learned", "codes", "verdicts"}),  # and so the second
        (("epls.utils.files", "atomic_file", 2), {"learned", "codes", "verdicts"}),  # all is known, and not written
    ]:
        assert run_in_child(command, reproduce(stl10, tmp_path), kill_at=kill_at) == -signal.SIGKILL
        whole = [*tmp_path.glob("stages/*.safetensors"), *tmp_path.glob("stages/*.npy")]
        whole += tmp_path.glob("stages/verdicts-*.json")
        assert {path.name.split("-")[0] for path in whole} == stages, kill_at
        assert not list(tmp_path.glob("*.json"))
    assert run_in_child(command, reproduce(stl10, tmp_path)) == 0
    assert figures(tmp_path) == expected


def interrupted(arguments, messages):
    """In a process of its own: what it says on stderr goes to a file."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    with messages.open("w") as file, redirect_stderr(file):
        command(arguments)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("fit", ("epls.callbacks:OnEpoch", "on_fit_task_end", 5)),  # in the middle of a training
        ("fit", ("os", "fsync", 1)),  # while the model is written
        ("demo", ("epls.images.features:ImageFeatures", "fit", 1)),  # when it begins to learn
    ],
)
def test_ctrl_c_leaves_nothing_half_written(vectors, tmp_path, name, at):
    """What a terminal sends at Ctrl-C."""
    output, messages = tmp_path / "output" / "new", tmp_path / "messages"
    output.parent.mkdir()
    arguments = ["fit", vectors, "-o", output] if name == "fit" else ["demo", "--output", output]
    assert run_in_child(interrupted, arguments, messages, kill_at=(*at, signal.SIGINT)) == 1
    err = messages.read_text()
    assert "interrupted" in err
    assert "Traceback" not in err
    assert [path for path in output.parent.rglob("*") if path.is_file()] == []
