"""`epls transform`: the features of images and vectors."""

import io
import json
import os
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from run_command import check_error, epls
from sklearn.datasets import load_breast_cancer

from epls import EPLS, ImageFolder, load_model, save_model
from epls.images.recipes import learned_features


def test_features_are_those_of_the_library(model, pictures, tmp_path, capsys):
    code, out, _ = epls(capsys, "transform", model, pictures, "-o", tmp_path / "f.npz")
    assert code == 0
    assert "features of 6 images, 32 each" in out
    with np.load(tmp_path / "f.npz") as found:
        np.testing.assert_array_equal(found["features"], load_model(model).transform(pictures))
        assert found["names"].tolist() == [f"picture{k}.png" for k in range(6)]
    assert [path.name for path in tmp_path.iterdir()] == ["f.npz"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_of_features(model, pictures, tmp_path, capsys, ending):
    code, _, err = epls(capsys, "transform", model, pictures, "-o", tmp_path / f"f.{ending}")
    assert code == 0, err
    frame = getattr(pd, f"read_{ending}")(tmp_path / f"f.{ending}")
    assert frame["file"].tolist() == [f"picture{k}.png" for k in range(6)]
    assert frame.columns[1:].tolist() == load_model(model).get_feature_names_out().tolist()
    found = frame.drop(columns="file").to_numpy(np.float32)
    np.testing.assert_array_equal(found, load_model(model).transform(pictures))
    labels = pd.DataFrame({"file": ["picture3.png", "picture0.png"], "label": [1, 0]})
    assert frame.merge(labels, on="file")["label"].tolist() == [0, 1]


def test_models_that_return_frames(model, pictures, tmp_path, capsys):
    save_model(load_model(model).set_output(transform="pandas"), tmp_path / "frames.epls")
    code, _, err = epls(capsys, "transform", tmp_path / "frames.epls", pictures, "-o", tmp_path / "f.npz")
    assert code == 0, err
    with np.load(tmp_path / "f.npz") as found:
        np.testing.assert_array_equal(found["features"], load_model(model).transform(pictures))


@pytest.mark.parametrize("name", ["alone", "scaled"])
def test_several_layers(stack, pictures, tmp_path, capsys, name):
    code, out, _ = epls(capsys, "transform", stack / f"{name}.epls", pictures, "-o", tmp_path / "f.npz")
    assert code == 0
    assert "features of 6 images, 72 each" in out  # four regions with 8 + 2 x 5 codes
    expected = load_model(stack / f"{name}.epls").transform(pictures)
    assert_allclose(np.load(tmp_path / "f.npz")["features"], expected, rtol=1e-4, atol=1e-5)


def test_images_that_are_too_small_for_the_layers_are_found_first(stack, tmp_path, capsys):
    (tmp_path / "pictures").mkdir()
    for side in (9, 10, 11, 12):
        Image.new("RGB", (side, 30)).save(tmp_path / "pictures" / f"{side:02}.png")
    arguments = ["transform", stack / "alone.epls", tmp_path / "pictures", "-o", tmp_path / "f.npz"]
    code, _, err = epls(capsys, *arguments)
    assert code == 1
    assert "09.png" in err
    assert "11" in err
    code, out, _ = epls(capsys, *arguments, "--skip-bad", "--json")
    assert json.loads(out)["skipped"] == 2


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not allow such names")
def test_any_file_name_is_kept_with_its_row(model, pictures, tmp_path, capsys):
    """A file of names, one a line, would have a line too many."""
    folder = os.fsencode(tmp_path / "pictures")
    os.mkdir(folder)
    names = [b"a\nb.png", b"c\\\xff\xfe.png", "\u00e9 \u4e2d\u2028.png".encode(), b"d\x1b[31m.png"]
    for number, name in enumerate(sorted(names)):
        with open(os.path.join(folder, name), "wb") as file:
            file.write((pictures / f"picture{number}.png").read_bytes())
    code, _, err = epls(capsys, "transform", model, tmp_path / "pictures", "-o", tmp_path / "f.npz")
    assert code == 0, err
    with np.load(tmp_path / "f.npz") as found:
        assert sorted(os.fsencode(name) for name in found["names"]) == sorted(names)
        for name, row in zip(found["names"], found["features"], strict=True):
            image = np.asarray(Image.open(io.BytesIO((tmp_path / "pictures" / str(name)).read_bytes())))
            assert_array_equal(row, load_model(model).transform(image[None])[0])


def test_rows_of_files_are_not_written_without_their_names(model, pictures, tmp_path, capsys):
    check_error(capsys, tmp_path, ["transform", model, pictures, "-o", tmp_path / "f.npy"], 2, r"ends in \.npz")


@pytest.mark.parametrize("kill", [1, 2, 3])
def test_features_and_names_appear_together_or_not_at_all(model, pictures, tmp_path, capsys, monkeypatch, kill):
    """Whichever system call fails, there is what was there before, or all of the new."""
    (tmp_path / "f.npz").write_bytes(b"before")
    calls = []

    def failing(call):
        def or_failure(*arguments):
            calls.append(call)
            if len(calls) == kill:
                raise OSError(28, "No space left on device")
            return call(*arguments)

        return or_failure

    for name in ("fsync", "chmod", "replace"):
        monkeypatch.setattr(os, name, failing(getattr(os, name)))
    assert epls(capsys, "transform", model, pictures, "-o", tmp_path / "f.npz", "--force")[0] == 1
    assert len(calls) == kill
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f.npz", b"before")]


def test_arrays_of_images(model, tmp_path, capsys):
    images = np.random.RandomState(0).randint(256, size=(3, 12, 12, 3)).astype(np.uint8)
    np.save(tmp_path / "images.npy", images)
    code, out, _ = epls(capsys, "transform", model, tmp_path / "images.npy", "-o", tmp_path / "f.npy", "--json")
    assert code == 0
    assert json.loads(out)["shape"] == [3, 32]
    np.testing.assert_array_equal(np.load(tmp_path / "f.npy"), load_model(model).transform(images))


def test_bad_images_are_named_or_skipped(model, pictures, tmp_path, capsys):
    folder = tmp_path / "mixed"
    folder.mkdir()
    for file in pictures.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "broken.png").write_bytes((pictures / "picture0.png").read_bytes()[:200])
    Image.new("L", (20, 20)).save(folder / "gray.png")
    Image.new("RGB", (5, 50)).save(folder / "narrow.png")
    output = tmp_path / "f.npz"
    code, out, err = epls(capsys, "transform", model, folder, "-o", output)
    assert (code, out) == (1, "")
    assert all(name in err for name in ("broken.png", "gray.png", "narrow.png", "--skip-bad"))
    assert not output.exists()
    code, out, err = epls(capsys, "transform", model, folder, "-o", output, "--skip-bad", "--json")
    assert code == 0
    assert json.loads(out) == {"features": str(output), "shape": [6, 32], "skipped": 3}
    assert err.count("skipped ") == 3


