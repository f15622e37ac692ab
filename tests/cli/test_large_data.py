"""Commands on data in parts, and trainings that are killed."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from run_command import epls

from epls import EPLS, Checkpoint, load_model, open_shards, read_notes


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """The same vectors as a file, a folder of files, and a zarr array."""
    folder = tmp_path_factory.mktemp("work")
    X = np.random.RandomState(0).normal(size=(900, 5)).astype(np.float32)
    np.save(folder / "x.npy", X)
    (folder / "parts").mkdir()
    for number, part in enumerate(np.split(X, [200, 210])):
        np.save(folder / "parts" / f"{number}.npy", part)
    stored = zarr.create_array(str(folder / "x.zarr"), shape=X.shape, chunks=(100, 5), dtype=X.dtype)
    stored[:] = X
    return folder


@pytest.mark.parametrize("name", ["parts", "x.zarr"])
def test_fit_transform_and_report(work, name, tmp_path, capsys):
    model, codes, page = tmp_path / "m.epls", tmp_path / "c.npy", tmp_path / "r.html"
    code, out, err = epls(capsys, "fit", work / name, "-o", model, "--units", 6)
    assert (code, "900 vectors" in out) == (0, True), err
    data = open_shards(work / name) if name == "parts" else zarr.open_array(work / name)
    assert_array_equal(load_model(model).components_, EPLS(6, random_state=0).fit(data).components_)
    assert read_notes(model)["samples"] == 900
    assert epls(capsys, "transform", model, work / name, "-o", codes)[0] == 0
    assert_allclose(np.load(codes), load_model(model).transform(np.load(work / "x.npy")), atol=1e-6)
    assert epls(capsys, "report", model, "--data", work / name, "-o", page)[0] == 0
    assert page.stat().st_size > 10_000


def test_bad_parts(work, tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.zeros((4, 3)))
    np.save(tmp_path / "b.npy", np.zeros((4, 2)))
    code, _, err = epls(capsys, "fit", tmp_path, "-o", tmp_path / "m.epls")
    assert code == 1
    assert "b.npy has 2 features" in err
    broken = tmp_path / "broken.zarr"
    broken.mkdir()
    (broken / "zarr.json").write_text("{")
    code, _, err = epls(capsys, "fit", broken, "-o", tmp_path / "m.epls")
    assert code == 1
    assert "broken.zarr is not a zarr array that can be read" in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "m.epls").exists()


def test_images_in_a_zarr_array(tmp_path, capsys):
    images = np.random.RandomState(0).randint(256, size=(6, 20, 20, 3)).astype(np.uint8)
    stored = zarr.create_array(str(tmp_path / "i.zarr"), shape=images.shape, chunks=(4, 20, 20, 3), dtype=images.dtype)
    stored[:] = images
    model, features = tmp_path / "m.epls", tmp_path / "f.npy"
    arguments = ("fit", tmp_path / "i.zarr", "-o", model, "--units", 5, "--patches", 300, "--patch-size", 5)
    assert epls(capsys, *arguments, "--checkpoint", tmp_path / "kept")[0] == 0
    assert epls(capsys, "transform", model, tmp_path / "i.zarr", "-o", features)[0] == 0
    assert_array_equal(np.load(features), load_model(model).transform(images))


def test_a_folder_of_images_with_labels_beside_is_one_of_images(tmp_path, capsys):
    from PIL import Image

    for number in range(3):
        pixels = np.random.RandomState(number).randint(256, size=(20, 20, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    np.save(tmp_path / "labels.npy", np.arange(3))
    arguments = ("fit", tmp_path, "-o", tmp_path / "m.epls", "--units", 5, "--patches", 300, "--patch-size", 5)
    code, out, err = epls(capsys, *arguments)
    assert (code, "3 images" in out) == (0, True), err


@pytest.mark.parametrize("option", [("--scale",), ("--learner", "omp")])
def test_what_needs_all_vectors_in_memory(work, tmp_path, capsys, option):
    code, _, err = epls(capsys, "fit", work / "parts", "-o", tmp_path / "m.epls", *option)
    assert code == 2
    assert f"{' '.join(option)} needs all vectors in memory" in err


def test_checkpoints_stay_until_the_model_is_on_the_disk(work, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(Checkpoint.__init__.__kwdefaults__, "seconds", 0.02)
    arguments = command(work, "-o", tmp_path / "m.epls", "--checkpoint", tmp_path / "kept")
    with monkeypatch.context() as broken:
        broken.setattr("epls.persistence.write_atomically", no_room)
        code, _, err = epls(capsys, *arguments)
    assert code == 1
    assert "disk" in err
    assert len(list((tmp_path / "kept").iterdir())) == 2
    assert epls(capsys, *arguments)[0] == 0
    assert list((tmp_path / "kept").iterdir()) == []


def no_room(path, content):
    raise OSError(errno.ENOSPC, "No space left on device")


def command(work, *more):
    return ["fit", str(work / "x.npy"), "--units", "10", "--threads", "1", *map(str, more)]


def test_a_killed_fit_goes_on(work, tmp_path, capsys):
    """Checkpoints are a minute apart: here, after every batch."""
    script = (
        "import sys, epls.algorithm.checkpoint as c; from epls.cli.main import run\n"
        "c.Checkpoint.__init__.__kwdefaults__['seconds'] = 0.0\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    checkpoints = tmp_path / "kept"
    killed = command(work, "-o", tmp_path / "killed.epls", "--checkpoint", checkpoints)
    process = subprocess.Popen([sys.executable, "-c", script, *killed], stderr=subprocess.DEVNULL)
    while process.poll() is None and len(list(checkpoints.glob("*.safetensors"))) < 2:
        time.sleep(0.01)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 1 <= len(list(checkpoints.glob("checkpoint-*.safetensors"))) <= 2
    assert not (tmp_path / "killed.epls").exists()

    other = command(work, "-o", tmp_path / "o.epls", "--checkpoint", checkpoints, "--seed", 1)
    code, _, err = epls(capsys, *other)
    assert code == 1
    assert "is the checkpoint of another training, which differs in random_state" in err
    assert epls(capsys, *killed)[0] == 0
    assert list(checkpoints.glob("checkpoint-*")) == []
    assert epls(capsys, *command(work, "-o", tmp_path / "whole.epls"))[0] == 0
    models = [load_model(tmp_path / name) for name in ("killed.epls", "whole.epls")]
    assert_array_equal(models[0].components_, models[1].components_)
    assert models[0].loss_curve_ == models[1].loss_curve_


def test_ctrl_c_says_where_it_goes_on(work, tmp_path, capsys, monkeypatch):
    def interrupted(self, X, y=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(EPLS, "fit", interrupted)
    arguments = command(work, "-o", tmp_path / "m", "--checkpoint", tmp_path / "kept")
    code, _, err = epls(capsys, *arguments)
    assert (code, "starts again" in err) == (1, True)  # nothing has been written yet
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "checkpoint-00000001.safetensors").touch()
    code, _, err = epls(capsys, *arguments)
    assert code == 1
    assert f"the same command goes on from {tmp_path / 'kept'}" in err


def test_only_epls_has_checkpoints(work, tmp_path, capsys):
    arguments = command(work, "-o", tmp_path / "m", "--checkpoint", tmp_path / "kept", "--learner", "omp")
    code, _, err = epls(capsys, *arguments)
    assert code == 2
    assert "only epls can go on in the middle" in err
