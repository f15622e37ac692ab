"""`epls reproduce`: the paper's experiment on a small data set in the official layout."""

import json
import os

import numpy as np
import pytest
from PIL import Image
from run_command import epls
from sklearn.datasets import load_sample_images

from epls import EPLS, ImageFeatures, load_model
from epls.cli.main import run

SMALL = ["--n-components", 8, "--n-patches", 400, "--stride", 20, "--n-folds", 2]


@pytest.fixture(scope="module")
def result(stl10, tmp_path_factory):
    output = tmp_path_factory.mktemp("results")
    assert run(["reproduce", "stl10", "--data", str(stl10), "--output", str(output), *map(str, SMALL)]) == 0
    (path,) = output.glob("*.json")
    return output, json.loads(path.read_text())


def test_writes_figures_and_filters(result):
    output, report = result
    assert report["protocol"] == "development"
    assert len(report["folds"]) == 2
    assert report["accuracy"] == pytest.approx(np.mean([fold["accuracy"] for fold in report["folds"]]))
    assert report["settings"]["n_components"] == 8
    assert set(report["seconds"]) == {"learn", "encode", "classify"}
    assert "scikit-learn" in report["versions"]
    assert report["paper"] is None  # it has no row for 8 units
    (picture,) = output.glob("*.png")
    with Image.open(picture) as image:
        assert min(image.size) > 3 * 10  # three filters a side


def test_equals_the_library_by_hand(result, stl10):
    """The accuracy that a user gets who writes the same down with ImageFeatures."""
    from epls.datasets import load_stl10
    from epls.evaluation.protocol import judge

    data = load_stl10(stl10)
    features = ImageFeatures(EPLS(8, random_state=0), patch_size=10, n_patches=400, stride=20, random_state=0)
    X = features.fit(data.train_images).transform(data.train_images)
    for fold, verdict in zip(data.folds, result[1]["folds"], strict=False):
        rest = np.setdiff1d(np.arange(60), fold)
        found = judge(X[fold], data.train_labels[fold], X[rest], data.train_labels[rest])
        assert found.accuracy == pytest.approx(verdict["accuracy"])


def test_again_takes_what_is_there(result, stl10, capsys):
    output, report = result
    before = {path: path.stat().st_mtime_ns for path in (output / "stages").iterdir()}
    code, out, _ = epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", output, *SMALL, "--json")
    assert code == 0
    assert json.loads(out)["folds"] == report["folds"]
    after = {path: path.stat().st_mtime_ns for path in (output / "stages").iterdir() if path.name != ".lock"}
    assert all(before[path] == stamp for path, stamp in after.items())


def test_another_encoder_uses_the_learned_components(result, stl10, capsys):
    output, _ = result
    code, out, err = epls(
        capsys, "reproduce", "stl10", "--data", stl10, "--output", output, *SMALL,
        "--encoder", "soft_threshold", "--split-sign",
    )  # fmt: skip
    assert code == 0
    assert len(list((output / "stages").glob("learned-*.safetensors"))) == 1
    assert "accuracy (std)" in out
    assert "there is no unlabeled_X.bin" in err
    assert "learn:" not in err


@pytest.mark.slow
def test_sparse_coding_chooses_its_penalty(result, stl10, capsys):
    """As a user would by hand: the best in cross-validation on each fold's images, half a patch apart or more."""
    from epls import SparseCodingEncoder
    from epls.datasets import load_stl10
    from epls.evaluation.experiment import ALPHAS
    from epls.evaluation.protocol import cross_validated

    output, _ = result
    arguments = ["reproduce", "stl10", "--data", stl10, "--output", output, *SMALL, "--encoder", "sc"]
    code, out, _ = epls(capsys, *arguments, "--json")
    assert code == 0
    report = json.loads(out)
    assert report["settings"]["encoder"] == "sparse_coding"
    assert report["settings"]["split_sign"] is True
    tried = {trial["alpha"]: trial["accuracy"] for trial in report["alphas"]}
    assert tuple(tried) == ALPHAS
    assert tried[report["settings"]["alpha"]] == max(tried.values())

    data = load_stl10(stl10)
    learned = load_model(next((output / "stages").glob("learned-*.safetensors")))
    features = learned.with_encoder(data.train_images, SparseCodingEncoder(alpha=0.75), stride=20)
    X = features.transform(data.train_images)
    by_hand = [cross_validated(X[fold], data.train_labels[fold]) for fold in data.folds[:2]]
    assert tried[0.75] == pytest.approx(np.mean(by_hand))
    code, out, _ = epls(capsys, *arguments)
    assert f"penalty {report['settings']['alpha']:g}, by accuracy in cross-validation (0.5: " in out
    code, out, _ = epls(capsys, *arguments, "--alpha", "2", "--json")
    assert (json.loads(out)["settings"]["alpha"], json.loads(out)["alphas"]) == (2.0, [])


def test_alpha_is_for_encoders_that_have_one(stl10, tmp_path, capsys):
    code, _, err = epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, "--alpha", "1")
    assert code == 2
    assert "the encoder natural has no such setting" in err
    code, _, err = epls(
        capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, "--encoder", "sc", "--alpha", "nan"
    )
    assert code == 2
    assert "--alpha nan: give a number above 0" in err


