"""`epls compare` on vectors."""

import json

import numpy as np
import pandas as pd
import pytest
from run_command import check_error, epls
from sklearn.datasets import load_iris

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
    monkeypatch.chdir(tmp_path)
    return tmp_path


SMALL = ["--n-components", 6, "--learner", "kmeans", "--n-labels", 5, "--n-folds", 2, "--no-scale"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["texts.csv", "--labels", "species", "--drop", "id"],
        ["numbers.parquet"],
        ["X.npy", "--labels", "y.npy"],
        ["X.npy", "--labels", "y.csv"],
        ["both.npz"],
    ],
)
def test_every_form_has_the_same_figures(data, capsys, arguments):
    code, out, err = epls(capsys, "compare", *arguments, *SMALL, "--json")
    assert code == 0, err
    entries = json.loads(out)["entries"]
    assert [entry["name"] for entry in entries] == ["raw columns", "pca, 4", "kmeans"]
    expected = compare(IRIS.data.to_numpy(), IRIS.target, n_labels=5, n_folds=2)
    np.testing.assert_allclose(entries[0]["folds"], expected[0].folds)
    assert (data / "epls-compare" / "compare.png").exists()


def test_the_table_is_printed_and_not_replaced(data, capsys):
    code, out, err = epls(capsys, "compare", "numbers.parquet", *SMALL, "--set", "kmeans.max_iter=3")
    assert code == 0, err
    assert "kmeans, max_iter=3" in out
    assert "4 columns are used: sepal length" in err
    code, _, err = epls(capsys, "compare", "numbers.parquet", *SMALL)
    assert code == 1
    assert "already exists" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["X.npy"], 1, "X.npy has no labels: name a .npy, .csv or .parquet file"),
        (["texts.csv"], 1, "which column of texts.csv has the labels"),
        (["texts.csv", "--labels", "genus"], 1, "no column genus; it has sepal length"),
        (["alone.npz"], 1, "alone.npz has the arrays X, but no labels or y"),
        (["numbers.parquet", "--patch-size", 5], 2, "--patch-size is for images, but numbers.parquet holds vectors"),
        (["images.npy"], 1, "images.npy is neither a folder nor an .npz file"),
        (["X.npy", "--labels", "images.npy"], 1, "150 vectors, but labels of shape"),
        ([".", "--n-labels", 5], 2, "--n-labels is for vectors, but . holds images"),
    ],
)
def test_errors_are_one_line(data, capsys, arguments, code, message):
    check_error(capsys, data, ["compare", *arguments], code, message)