def test_the_model_decides_which_kind_is_skipped(model, pictures, tmp_path, capsys):
    """Most images of the folder are gray, but the model is for color."""
    (tmp_path / "color.png").write_bytes((pictures / "picture0.png").read_bytes())
    for k in range(3):
        Image.new("L", (20, 20)).save(tmp_path / f"gray{k}.png")
    code, out, err = epls(capsys, "transform", model, tmp_path, "-o", tmp_path / "f.npz", "--skip-bad", "--json")
    assert code == 0, err
    assert json.loads(out)["shape"] == [1, 32]


def test_images_are_numbered_from_the_first(model, tmp_path, capsys):
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


def test_nothing_is_overwritten_unless_forced(model, pictures, tmp_path, capsys):
    output = tmp_path / "f.npz"
    output.write_bytes(b"precious")
    code, _, err = epls(capsys, "transform", model, pictures, "-o", output)
    assert code == 1
    assert "already exists" in err
    assert output.read_bytes() == b"precious"
    assert epls(capsys, "transform", model, pictures, "-o", output, "--force")[0] == 0
    assert len(np.load(output)["features"]) == 6


def test_transform_reads_either_kind_of_table(work, tmp_path, capsys):
    model = work / "table.epls"
    for name in ("table.csv", "table.parquet"):  # the first has a column that the model does not know
        code, out, _ = epls(capsys, "transform", model, work / name, "-o", tmp_path / f"{name}.npy")
        assert code == 0, name
        assert "569 vectors, 10 each" in out
    expected = load_model(model).transform(load_breast_cancer(as_frame=True).data)
    assert_allclose(np.load(tmp_path / "table.csv.npy"), expected, atol=1e-6)
    assert_allclose(np.load(tmp_path / "table.parquet.npy"), expected, atol=1e-6)


