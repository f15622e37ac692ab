"""`epls compare` on vectors."""

import errno
import json

import numpy as np
import pandas as pd
import pytest
from run_command import check_error, epls
from sklearn.datasets import load_iris

from epls import Raw
from epls.evaluation import compare

IRIS = load_iris(as_frame=True)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The same samples and labels in every form."""
    texts = IRIS.target_names[IRIS.target]
    IRIS.data.assign(species=texts, id=range(150)).to_csv(tmp_path / "texts.csv", index=False)
    IRIS.frame.to_parquet(tmp_path / "numbers.parquet")
    np.save(tmp_path / "X.npy", IRIS.data)
    np.save(tmp_path / "y.npy", IRIS.target)
    pd.DataFrame({"class": texts}).to_csv(tmp_path / "y.csv", index=False)
    np.savez(tmp_path / "both.npz", X=IRIS.data, y=IRIS.target)
    np.savez(tmp_path / "alone.npz", X=IRIS.data)
    np.save(tmp_path / "images.npy", np.zeros((5, 20, 20)))
    shuffled = pd.DataFrame({"row": range(150), "label": texts, "confidence": 1.0}).sample(frac=1, random_state=0)
    shuffled.to_csv(tmp_path / "rows.csv", index=False)
    shuffled.to_parquet(tmp_path / "rows.parquet")
    files = [f"{k}.png" for k in range(150)]
    np.savez(tmp_path / "features.npz", features=IRIS.data, names=np.array(files))
    shuffled.assign(row=[files[k] for k in shuffled.row]).rename(columns={"row": "file"}).to_csv(tmp_path / "files.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def accuracies_of_the_columns():
    (row,) = compare(IRIS.data.to_numpy(), IRIS.target, [Raw()], n_labels=5, folds=2)
    return row.folds


BASELINES = ["raw columns", "raw, unit length, logistic regression", "PCA(4)"]
SMALL = ["--n-components", 6, "--learner", "kmeans", "--n-labels", 5, "--n-folds", 2, "--no-scale"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["texts.csv", "--labels", "species", "--drop", "id"],
        ["numbers.parquet"],
        ["X.npy", "--labels", "y.npy"],
        ["X.npy", "--labels", "y.csv"],
        ["X.npy", "--labels", "rows.csv"],
        ["X.npy", "--labels", "rows.parquet"],
        ["both.npz", "--labels", "rows.csv"],
        ["features.npz", "--labels", "files.csv"],
        ["both.npz"],
    ],
)
def test_every_form_has_the_same_figures(data, capsys, arguments, accuracies_of_the_columns):
    code, out, err = epls(capsys, "compare", *arguments, *SMALL, "--json")
    assert code == 0, err
    entries = json.loads(out)["entries"]
    assert [entry["name"] for entry in entries] == [*BASELINES, "kmeans"]
    assert [entry["failed"] for entry in entries] == [None] * 4
    np.testing.assert_allclose(entries[0]["folds"], accuracies_of_the_columns)
    assert (data / "epls-compare" / "compare.html").exists()


def test_learners_of_vectors_unless_others_are_named(data, capsys):
    """All have a tenth of the samples as components, and EPLS comes with a remark."""
    few = ["--n-labels", 5, "--n-folds", 2]
    code, out, err = epls(capsys, "compare", "numbers.parquet", *few, "--json")
    assert code == 0, err
    entries = json.loads(out)["entries"]
    assert [entry["name"] for entry in entries] == [*BASELINES, "prototypes", "kmeans"]
    assert [entry["n_features"] for entry in entries] == [4, 4, 4, 15, 15]
    assert all(entry["accuracy"] > 80 for entry in entries)
    named = ["--learner", "epls", "--learner", "raw", "--set", "epls.max_iter=2", "--force"]
    code, out, err = epls(capsys, "compare", "numbers.parquet", *few, *named)
    assert code == 0, err
    assert "epls, max_iter=2" in out
    assert "epls is for patches of images" in out
    page = (data / "epls-compare" / "compare.html").read_text()
    assert "epls is for patches of images" in page
    assert "2 draws of 5 labels of each class" in page


def test_the_table_is_printed_and_not_replaced(data, capsys):
    code, out, err = epls(capsys, "compare", "numbers.parquet", *SMALL, "--set", "kmeans.max_iter=3")
    assert code == 0, err
    assert "kmeans, max_iter=3" in out
    assert "4 columns are used: sepal length" in err
    code, _, err = epls(capsys, "compare", "numbers.parquet", *SMALL)
    assert code == 1
    assert "belongs to another comparison" in err


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("n_rows", [0, 3])
def test_a_full_disk_leaves_no_file_and_the_table_is_printed(data, capsys, monkeypatch, form, n_rows):
    n_left = n_rows + 1  # there is room for some rows and for the first file

    def fsync(_):
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    before = {path.name for path in data.iterdir()}
    with monkeypatch.context() as full:
        full.setattr("os.fsync", fsync)
        code, out, err = epls(capsys, "compare", "numbers.parquet", *SMALL, *form)
    assert code == 1
    assert "the disk is full" in err
    assert "raw columns" in out
    assert ("the row of kmeans is not kept: No space left on device" in err) == (n_rows < 3)
    assert [path.name for path in (data / "epls-compare").iterdir()] == ["stages"]
    assert {path.name for path in data.iterdir()} == {*before, "epls-compare"}
    assert epls(capsys, "compare", "numbers.parquet", *SMALL)[0] == 0


def test_another_comparison_replaces_the_files(data, capsys):
    assert epls(capsys, "compare", "numbers.parquet", *SMALL)[0] == 0
    assert epls(capsys, "compare", "numbers.parquet", *SMALL, "--set", "kmeans.max_iter=3", "--force")[0] == 0
    assert {path.name for path in (data / "epls-compare").iterdir()} == {"compare.html", "compare.json", "stages"}
    page = (data / "epls-compare" / "compare.html").read_text()
    assert "kmeans, max_iter=3" in page


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["X.npy"], 1, "X.npy has no labels: name a .npy, .csv or .parquet file"),
        (["texts.csv"], 1, "which column of texts.csv has the labels"),
        (["texts.csv", "--labels", "genus"], 1, "no column genus; it has sepal length"),
        (["alone.npz"], 1, "alone.npz has the arrays X, but no labels or y"),
        (["numbers.parquet", "--patch-size", 5], 2, "--patch-size is for images, but numbers.parquet holds vectors"),
        (["images.npy"], 1, "images.npy has no labels: name a .npy, .csv or .parquet file"),
        (["X.npy", "--labels", "images.npy"], 1, "images.npy has labels of shape"),
        (["X.npy", "--labels", "files.csv"], 1, "files.csv has labels of files, by its column file, but X.npy has"),
        (["X.npy", "--labels", "absent.csv"], 1, "there is no file absent.csv: name a .npy, .csv or .parquet file"),
        (["X.npy", "--labels", "both.npz"], 1, "both.npz has another ending: name a .npy, .csv or .parquet file"),
        (["texts.csv", "--labels", "absent.csv"], 1, "texts.csv has no column absent.csv, and there is no file absent"),
        (["alone.npz", "--labels", "absent.csv"], 1, "but no absent.csv, and there is no file absent.csv"),
        (["absent.csv", "--labels", "label"], 1, "epls: there is no file absent.csv: check the path"),
        (["absent.npy"], 1, "epls: there is no file absent.npy: check the path"),
        (["absent"], 1, "epls: there is no file or folder absent: check the path"),
        (["both.npz", "--learner", "raw", "--set", "raw.TYPO=1"], 1, "raw has no setting TYPO; it has none"),
        (["both.npz", "--learner", "raw", "--set", "raw.=1"], 2, "--set raw.=1: write it as LEARNER.NAME=VALUE"),
        (
            ["both.npz", "--n-labels", 50],
            1,
            "have 3 classes, the smallest with 50 samples; n_labels=50 needs at least 51",
        ),
        (["images.npy", "--labels", "y.npy", "--scale"], 2, "--scale is for vectors, but images.npy holds images"),
        (["X.npy", "--labels", "y.npy", "--skip-bad"], 2, "--skip-bad is for folders of images, and X.npy is not one"),
        (["alone.npz", "--labels", "X"], 1, "alone.npz has labels of shape"),
    ],
)
def test_errors_are_one_line(data, capsys, arguments, code, message):
    check_error(capsys, data, ["compare", *arguments], code, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table[table.row != 7], r"has labels for 149 of the 150 vectors of X.npy: label all of them"),
        (lambda table: table.replace({"row": {7: 150}}), r"1 of 150 labelled samples are not in X.npy: '150'"),
        (lambda table: table.replace({"row": {7: 60}}), r"has two labels for '60', .*: remove one of them"),
        (lambda table: table.assign(source="predicted"), r"has 150 labels that a classifier predicted"),
        (lambda table: table.replace({"label": {"setosa": " "}}), r"changed.csv has labels for 100 of the 150 vectors"),
        (
            lambda table: table[["label"]].replace({"label": {"setosa": ""}}),
            r"changed.csv has labels for 100 of the 150 vectors",
        ),
        (lambda table: table[:0], r"changed.csv has labels for 0 of the 150 vectors"),
    ],
)
def test_labels_that_do_not_fit_are_refused(data, capsys, change, message):
    change(pd.read_csv("rows.csv")).to_csv("changed.csv", index=False)
    check_error(capsys, data, ["compare", "X.npy", "--labels", "changed.csv"], 1, message)


def test_missing_labels_in_arrays_are_refused(data, capsys):
    np.save("changed.npy", np.where(IRIS.target == 0, np.nan, IRIS.target))
    check_error(capsys, data, ["compare", "X.npy", "--labels", "changed.npy"], 1, "changed.npy has labels for 100 of")


def test_spaces_around_labels_do_not_count(data, capsys):
    frame = pd.read_csv("texts.csv")
    frame["species"] = [label + " " * (number % 2) for number, label in enumerate(frame.species)]
    frame.to_csv("spaces.csv", index=False)
    folds = []
    for table in ("texts.csv", "spaces.csv"):
        code, out, err = epls(capsys, "compare", table, "--labels", "species", *SMALL, "--json", "--force")
        assert code == 0, err
        folds.append([entry["folds"] for entry in json.loads(out)["entries"]])
    assert folds[0] == folds[1]