def test_settings_of_the_learner(result, stl10, capsys):
    output, _ = result
    arguments = ["reproduce", "stl10", "--data", stl10, "--output", output, *SMALL, "--learner", "omp"]
    code, out, _ = epls(capsys, *arguments, "--set", "n_nonzero_coefs=2", "--set", "max_iter=3", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["settings"]["learner_settings"] == {"n_nonzero_coefs": 2, "max_iter": 3}
    assert "omp" in report["files"][0]
    assert "n_nonzero_coefs=2" in report["files"][0]
    code, _, err = epls(capsys, *arguments, "--set", "sparsity=3")
    assert code == 1
    assert "omp has no setting sparsity; it has max_iter, n_components" in err
    code, _, err = epls(capsys, *arguments, "--set", "max_iter")
    assert code == 2
    assert "--set max_iter: give NAME=VALUE" in err


@pytest.mark.slow
def test_the_whole_table(stl10, tmp_path, capsys):
    small = ["--n-components", 8, "--n-patches", 200, "--stride", 30, "--n-folds", 1]
    arguments = ["reproduce", "stl10", "--data", stl10, "--output", tmp_path, *small, "--table"]
    code, out, _ = epls(capsys, *arguments)
    assert code == 0
    assert out.count("\n") == 16
    assert "EPLS, 1600x2, SC" in out
    rows = json.loads((tmp_path / "stl10-development-table-log-n_components8-stride30-folds1.json").read_text())
    assert len(rows) == 12
    assert [row["paper"]["learner"] for row in rows] == [row["settings"]["learner"] for row in rows]
    assert all(row["failed"] is None for row in rows)
    code, _, err = epls(capsys, *arguments, "--learner", "omp")
    assert code == 2
    assert "--table has its own learners" in err
    code, _, err = epls(capsys, "reproduce", "cifar10", "--data", stl10, "--table")
    assert code == 2
    assert "--table: the paper's table is about stl10" in err


def test_the_test_protocol_needs_the_test_set(stl10, tmp_path, capsys):
    code, out, err = epls(
        capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, "--protocol", "test", *SMALL
    )
    assert (code, out) == (1, "")
    assert 'protocol="test" needs test_X.bin and test_y.bin' in err


def test_the_test_protocol(stl10, tmp_path, capsys):
    """With the training images as test images, a fold is tested on all of them."""
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    for file in (stl10 / "stl10_binary").iterdir():
        os.link(file, folder / file.name)
        os.link(file, folder / file.name.replace("train", "test")) if "train" in file.name else None
    code, out, err = epls(
        capsys, "reproduce", "stl10", "--data", tmp_path, "--output", tmp_path / "o", *SMALL, "--json"
    )
    assert code == 0, err
    report = json.loads(out)
    assert report["protocol"] == "test"
    assert all(round(fold["accuracy"] * 60 / 100, 6).is_integer() for fold in report["folds"])


def test_bad_data_is_named(stl10, tmp_path, capsys):
    code, out, err = epls(capsys, "reproduce", "stl10", "--data", tmp_path / "nowhere")
    assert (code, out) == (1, "")
    assert "nowhere" in err
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    for file in (stl10 / "stl10_binary").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    with (folder / "train_X.bin").open("r+b") as file:
        file.truncate(1000)
    code, out, err = epls(capsys, "reproduce", "stl10", "--data", tmp_path, "--output", tmp_path / "o")
    assert (code, out) == (1, "")
    assert "train_X.bin" in err
    assert "Traceback" not in err


def test_a_second_run_at_the_same_place_is_refused(result, stl10, capsys):
    from epls.evaluation.cache import Cache

    output, _ = result
    with Cache(output / "stages").locked():
        code, _, err = epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", output, *SMALL)
    assert code == 1
    assert "another run is using" in err


def test_cifar10(tmp_path, capsys):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    photograph = load_sample_images().images[0]
    random = np.random.RandomState(0)
    for name in [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]:
        records = []
        for k in range(20):
            top, left = random.randint(390), random.randint(600)
            image = photograph[top : top + 32, left : left + 32] // (1 + k % 2 * 2)
            records.append(np.r_[np.uint8(k % 2), image.transpose(2, 0, 1).reshape(-1)])
        np.concatenate(records).astype(np.uint8).tofile(folder / name)
    for protocol in ("test", "development"):
        code, out, err = epls(
            capsys, "reproduce", "cifar10", "--data", tmp_path, "--output", tmp_path / "o", "--n-components", 8,
            "--n-patches", 400, "--stride", 6, "--protocol", protocol, "--json",
        )  # fmt: skip
        assert code == 0, err
        report = json.loads(out)
        assert report["settings"]["patch_size"] == 6
        assert len(report["folds"]) == 1
        assert round(report["accuracy"] * 20 / 100, 6).is_integer()


def test_ctrl_c_says_how_to_go_on(monkeypatch, capsys, stl10, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("epls.evaluation.experiment.judge", interrupted)
    code, out, err = epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, *SMALL)
    assert (code, out) == (1, "")
    assert "interrupted; the same command goes on" in err
    monkeypatch.undo()
    assert epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, *SMALL)[0] == 0