def test_a_model_of_python_finds_its_columns(work, tmp_path, capsys):
    frame = load_breast_cancer(as_frame=True).data
    model = EPLS(5, max_iter=2, random_state=0).fit(frame[["mean area", "mean radius"]])
    save_model(model, tmp_path / "m")
    assert epls(capsys, "transform", tmp_path / "m", work / "table.csv", "-o", tmp_path / "f.npy")[0] == 0
    assert_allclose(np.load(tmp_path / "f.npy"), model.transform(frame[["mean area", "mean radius"]]), atol=1e-6)


def test_the_model_remembers_how_images_were_read(work, tmp_path, capsys):
    arguments = ["--n-components", 8, "--n-patches", 300, "--longest-side", 40, "--channels", "gray"]
    assert epls(capsys, "fit", work / "photos", "-o", tmp_path / "m", *arguments)[0] == 0
    assert epls(capsys, "transform", tmp_path / "m", work / "photos", "-o", tmp_path / "f.npz")[0] == 0
    small = ImageFolder(work / "photos", longest_side=40, channels="gray")
    assert small.shapes[0] == (30, 40)
    assert_allclose(np.load(tmp_path / "f.npz")["features"], load_model(tmp_path / "m").transform(small), rtol=1e-5)


@pytest.mark.usefixtures("hardly_any_training")
def test_without_a_model_features_are_learned(pictures, tmp_path, capsys):
    code, _, err = epls(capsys, "transform", pictures, "-o", tmp_path / "f.npz", "--layers", 1, "--seed", 3)
    assert code == 0, err
    small = ImageFolder(pictures, longest_side=256)
    with np.load(tmp_path / "f.npz") as found:
        np.testing.assert_array_equal(found["features"], learned_features(small, layers=1, random_state=3)[0])
        assert found["names"].tolist() == small.names


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["transform", "nowhere", "{pictures}", "-o", "f.npz"],
            1,
            "there is no file or folder nowhere: check the path",
        ),
        (
            ["transform", "{pictures}", "{pictures}", "-o", "f.npz"],
            1,
            "is a folder; a model is one file, as `epls fit`",
        ),
        (["transform", "{pictures}", "-o", "f.txt"], 2, "written as .npy, .npz, .csv, .parquet: choose a name"),
    ],
)
def test_errors_about_images_are_one_line(pictures, tmp_path, monkeypatch, capsys, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    check_error(capsys, tmp_path, [argument.format(pictures=pictures) for argument in arguments], code, message)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["transform", "vectors.npy", "-o", "new.npy"], 2, "vectors.npy holds vectors: give a MODEL before it"),
        (["transform", *3 * ["photos"], "-o", "new.npz"], 2, "3 paths were given: give a model and data, or only data"),
        (["transform", "photos.epls", "photos", "-o", "new.npz", "--layers", "1"], 2, "--layers is set by the model"),
        (["transform", "table.epls", "photos", "-o", "new.npz"], 1, "from vectors, but photos holds images"),
        (["transform", "photos.epls", "vectors.npy", "-o", "new.npy"], 1, "from images, but vectors.npy holds vec"),
        (
            ["transform", "table.epls", "vectors.npy", "-o", "new.npy"],
            1,
            "has 5 columns, but the model was learned from 30",
        ),
        (["transform", "table.epls", "other.csv", "-o", "new.npy"], 1, "no column mean radius"),
    ],
)
def test_errors_are_one_line(work, monkeypatch, capsys, arguments, code, message):
    monkeypatch.chdir(work)
    check_error(capsys, work, arguments, code, message)
