"""What explore and classify are given: options that apply, values that can be used, and no image lost."""

import json

import numpy as np
import pytest
from PIL import Image
from run_command import check_error, epls

pytestmark = pytest.mark.usefixtures("hardly_any_training")

COMMANDS = {"explore": "page.html", "classify": "p.csv"}


@pytest.fixture
def vectors():
    return np.random.RandomState(0).normal(size=(40, 4))


def arguments_of(command, data, folder):
    """A call of the command, with labels that classify needs."""
    (folder / "labels.csv").write_text("row,label\n" + "".join(f"{k},{'ab'[k % 2]}\n" for k in range(10)))
    return [command, data, "-o", folder / COMMANDS[command], "--labels", folder / "labels.csv"]


def test_skipping_bad_images_keeps_gray_ones(tmp_path, capsys):
    folder = tmp_path / "photos"
    folder.mkdir()
    random = np.random.RandomState(0)
    for number in range(5):
        shape = (20, 20) if number < 2 else (20, 20, 3)
        Image.fromarray(random.randint(256, size=shape, dtype=np.uint8)).save(folder / f"{number}.png")
    (folder / "broken.png").write_bytes(b"nothing")
    code, out, err = epls(capsys, "explore", folder, "-o", tmp_path / "page.html", "--skip-bad", "--json")
    assert code == 0, err
    assert "all are converted to color" in err
    assert json.loads(out)["samples"] == 5
    assert err.count("skipped ") == 1
    assert "broken.png" in err


@pytest.mark.parametrize("command", COMMANDS)
def test_options_for_learning_are_refused_if_nothing_is_learned(work, pictures, model, tmp_path, capsys, command):
    output = ["-o", tmp_path / COMMANDS[command]]
    np.save(tmp_path / "features.npy", np.eye(6))
    for arguments, message in [
        ([work / "vectors.npy", "--layers", 2], "--layers is for images, but"),
        ([work / "vectors.npy", "--no-mirror"], "--no-mirror is for images, but"),
        ([pictures, "--model", model, "--layers", 2], "--layers is set by the model"),
        ([pictures, "--model", model, "--no-mirror"], "--no-mirror is set by the model"),
        ([pictures, "--model", model, "--drop", "a"], "--drop is set by the model"),
        ([pictures, "--features", tmp_path / "features.npy", "--no-mirror"], "--no-mirror is for learning features"),
    ]:
        check_error(capsys, tmp_path, [command, *arguments, *output], 2, message)


@pytest.mark.parametrize("command", COMMANDS)
def test_columns_of_a_table_that_are_no_measurements(vectors, tmp_path, capsys, command):
    rows = "".join(f"{k},{row[0]},{row[1]}\n" for k, row in enumerate(vectors))
    (tmp_path / "t.csv").write_text(f"key,a,b\n{rows}")
    code, _, err = epls(capsys, *arguments_of(command, tmp_path / "t.csv", tmp_path))
    assert code == 0, err
    assert "warning: columns that look like identifiers" in err
    assert "--drop key" in err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_place_of_a_value_that_is_not_finite(vectors, tmp_path, capsys, command, value):
    np.save(tmp_path / "good.npy", vectors)
    vectors[7, 2] = value
    np.save(tmp_path / "bad.npy", vectors)
    place = r"bad\.npy has values that are NaN or infinite, the first in row 7, column 2 \(from 0\): replace them"
    check_error(capsys, tmp_path, arguments_of(command, tmp_path / "bad.npy", tmp_path), 1, place)
    arguments = [*arguments_of(command, tmp_path / "good.npy", tmp_path), "--features", tmp_path / "bad.npy"]
    check_error(capsys, tmp_path, arguments, 1, place)


@pytest.mark.parametrize("command", COMMANDS)
def test_arrays_without_samples(tmp_path, capsys, command):
    np.save(tmp_path / "empty.npy", np.ones((0, 4)))
    arguments = arguments_of(command, tmp_path / "empty.npy", tmp_path)
    check_error(capsys, tmp_path, arguments, 1, r"empty\.npy has 0 rows and 4 columns: give at least one of each")


@pytest.mark.parametrize(
    ("command", "scale", "dtype", "message"),
    [
        ("explore", 1e300, "float64", "too large to be squared in float32"),
        ("explore", 1e100, "float64", "too large to be squared in float32"),
        ("explore", 1e38, "float32", "too large to be squared in float32"),
        ("explore", 1e-100, "float64", "too small to be squared in float32"),
        ("classify", 1e300, "float64", "too large to be squared in float64"),
        ("classify", 1e38, "float32", "too large to be squared in float32"),
        ("classify", 1e-310, "float64", "too small to be squared in float64"),
        ("cluster", 1e38, "float32", "too large to be squared in float32"),
    ],
)
def test_values_that_cannot_be_squared(vectors, tmp_path, capsys, command, scale, dtype, message):
    np.save(tmp_path / "x.npy", (vectors * scale).astype(dtype))
    if command == "cluster":
        arguments = [command, tmp_path / "x.npy", "-o", tmp_path / "g.csv", "--clusters", 2]
    else:
        arguments = arguments_of(command, tmp_path / "x.npy", tmp_path)
    check_error(capsys, tmp_path, arguments, 1, f"{message}: scale them to about 1")


@pytest.mark.parametrize("name", ["page.csv", "page"])
def test_a_page_has_the_ending_of_one(work, tmp_path, capsys, name):
    check_error(capsys, tmp_path, ["explore", work / "vectors.npy", "-o", tmp_path / name], 2, r"ends in \.html")
