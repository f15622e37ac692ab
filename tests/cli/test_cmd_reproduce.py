"""`epls reproduce`: the paper's experiment on a small data set in the official layout."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from run_command import epls, few_steps
from sklearn.datasets import load_sample_images

from epls import EPLS, PAPER, ImageFeatures, load_model
from epls.cli.main import run

SMALL = ["--n-components", 8, "--n-patches", 400, "--stride", 20, "--n-folds", 2]


@pytest.fixture(scope="module")
def result(stl10, tmp_path_factory):
    output = tmp_path_factory.mktemp("results")
    with few_steps():
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
    assert report["paper"]["accuracy"] == 56.6
    assert "8 units, not 1600" in report["paper"]["differences"]
    assert report["training"]["n_iter"] == len(report["training"]["loss_curve"])
    assert report["training"]["ended_by"] == "number of epochs"
    assert report["training"]["n_units"] == 8
    assert report["patches"] == {"number": 400, "from": "training", "images": 60, "tested_on_some": True}
    (picture,) = output.glob("*.png")
    with Image.open(picture) as image:
        assert min(image.size) > 3 * 10  # three filters a side


def test_equals_the_library_by_hand(result, stl10):
    """The accuracy that a user gets who writes the same down with ImageFeatures."""
    from epls.datasets import load_stl10
    from epls.paper.judge import judge

    data = load_stl10(stl10)
    features = ImageFeatures(EPLS(8, random_state=0), patch_size=10, n_patches=400, stride=20, random_state=0)
    X = features.fit(data.train_images).transform(data.train_images)
    for fold, verdict in zip(data.folds, result[1]["folds"], strict=False):
        rest = np.setdiff1d(np.arange(60), fold)
        found = judge(X[fold], data.train_labels[fold], X[rest], data.train_labels[rest])
        assert found.accuracy == pytest.approx(verdict["accuracy"])


@pytest.mark.slow
def test_mirror_images_by_hand(stl10, tmp_path, capsys):
    from epls.datasets import load_stl10
    from epls.paper.judge import judge

    data = load_stl10(stl10)
    learned = ImageFeatures(EPLS(8, random_state=0), patch_size=10, n_patches=400, stride=20, random_state=0)
    plain = learned.fit(data.train_images)
    views = np.stack([plain.transform(images) for images in (data.train_images, data.train_images[:, :, ::-1])], axis=1)
    for kind, X in (("features", views.mean(axis=1)), ("decisions", views)):
        command = ["reproduce", "stl10", "--data", stl10, "--output", tmp_path, *SMALL, "--mirror", kind, "--json"]
        code, out, err = epls(capsys, *command)
        assert code == 0, err
        report = json.loads(out)
        assert f"mirror={kind}" in report["files"][0]
        assert f"{kind} of mirror images, too" in report["paper"]["differences"]
        for fold, verdict in zip(data.folds, report["folds"], strict=False):
            rest = np.setdiff1d(np.arange(60), fold)
            found = judge(X[fold], data.train_labels[fold], X[rest], data.train_labels[rest])
            assert found.accuracy == pytest.approx(verdict["accuracy"])


@pytest.mark.slow
def test_layers_by_hand(stl10, tmp_path, capsys, monkeypatch):
    from epls import DeepFeatures
    from epls.datasets import load_stl10
    from epls.images import patches, stack
    from epls.paper.judge import judge

    monkeypatch.setattr(patches, "FEWEST_PATCHES", 500)
    for name, value in {"_FIRST_UNITS": 6, "_GROUP_UNITS": 4, "_GROUPS": 2, "_GROUP_SIZE": 3}.items():
        monkeypatch.setattr(stack, name, value)
    data = load_stl10(stl10)
    images, settings = data.train_images, {"max_iter": 2, "random_state": 0}
    single = ImageFeatures(EPLS(8, **settings), patch_size=10, n_patches=400, stride=20, random_state=0).fit(images)
    deep = DeepFeatures(stack.usual_layers(96, 96, n_layers=2), random_state=0).fit(images)
    views = [np.hstack([model.transform(view) for model in (single, deep)]) for view in (images, images[:, :, ::-1])]
    for kind, X in (("features", np.mean(views, axis=0)), ("decisions", np.stack(views, axis=1))):
        command = ["reproduce", "stl10", "--data", stl10, "--output", tmp_path, *SMALL, "--set", "max_iter=2"]
        code, out, err = epls(capsys, *command, "--layers", "2", "--mirror", kind, "--json")
        assert code == 0, err
        report = json.loads(out)
        assert "layers=2" in report["files"][0]
        assert [layer["n_units"] for layer in report["training"]["layers"]] == [12, 16]  # both signs
        for fold, verdict in zip(data.folds, report["folds"], strict=False):
            rest = np.setdiff1d(np.arange(60), fold)
            found = judge(X[fold], data.train_labels[fold], X[rest], data.train_labels[rest])
            assert found.accuracy == pytest.approx(verdict["accuracy"])


@pytest.mark.slow
def test_highest_layer_has_sparse_codes_too(stl10, tmp_path, capsys, monkeypatch):
    from epls.images import patches, stack
    from epls.paper.experiment import _Run

    monkeypatch.setattr(patches, "FEWEST_PATCHES", 500)
    for name, value in {"_FIRST_UNITS": 6, "_GROUP_UNITS": 4, "_GROUPS": 2, "_GROUP_SIZE": 3}.items():
        monkeypatch.setattr(stack, name, value)
    common = ["reproduce", "stl10", "--data", stl10, "--output", tmp_path, *SMALL, "--set", "max_iter=2", "--json"]
    encoders, stacked = [], _Run._stacked

    def recorded(self, stack, *others):
        encoders.append([str(layer.encoder) for layer in stack.layers_])
        return stacked(self, stack, *others)

    monkeypatch.setattr(_Run, "_stacked", recorded)
    for encoder in ("natural", "sc"):
        alpha = ["--alpha", "0.1"] if encoder == "sc" else []
        code, _, err = epls(capsys, *common, "--layers", "2", "--encoder", encoder, *alpha)
        assert code == 0, err
    assert encoders == [["soft_threshold"] * 2, ["soft_threshold", "SparseCodingEncoder(alpha=0.1)"]]


def test_least_squares_by_hand(result, stl10, capsys):
    from epls.datasets import load_stl10
    from epls.paper.judge import judge

    output, report = result
    command = ["reproduce", "stl10", "--data", stl10, "--output", output, *SMALL, "--json"]
    code, out, err = epls(capsys, *command, "--classifier", "least_squares")
    assert code == 0, err
    found = json.loads(out)
    assert "least_squares" in found["files"][0]
    assert "least_squares as the classifier, not the SVM" in found["paper"]["differences"]
    assert report["folds"][0]["C"] > 0
    data = load_stl10(stl10)
    learned = ImageFeatures(EPLS(8, random_state=0), patch_size=10, n_patches=400, stride=20, random_state=0)
    # The experiment learns the scale of codes apart from the components, so that encoders can share these.
    X = learned.fit(data.train_images).with_encoder(data.train_images, "natural").transform(data.train_images)
    for fold, verdict in zip(data.folds, found["folds"], strict=False):
        rest = np.setdiff1d(np.arange(60), fold)
        again = judge(X[fold], data.train_labels[fold], X[rest], data.train_labels[rest], "least_squares")
        assert again.accuracy == pytest.approx(verdict["accuracy"])
        assert again.penalty == pytest.approx(verdict["penalty"])
    code, _, err = epls(capsys, *command, "--classifier", "least_squares", "--mirror", "decisions")
    assert code == 1
    assert "average the features of mirror images" in err


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
    assert "from 400 patches of 60 training images, some of which are also used for testing" in out
    assert "unlabeled_X.bin is missing" in err
    assert "learn:" not in err


@pytest.mark.slow
def test_sparse_coding_chooses_its_penalty(result, stl10, capsys):
    """As a user would by hand: the best in cross-validation on each fold's images, half a patch apart or more."""
    from epls import SparseCodingEncoder
    from epls.datasets import load_stl10
    from epls.paper.experiment import ALPHAS
    from epls.paper.judge import cross_validated

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
    encoder = SparseCodingEncoder(alpha=0.75)
    features = learned.with_encoder(data.train_images, encoder, stride=20, pooling="log")
    X = features.transform(data.train_images)
    by_hand = [cross_validated(X[fold], data.train_labels[fold]) for fold in data.folds[:2]]
    assert tried[0.75] == pytest.approx(np.mean(by_hand))
    code, out, _ = epls(capsys, *arguments)
    assert f"penalty {report['settings']['alpha']:g}, chosen by accuracy in cross-validation (0.5: " in out
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
    assert "--alpha nan: give a number greater than 0" in err


