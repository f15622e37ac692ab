"""The commands as a user gives them, on small real files."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from run_command import epls
from sklearn.datasets import load_sample_images

from epls import ImageFeatures, load_model
from epls.cli.main import run


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Pieces of photographs, of two sizes, as files."""
    folder = tmp_path_factory.mktemp("pictures")
    first, second = load_sample_images().images
    for k in range(6):
        source = first if k % 2 else second
        Image.fromarray(source[40 * k : 40 * k + 30, 50 : 80 + 4 * (k % 2)]).save(folder / f"picture{k}.png")
    return folder


@pytest.fixture(scope="module")
def stl10(tmp_path_factory):
    """A small data set in the official layout: 60 images of 3 classes, made of pieces of photographs."""
    folder = tmp_path_factory.mktemp("data") / "stl10_binary"
    folder.mkdir()
    first, second = load_sample_images().images
    random = np.random.RandomState(0)
    labels = np.arange(60) % 3
    images = np.empty((60, 96, 96, 3), np.uint8)
    for image, label in zip(images, labels, strict=True):
        top, left = random.randint(300), random.randint(500)
        source = (first, second, first[::-1, :, ::-1])[label]
        image[...] = source[top : top + 96, left : left + 96]
    images.transpose(0, 3, 2, 1).tofile(folder / "train_X.bin")
    (labels + 1).astype(np.uint8).tofile(folder / "train_y.bin")
    folds = [random.permutation(60)[:30] for _ in range(10)]
    (folder / "fold_indices.txt").write_text("".join(" ".join(map(str, fold)) + "\n" for fold in folds))
    return folder.parent


SMALL = ["--units", 8, "--patches", 400, "--stride", 20, "--folds", 2]


@pytest.fixture(scope="module")
def result(stl10, tmp_path_factory):
    output = tmp_path_factory.mktemp("results")
    assert run(["reproduce", "stl10", "--data", str(stl10), "--output", str(output), *map(str, SMALL)]) == 0
    (path,) = output.glob("*.json")
    return output, json.loads(path.read_text())


class TestReproduce:
    def test_writes_figures_and_filters(self, result):
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

    def test_equals_the_library_by_hand(self, result, stl10):
        """The accuracy that a user gets who writes the same down with ImageFeatures."""
        from epls import EPLS
        from epls.datasets import load_stl10
        from epls.evaluation.protocol import judge

        data = load_stl10(stl10)
        features = ImageFeatures(EPLS(8, random_state=0), patch_size=10, n_patches=400, stride=20, random_state=0)
        X = features.fit(data.train_images).transform(data.train_images)
        for fold, verdict in zip(data.folds, result[1]["folds"], strict=False):
            rest = np.setdiff1d(np.arange(60), fold)
            found = judge(X[fold], data.train_labels[fold], X[rest], data.train_labels[rest])
            assert found.accuracy == pytest.approx(verdict["accuracy"])

    def test_again_takes_what_is_there(self, result, stl10, capsys):
        output, report = result
        before = {path: path.stat().st_mtime_ns for path in (output / "stages").iterdir()}
        code, out, _ = epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", output, *SMALL, "--json")
        assert code == 0
        assert json.loads(out)["folds"] == report["folds"]
        after = {path: path.stat().st_mtime_ns for path in (output / "stages").iterdir() if path.name != ".lock"}
        assert all(before[path] == stamp for path, stamp in after.items())

    def test_another_encoder_uses_the_learned_bases(self, result, stl10, capsys):
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

    def test_sparse_coding_chooses_its_penalty(self, result, stl10, capsys):
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

    def test_alpha_is_for_encoders_that_have_one(self, stl10, tmp_path, capsys):
        code, _, err = epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, "--alpha", "1")
        assert code == 2
        assert "the encoder natural has no such setting" in err
        code, _, err = epls(
            capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, "--encoder", "sc", "--alpha", "nan"
        )
        assert code == 2
        assert "--alpha nan: give a number above 0" in err

    def test_settings_of_the_learner(self, result, stl10, capsys):
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

    def test_the_whole_table(self, stl10, tmp_path, capsys):
        small = ["--units", 8, "--patches", 200, "--stride", 30, "--folds", 1]
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

    def test_kill_9_then_the_same_command(self, result, stl10, tmp_path):
        """Killed wherever it happens to be, three times; the figures are those of the run that was never stopped."""
        arguments = ["reproduce", "stl10", "--data", stl10, "--output", tmp_path, *SMALL, "--json"]
        command = [sys.executable, "-c", "from epls.cli import main; main()", *map(str, arguments)]
        for seconds in (1.5, 2.5, 4):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(seconds)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        report = json.loads(run.stdout)
        expected = result[1]["folds"]
        assert [fold["accuracy"] for fold in report["folds"]] == [fold["accuracy"] for fold in expected]
        assert [fold["C"] for fold in report["folds"]] == [fold["C"] for fold in expected]

    def test_the_test_protocol_needs_the_test_set(self, stl10, tmp_path, capsys):
        code, out, err = epls(
            capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, "--protocol", "test", *SMALL
        )
        assert (code, out) == (1, "")
        assert "--protocol test needs test_X.bin and test_y.bin" in err

    def test_the_test_protocol(self, stl10, tmp_path, capsys):
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

    def test_bad_data_is_named(self, stl10, tmp_path, capsys):
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

    def test_a_second_run_at_the_same_place_is_refused(self, result, stl10, capsys):
        from epls.evaluation.cache import Cache

        output, _ = result
        with Cache(output / "stages").locked():
            code, _, err = epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", output, *SMALL)
        assert code == 1
        assert "another run is using" in err

    def test_cifar10(self, tmp_path, capsys):
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
                capsys, "reproduce", "cifar10", "--data", tmp_path, "--output", tmp_path / "o", "--units", 8,
                "--patches", 400, "--stride", 6, "--protocol", protocol, "--json",
            )  # fmt: skip
            assert code == 0, err
            report = json.loads(out)
            assert report["settings"]["patch_size"] == 6
            assert len(report["folds"]) == 1
            assert round(report["accuracy"] * 20 / 100, 6).is_integer()


