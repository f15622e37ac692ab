"""`epls classify`: from a few labels to those of all samples."""

import csv
import json

import numpy as np
import pytest
from PIL import Image
from run_command import check_error, epls
from sklearn.datasets import load_iris

pytestmark = pytest.mark.usefixtures("hardly_any_training")


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """Iris as a table of four columns, and five labels of each class."""
    folder = tmp_path_factory.mktemp("iris")
    data = load_iris(as_frame=True)
    data.data.to_csv(folder / "iris.csv", index=False)
    names = np.array(data.target_names)[data.target]
    known = np.concatenate([np.flatnonzero(data.target == k)[:5] for k in range(3)])
    (folder / "labels.csv").write_text("row,label\n" + "".join(f"{k},{names[k]}\n" for k in known))
    return folder, names, known


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Images of two colors: three in sub-folders of each, and four in none."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.RandomState(0)
    for number in range(10):
        label, color = (("red", [200, 40, 40]), ("blue", [40, 40, 200]))[number % 2]
        path = folder / (f"{label}/{number}.png" if number < 6 else f"{label}{number}.png")
        path.parent.mkdir(exist_ok=True)
        pixels = np.clip(np.array(color) + random.normal(scale=20, size=(16, 16, 3)), 0, 255)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_with_a_few_labels(iris, tmp_path, capsys):
    folder, names, known = iris
    output = tmp_path / "predictions.csv"
    code, out, err = epls(capsys, "classify", folder / "iris.csv", "--labels", folder / "labels.csv", "-o", output)
    assert code == 0, err
    assert "135 labels predicted from 15 given ones (3 classes)" in out
    assert "% of the given labels are predicted correctly in cross-validation (95 % interval: " in out
    assert "label at least 10 samples of each class; these have fewer: setosa, versicolor, virginica" in out
    rows = rows_of(output)
    assert list(rows[0]) == ["row", "label", "confidence", "source"]
    assert [row["row"] for row in rows] == [str(k) for k in range(150)]
    assert [k for k, row in enumerate(rows) if row["source"] == "given"] == known.tolist()
    assert np.mean([row["label"] == name for row, name in zip(rows, names, strict=True)]) > 0.85
    assert all(0.33 <= float(row["confidence"]) <= 1 for row in rows)


@pytest.mark.slow
def test_predictions_can_be_shown_and_made_again(iris, tmp_path, capsys):
    folder, _, _ = iris
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    for labels, output in ((folder / "labels.csv", first), (first, second)):
        assert epls(capsys, "classify", folder / "iris.csv", "--labels", labels, "-o", output)[0] == 0
    assert first.read_bytes() == second.read_bytes()  # predictions are no labels
    arguments = ["explore", folder / "iris.csv", "--labels", first, "-o", tmp_path / "page.html"]
    assert epls(capsys, *arguments)[0] == 0
    assert "versicolor" in (tmp_path / "page.html").read_text()


def test_sub_folders_are_labels(photos, tmp_path, capsys):
    output = tmp_path / "predictions.csv"
    code, out, err = epls(capsys, "classify", photos, "-o", output, "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["classes"] == {"blue": 3, "red": 3}
    assert facts["predicted"] == 4
    assert sorted(row["file"] for row in rows_of(output) if row["source"] == "predicted") == [
        "blue7.png", "blue9.png", "red6.png", "red8.png",
    ]  # fmt: skip


def test_features_of_a_model_or_a_file(photos, tmp_path, capsys):
    np.savez(
        tmp_path / "features.npz",
        features=np.array([[k % 2, 0.1 * k] for k in range(10)]),
        names=np.array([f"{'red' if k % 2 == 0 else 'blue'}{'/' if k < 6 else ''}{k}.png" for k in range(10)]),
    )
    output = tmp_path / "predictions.csv"
    code, _, err = epls(capsys, "classify", photos, "-o", output, "--features", tmp_path / "features.npz")
    assert code == 0, err
    assert {row["file"]: row["label"] for row in rows_of(output)}["red8.png"] == "red"
    model = tmp_path / "model.epls"
    assert epls(capsys, "fit", photos, "-o", model, "--n-components", 6, "--patch-size", 4, "--n-patches", 300)[0] == 0
    assert epls(capsys, "classify", photos, "-o", output, "--model", model, "--force")[0] == 0


def test_what_is_refused(iris, photos, work, tmp_path, capsys):
    folder, _, _ = iris
    table, output = folder / "iris.csv", ["-o", tmp_path / "p.csv"]
    for name, text in {
        "absent": "row,label\n999,setosa\n0,virginica\n",
        "one": "row,label\n0,setosa\n1,setosa\n",
        "none": "row,label\n",
        "all": "row,label\n" + "".join(f"{k},{k % 2}\n" for k in range(150)),
    }.items():
        (tmp_path / f"{name}.csv").write_text(text)
    for arguments, code, message in [
        ([table, "-o", tmp_path / "p.txt"], 2, r"ends in \.csv"),
        ([table, *output], 2, "no sub-folders to use as labels"),
        ([table, *output, "--labels", tmp_path / "absent.csv"], 1, "1 of 2 labelled samples are not in .*'999'"),
        ([table, *output, "--labels", tmp_path / "one.csv"], 1, "only the label 'setosa'"),
        ([table, *output, "--labels", tmp_path / "none.csv"], 1, "no labels"),
        ([table, *output, "--labels", tmp_path / "all.csv"], 1, "labels all 150 samples"),
        ([table, *output, "--labels", tmp_path / "missing.csv"], 1, "no file"),
        ([table, "-o", tmp_path / "one.csv", "--labels", tmp_path / "one.csv", "--force"], 1, "is an input"),
    ]:
        check_error(capsys, tmp_path, ["classify", *arguments], code, message)