def test_settings_of_the_learner(result, stl10, capsys):
    output, _ = result
    arguments = ["reproduce", "stl10", "--data", stl10, "--output", output, *SMALL, "--learner", "omp"]
    code, out, _ = epls(capsys, *arguments, "--set", "n_nonzero_coefs=2", "--set", "max_iter=3", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["settings"]["learner_settings"] == {"n_nonzero_coefs": 2, "max_iter": 3}
    assert "omp" in report["files"][0]
    assert "n_nonzero_coefs=2" in report["files"][0]
    assert report["paper"]["accuracy"] == 51.8
    assert "omp with n_nonzero_coefs=2, max_iter=3" in report["paper"]["differences"][-2]
    code, _, err = epls(capsys, *arguments, "--set", "sparsity=3")
    assert code == 1
    assert "omp has no setting sparsity; it has max_iter, n_components" in err
    code, _, err = epls(capsys, *arguments, "--set", "max_iter")
    assert code == 2
    assert "--set max_iter: write it as NAME=VALUE" in err


@pytest.mark.slow
def test_the_whole_table(stl10, tmp_path, capsys):
    small = ["--n-components", 8, "--n-patches", 200, "--stride", 30, "--n-folds", 1]
    arguments = ["reproduce", "stl10", "--data", stl10, "--output", tmp_path, *small, "--table"]
    code, out, _ = epls(capsys, *arguments)
    assert code == 0
    header, *lines = out.splitlines()[2:16]
    assert header.split() == ["paper", "sum", "log"]
    assert "EPLS as printed, 8, natural" in lines[9]
    assert "EPLS, 8x2, SC" in lines[12]
    assert out.count("8 units, not 1600") == 1
    ending = "table-sum_log-n_patches=200-n_components=8-stride=30-folds=1.json"
    table = json.loads((tmp_path / f"stl10-development-from_training-{ending}").read_text())
    assert table["patches"] == {"from": "training", "images": 60, "tested_on_some": True}
    assert len(table["rows"]) == 13
    for row, line in zip(table["rows"], lines, strict=True):
        for pooling, entry in row["runs"].items():
            assert entry["failed"] is None
            assert entry["settings"]["pooling"] == pooling
            assert entry["settings"]["learner"] == row["paper"]["learner"]
            assert entry["settings"]["learner_settings"] == row["paper"]["settings"]
            assert f"{entry['accuracy']:.1f}" in line
    printed = table["rows"][9]["runs"]["sum"]
    assert printed["settings"]["learner_settings"] == {"settings": asdict(PAPER)}
    assert printed["training"]["n_units"] == 8
    n_codes = len(list((tmp_path / "stages").glob("codes-*.npy")))
    code, out, _ = epls(capsys, *arguments, "--pooling", "log")
    assert code == 0
    assert out.splitlines()[2].split() == ["paper", "log"]
    row = json.loads((tmp_path / f"stl10-development-from_training-{ending.replace('sum_', '')}").read_text())["rows"][
        9
    ]
    assert row["runs"] == {"log": table["rows"][9]["runs"]["log"]}  # taken from what was there
    assert len(list((tmp_path / "stages").glob("codes-*.npy"))) - n_codes <= 2  # another penalty may be chosen


def test_a_table_of_its_own_settings(stl10, tmp_path, capsys):
    arguments = ["reproduce", "stl10", "--data", stl10, "--output", tmp_path, "--table"]
    code, _, err = epls(capsys, *arguments, "--learner", "omp")
    assert code == 2
    assert "--learner is not for --table, which has fixed learners" in err
    code, _, err = epls(capsys, *arguments, "--paper")
    assert code == 2
    assert "--table already has a row for EPLS as printed" in err
    code, _, err = epls(capsys, "reproduce", "cifar10", "--data", stl10, "--table")
    assert code == 2
    assert "--table: the paper's experiment is for stl10 only" in err


def test_all_of_the_paper(stl10, tmp_path, capsys):
    arguments = ["reproduce", "stl10", "--data", stl10, "--output", tmp_path, "--paper", *SMALL]
    code, out, err = epls(capsys, *arguments, "--random-state", 3)
    assert code == 0, err
    path = (
        tmp_path / "stl10-development-from_training-epls-natural-sum-paper-"
        "n_components=8-n_patches=400-seed=3-stride=20-folds=2.json"
    )
    report = json.loads(path.read_text())
    settings = report["settings"]
    assert settings["learner_settings"] == {"settings": asdict(PAPER)}
    assert (settings["learner"], settings["encoder"], settings["pooling"]) == ("epls", "natural", "sum")
    assert (settings["n_components"], settings["n_patches"], settings["stride"], settings["seed"]) == (8, 400, 20, 3)
    assert (settings["whiten"], settings["split_sign"], settings["patch_size"], settings["grid"]) == (
        False,
        False,
        10,
        2,
    )
    assert "56.6 (0.66)" in out
    for line in report["paper"]["differences"]:
        assert f"\n  {line}\n" in out
    # The learner itself, by hand.
    learned = load_model(next((tmp_path / "stages").glob("learned-*.safetensors"))).estimator_
    assert learned.settings == PAPER
    training = report["training"]
    assert training["loss_curve"] == pytest.approx(learned.loss_curve_)
    before, last = learned.loss_curve_[-2:]
    assert training["ended_by"] == ("stop rule" if last > before * (1 - 1e-6) else "limit on epochs")
    assert f"learned: {learned.n_iter_} epoch(s), ended by the {training['ended_by']}; error" in out
    assert f"{training['n_never_active']} of 8 units never active" in out


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_a_limit_on_epochs_that_ended_training_is_told(stl10, tmp_path, capsys):
    """Also by a second run, which learns nothing and warns of nothing."""
    chosen = ["--set", "tol=0", "--set", "max_iter=2", "--learner", "epls"]
    arguments = ["reproduce", "stl10", "--data", stl10, "--output", tmp_path, *SMALL, *chosen]
    code, out, err = epls(capsys, *arguments)
    assert code == 0, err
    assert "warning: training ended after max_iter=2 epochs" in err
    assert "learned: 2 epoch(s), ended by the limit on epochs; error" in out
    code, out, err = epls(capsys, *arguments, "--json")
    assert "warning" not in err
    assert json.loads(out)["training"]["ended_by"] == "limit on epochs"


@pytest.mark.parametrize(
    ("contradiction", "message"),
    [
        (["--pooling", "log"], "--pooling is set by --paper"),
        (["--learner", "omp"], "--learner is set by --paper"),
        (["--encoder", "sc"], "--encoder is set by --paper"),
        (["--split-sign"], "--split-sign is set by --paper"),
        (["--whiten"], "--whiten is set by --paper"),
        (["--alpha", 1], "--alpha is set by --paper"),
        (["--grid", 3], "--grid is set by --paper"),
        (["--patch-size", 8], "--patch-size is set by --paper"),
        (["--set", "max_iter=3"], "--set is set by --paper"),
    ],
)
def test_what_contradicts_the_paper(contradiction, message, stl10, tmp_path, capsys):
    code, _, err = epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, "--paper", *contradiction)
    assert code == 2
    assert message in err
    assert not list(tmp_path.iterdir())