@pytest.fixture(scope="module")
def model(pictures, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "features.epls"
    arguments = ["fit", pictures, "-o", path, "--units", 8, "--patch-size", 6, "--patches", 300]
    assert run([str(argument) for argument in arguments]) == 0
    return path


class TestFitAndTransform:
    def test_features_are_those_of_the_library(self, model, pictures, tmp_path, capsys):
        code, out, _ = epls(capsys, "transform", model, pictures, "-o", tmp_path / "f.npy")
        assert code == 0
        assert "features of 6 images, 32 each" in out
        found = np.load(tmp_path / "f.npy")
        np.testing.assert_array_equal(found, load_model(model).transform(pictures))
        assert (tmp_path / "f.names.txt").read_text().split() == [f"picture{k}.png" for k in range(6)]

    def test_arrays_of_images(self, model, tmp_path, capsys):
        images = np.random.RandomState(0).randint(256, size=(3, 12, 12, 3)).astype(np.uint8)
        np.save(tmp_path / "images.npy", images)
        code, out, _ = epls(capsys, "transform", model, tmp_path / "images.npy", "-o", tmp_path / "f.npy", "--json")
        assert code == 0
        assert json.loads(out)["shape"] == [3, 32]
        np.testing.assert_array_equal(np.load(tmp_path / "f.npy"), load_model(model).transform(images))

    def test_bad_images_are_named_or_skipped(self, model, pictures, tmp_path, capsys):
        folder = tmp_path / "mixed"
        folder.mkdir()
        for file in pictures.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        (folder / "broken.png").write_bytes((pictures / "picture0.png").read_bytes()[:200])
        Image.new("L", (20, 20)).save(folder / "grey.png")
        Image.new("RGB", (5, 50)).save(folder / "narrow.png")
        output = tmp_path / "f.npy"
        code, out, err = epls(capsys, "transform", model, folder, "-o", output)
        assert (code, out) == (1, "")
        assert all(name in err for name in ("broken.png", "grey.png", "narrow.png", "--skip-bad"))
        assert not output.exists()
        code, out, err = epls(capsys, "transform", model, folder, "-o", output, "--skip-bad", "--json")
        assert code == 0
        assert json.loads(out) == {"features": str(output), "shape": [6, 32], "skipped": 3}
        assert err.count("skipped ") == 3

    def test_the_model_decides_which_kind_is_skipped(self, model, pictures, tmp_path, capsys):
        """Most images of the folder are grey, but the model is for colour."""
        (tmp_path / "colour.png").write_bytes((pictures / "picture0.png").read_bytes())
        for k in range(3):
            Image.new("L", (20, 20)).save(tmp_path / f"grey{k}.png")
        code, out, err = epls(capsys, "transform", model, tmp_path, "-o", tmp_path / "f.npy", "--skip-bad", "--json")
        assert code == 0, err
        assert json.loads(out)["shape"] == [1, 32]

    def test_images_are_numbered_from_the_first(self, model, tmp_path, capsys):
        images = np.zeros((70, 12, 12, 3), np.float32)
        np.save(tmp_path / "images.npy", images.astype(np.uint8))
        images[69, 0, 0, 0] = np.nan
        np.save(tmp_path / "nan.npy", images)
        code, _, err = epls(capsys, "transform", model, tmp_path / "nan.npy", "-o", tmp_path / "f.npy")
        assert code == 1
        assert "image 0 has values of type float32, but features were learned from whole numbers" in err
        for name, array in (("empty", images[:0]), ("number", np.float32(3))):
            np.save(tmp_path / f"{name}.npy", array)
            code, _, err = epls(capsys, "transform", model, tmp_path / f"{name}.npy", "-o", tmp_path / "f.npy")
            assert code == 1
            assert "Traceback" not in err
            assert not (tmp_path / "f.npy").exists()

    def test_nothing_is_overwritten_unless_forced(self, model, pictures, tmp_path, capsys):
        output = tmp_path / "f.npy"
        output.write_bytes(b"precious")
        code, _, err = epls(capsys, "transform", model, pictures, "-o", output)
        assert code == 1
        assert "is there already" in err
        assert output.read_bytes() == b"precious"
        assert epls(capsys, "transform", model, pictures, "-o", output, "--force")[0] == 0
        assert len(np.load(output)) == 6

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["fit", "nowhere", "-o", "m"], 1, "nowhere"),
            (["fit", "{pictures}", "-o", "nowhere/m"], 1, "there is no folder nowhere"),
            (["fit", "{pictures}", "-o", "m", "--patch-size", "31"], 1, "32 x 32 is the least"),
            (["fit", "{pictures}", "-o", "m", "--units", "0"], 2, "--units"),
            (["fit", "{pictures}", "-o", "m", "--units", "50", "--patches", "40"], 1, "n_components=50 is more than"),
            (["transform", "nowhere", "{pictures}", "-o", "f.npy"], 1, "there is no file nowhere"),
            (["transform", "{pictures}", "{pictures}", "-o", "f.npy"], 1, "is a folder"),
            (["transform", "m", "{pictures}", "-o", "f.txt"], 2, "written as .npy"),
            (["nonsense"], 2, "No such command"),
        ],
    )
    def test_errors_are_one_line(self, pictures, tmp_path, monkeypatch, capsys, arguments, code, message):
        monkeypatch.chdir(tmp_path)
        found, out, err = epls(capsys, *(argument.format(pictures=pictures) for argument in arguments))
        assert found == code
        assert out == ""
        assert message in err
        assert "Traceback" not in err
        assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """Pieces of two photographs, in a folder for each."""
    folder = tmp_path_factory.mktemp("classes")
    for name, source in zip(("china", "flower"), load_sample_images().images, strict=True):
        (folder / name).mkdir()
        for k in range(12):
            Image.fromarray(source[25 * k : 25 * k + 24, 20 * k : 20 * k + 24]).save(folder / name / f"{k}.png")
    return folder