def test_the_paper_has_one_data_set(stl10, capsys):
    code, _, err = epls(capsys, "reproduce", "cifar10", "--data", stl10, "--paper")
    assert code == 2
    assert "--paper: the paper's experiment is for stl10 only" in err


def test_unlabelled_images_have_files_of_their_own(result, stl10, tmp_path, capsys):
    """A run with unlabeled_X.bin does not replace what one without it wrote."""
    output, folder = result[0], tmp_path / "stl10_binary"
    before = {path: path.read_bytes() for path in output.glob("*.json")}
    folder.mkdir()
    for file in (stl10 / "stl10_binary").iterdir():
        os.link(file, folder / file.name)
    (folder / "unlabeled_X.bin").write_bytes((folder / "train_X.bin").read_bytes()[: 40 * 96 * 96 * 3])
    code, out, _ = epls(capsys, "reproduce", "stl10", "--data", tmp_path, "--output", output, *SMALL, "--json")
    assert code == 0
    report = json.loads(out)
    assert report["patches"] == {"number": 400, "from": "unlabelled", "images": 40, "tested_on_some": False}
    assert Path(report["files"][0]) not in before
    assert all(path.read_bytes() == content for path, content in before.items())


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

    monkeypatch.setattr("epls.paper.experiment.judge", interrupted)
    code, out, err = epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, *SMALL)
    assert (code, out) == (1, "")
    assert "interrupted; run the same command to continue" in err
    monkeypatch.undo()
    assert epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, *SMALL)[0] == 0