class TestCompare:
    SMALL = ("--units", 6, "--patches", 300, "--patch-size", 6, "--stride", 6, "--folds", 2)

    def test_table_chart_and_json(self, classes, tmp_path, capsys):
        chosen = ["--learner", "epls", "--learner", "raw", "--learner", "omp"]
        code, out, _ = epls(capsys, "compare", classes, "--output", tmp_path, *self.SMALL, *chosen)
        assert code == 0
        report = json.loads((tmp_path / "compare.json").read_text())
        entries = {entry["name"]: entry for entry in report["entries"]}
        assert entries["epls, natural"]["settings"]["n_components"] == 6
        assert len(entries["epls, natural"]["folds"]) == 2
        assert set(entries) == {"epls, natural", "raw, natural", "omp, whitened, natural"}
        assert entries["epls, natural"]["n_meta_parameters"] == 0
        assert entries["omp, whitened, natural"]["n_meta_parameters"] == 1
        assert entries["raw, natural"]["n_units"] == 108
        assert 0 <= entries["epls, natural"]["n_dead"] <= 6
        best = max(entries.values(), key=lambda entry: entry["accuracy"])
        assert f"{best['accuracy']:.1f} ({best['std']:.2f})" in out.splitlines()[1]
        with Image.open(tmp_path / "compare.png") as chart:
            assert chart.width > 500

    def test_archives_and_encoders(self, tmp_path, capsys):
        images = np.random.default_rng(0).integers(256, size=(20, 12, 12), dtype=np.uint8)
        np.savez(tmp_path / "data.npz", images=images, labels=np.array(["a", "b"] * 10))
        code, out, _ = epls(
            capsys, "compare", tmp_path / "data.npz", "--output", tmp_path / "out", *self.SMALL, "--learner", "epls",
            "--encoder", "natural", "--encoder", "soft_threshold", "--json",
        )  # fmt: skip
        assert code == 0
        names = [entry["name"] for entry in json.loads(out)["entries"]]
        assert names == ["epls, natural", "epls, soft_threshold, x2"]
        assert len(list((tmp_path / "out" / "stages").glob("learned-*.safetensors"))) == 1

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ({"images": np.zeros((4, 8, 8), np.uint8)}, "has no labels, but images"),
            ({"images": np.zeros((4, 8), np.uint8), "labels": np.zeros(4)}, "do not go together"),
            (
                {"images": np.zeros((3, 8, 8), np.uint8), "labels": np.arange(3)},
                "3 class(es), the smallest with 1 image",
            ),
            (
                {"images": np.zeros((9, 8, 8), np.uint8), "labels": np.zeros(9)},
                "1 class(es), the smallest with 9 image",
            ),
            ({"images": np.zeros((9, 8, 8), np.uint8), "labels": np.arange(9) % 2}, "are too small for patches of 10"),
        ],
    )
    def test_bad_archives_are_told(self, content, message, tmp_path, capsys):
        np.savez(tmp_path / "data.npz", **content)
        code, _, err = epls(capsys, "compare", tmp_path / "data.npz", "--output", tmp_path / "out")
        assert code == 1
        assert message in err
        assert err.count("\n") == 1

    def test_settings_and_failures_have_their_rows(self, classes, tmp_path, capsys):
        """A learner that fails stops no other."""
        chosen = [
            "--learner",
            "omp",
            "--learner",
            "kmeans",
            "--set",
            "omp.n_nonzero_coefs=2",
            "--set",
            "kmeans.max_iter=0",
        ]
        code, out, _ = epls(capsys, "compare", classes, "--output", tmp_path, *self.SMALL, *chosen)
        assert code == 0
        assert "omp, n_nonzero_coefs=2, whitened, natural" in out
        assert "kmeans, max_iter=0, whitened, triangle" in out
        assert "failed: The 'max_iter' parameter" in out
        code, _, err = epls(capsys, "compare", classes, "--output", tmp_path, "--set", "rica.max_iter=2")
        assert code == 2
        assert "--set rica.max_iter: give LEARNER.NAME=VALUE" in err

    def test_when_all_fail(self, classes, tmp_path, capsys):
        arguments = ["compare", classes, "--units", 400, "--patches", 150, "--patch-size", 5, "--stride", 8]
        code, out, err = epls(capsys, *arguments, "--learner", "epls", "--output", tmp_path, "--json")
        assert code == 1
        assert "none of the learners could be judged" in err
        told = json.loads(out, parse_constant=pytest.fail)  # NaN is not JSON
        assert told["entries"][0]["accuracy"] is None

    def test_another_comparison_is_not_replaced(self, classes, tmp_path, capsys):
        arguments = ["compare", classes, "--patches", 150, "--patch-size", 5, "--stride", 8, "--output", tmp_path]
        assert epls(capsys, *arguments, "--learner", "raw")[0] == 0
        before = (tmp_path / "compare.json").read_bytes()
        code, _, err = epls(capsys, *arguments, "--learner", "raw", "--learner", "random_patches", "--units", 5)
        assert code == 1
        assert "of another comparison" in err
        assert (tmp_path / "compare.json").read_bytes() == before
        assert epls(capsys, *arguments, "--learner", "raw")[0] == 0
        assert epls(capsys, *arguments, "--learner", "random_patches", "--units", 5, "--force")[0] == 0

    def test_bad_folders_are_told(self, classes, pictures, tmp_path, capsys):
        code, _, err = epls(capsys, "compare", pictures, "--output", tmp_path)
        assert code == 1
        assert "has images outside of sub-folders" in err
        code, _, err = epls(capsys, "compare", tmp_path / "nothing", "--output", tmp_path)
        assert code == 1
        assert "is neither a folder nor an .npz file" in err
        (tmp_path / "data.npz").write_bytes(b"PK nothing")
        code, _, err = epls(capsys, "compare", tmp_path / "data.npz", "--output", tmp_path)
        assert code == 1
        assert "data.npz" in err


def test_help_is_quick_and_loads_nothing_heavy():
    code = (
        "import sys; from epls.cli.main import run; run(['--help']); "
        "print([m for m in ('numpy', 'sklearn', 'numba', 'scipy', 'rich') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reproduce" in run.stdout
    assert run.stdout.strip().endswith("[]")


def test_ctrl_c_says_how_to_go_on(monkeypatch, capsys, stl10, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("epls.evaluation.experiment.judge", interrupted)
    code, out, err = epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, *SMALL)
    assert (code, out) == (1, "")
    assert "interrupted; the same command goes on" in err
    monkeypatch.undo()
    assert epls(capsys, "reproduce", "stl10", "--data", stl10, "--output", tmp_path, *SMALL)[0] == 0
