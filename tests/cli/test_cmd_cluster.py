"""`epls cluster`: groups of equal or limited size."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from run_command import check_error, epls

from epls import BalancedKMeans, save_model
from epls.images.recipes import learned_features


def groups_of(path):
    with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        header, *rows = csv.reader(file)
    return header, [name for name, _ in rows], np.array([int(group) for _, group in rows])


def test_vectors(work, tmp_path, capsys):
    code, out, _ = epls(capsys, "cluster", work / "vectors.npy", "-o", tmp_path / "g.csv", "--clusters", 7)
    assert code == 0
    assert "300 vectors in 7 groups of 42 to 43" in out
    header, names, groups = groups_of(tmp_path / "g.csv")
    assert header == ["row", "group"]
    assert names == [str(number) for number in range(300)]
    expected = BalancedKMeans(7, random_state=0).fit_predict(np.load(work / "vectors.npy"))
    np.testing.assert_array_equal(groups, expected)


@pytest.mark.parametrize("name", ["x.npy", "parts", "x.zarr"])
def test_data_in_parts_and_limits(in_parts, tmp_path, capsys, name):
    arguments = ["--clusters", 10, "--size-max", 95, "--size-min", 80, "--json"]
    code, out, _ = epls(capsys, "cluster", in_parts / name, "-o", tmp_path / "g.csv", *arguments)
    assert code == 0
    facts = json.loads(out)
    assert facts["samples"] == 900
    sizes = np.bincount(groups_of(tmp_path / "g.csv")[2], minlength=10)
    assert facts["smallest"] == sizes.min() >= 80
    assert facts["largest"] == sizes.max() <= 95


def test_tables_are_scaled(work, tmp_path, capsys):
    arguments = ["cluster", work / "table.csv", "--clusters", 5, "--drop", "target"]
    assert epls(capsys, *arguments, "-o", tmp_path / "a.csv")[0] == 0
    assert epls(capsys, *arguments, "-o", tmp_path / "b.csv", "--no-scale")[0] == 0
    assert (groups_of(tmp_path / "a.csv")[2] != groups_of(tmp_path / "b.csv")[2]).any()


def test_images_by_features_of_their_own_and_by_a_model(model, pictures, tmp_path, capsys):
    arguments = ["cluster", pictures, "--clusters", 3]
    for more in ([], ["--model", model]):
        code, out, err = epls(capsys, *arguments, *more, "-o", tmp_path / "g.csv", "--force")
        assert code == 0, err
        assert "6 images in 3 groups of 2 in " in out
        header, names, groups = groups_of(tmp_path / "g.csv")
        assert header == ["file", "group"]
        assert names == [f"picture{k}.png" for k in range(6)]
        assert np.bincount(groups).tolist() == [2, 2, 2]


def test_images_by_the_features_of_explore(pictures, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("epls.images.recipes._PATCHES", 500)
    arguments = ["--clusters", 3, "--no-mirror", "--layers", 1]
    code, _, err = epls(capsys, "cluster", pictures, "-o", tmp_path / "g.csv", *arguments)
    assert code == 0, err
    X, _ = learned_features(str(pictures), layers=1, mirror=False)
    expected = BalancedKMeans(3, random_state=0).fit_predict(X)
    np.testing.assert_array_equal(groups_of(tmp_path / "g.csv")[2], expected)


@pytest.mark.parametrize("name", ["alone", "scaled"])
def test_images_by_a_stack(stack, pictures, tmp_path, capsys, name):
    arguments = ["--clusters", 2, "--model", stack / f"{name}.epls"]
    code, out, err = epls(capsys, "cluster", pictures, "-o", tmp_path / "g.csv", *arguments)
    assert code == 0, err
    assert "6 images in 2 groups of 3 in " in out


def test_features_keep_the_names_of_their_images(model, pictures, tmp_path, capsys):
    assert epls(capsys, "transform", model, pictures, "-o", tmp_path / "f.npz")[0] == 0
    assert epls(capsys, "cluster", tmp_path / "f.npz", "-o", tmp_path / "g.csv", "--clusters", 2)[0] == 0
    header, names, _ = groups_of(tmp_path / "g.csv")
    assert header == ["file", "group"]
    assert names == [f"picture{k}.png" for k in range(6)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clusters", 20], "--clusters 20 is more than the 6 images"),
        (["--clusters", 2, "--size-max", 2], "--size-max 2 leaves room for 4 images in 2 groups, but there are 6"),
        (["--clusters", 2, "--size-min", 4], "--size-min 4 requires 8 images in 2 groups, but there are 6"),
    ],
)
def test_sizes_are_checked_before_features_are_learned(pictures, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.setattr("epls.images.features.ImageFeatures.fit", lambda *_: pytest.fail("it was trained"))
    check_error(capsys, tmp_path, ["cluster", pictures, "-o", tmp_path / "g.csv", *arguments], 1, message)


def test_one_vector(tmp_path, capsys):
    np.save(tmp_path / "one.npy", np.ones((1, 3)))
    code, out, err = epls(capsys, "cluster", tmp_path / "one.npy", "-o", tmp_path / "g.csv", "--clusters", 1)
    assert code == 0, err
    assert "1 vector in 1 group of 1 in " in out


def test_what_is_refused(work, pictures, model, tmp_path, capsys):
    vectors, output = work / "vectors.npy", ["-o", tmp_path / "g.csv"]
    for arguments, code, message in [
        ([vectors, "-o", tmp_path / "g.npy", "--clusters", 3], 2, r"ends in \.csv"),
        ([vectors, *output], 2, "--clusters"),
        (
            [vectors, *output, "--clusters", 3, "--size-max", 10],
            1,
            "--size-max 10 leaves room for 30 vectors in 3 groups",
        ),
        ([vectors, *output, "--clusters", 3, "--size-min", 101], 1, "--size-min 101 requires 303 vectors in 3 groups"),
        (
            [vectors, *output, "--clusters", 3, "--size-min", 9, "--size-max", 8],
            1,
            "--size-min 9 is above --size-max 8",
        ),
        ([vectors, *output, "--clusters", 301], 1, "--clusters 301 is more than the 300 vectors"),
        ([vectors, *output, "--clusters", 3, "--layers", 2], 2, "--layers is for images"),
        ([pictures, *output, "--clusters", 3, "--scale"], 2, "--scale is for vectors"),
        ([pictures, *output, "--clusters", 3, "--model", model, "--layers", 2], 2, "--layers is set by the model"),
        ([vectors, *output, "--clusters", 3, "--model", model], 1, "learned from images"),
    ]:
        check_error(capsys, tmp_path, ["cluster", *arguments], code, message)


def test_groups_are_no_features(work, tmp_path, capsys):
    save_model(BalancedKMeans(3).fit(np.load(work / "vectors.npy")), tmp_path / "groups.epls")
    for arguments in (
        [
            "cluster",
            work / "vectors.npy",
            "--clusters",
            3,
            "--model",
            tmp_path / "groups.epls",
            "-o",
            tmp_path / "g.csv",
        ],
        ["transform", tmp_path / "groups.epls", work / "vectors.npy", "-o", tmp_path / "f.npy"],
    ):
        check_error(capsys, tmp_path, arguments, 1, r"holds a \w+, which has no features")


def test_groups_by_direction(tmp_path, capsys):
    """By cosine, rows of any length are in the group of their direction, and columns are not standardised."""
    angles = np.repeat([0.2, 0.9], 10) + np.linspace(0, 0.1, 20)
    lengths = np.random.RandomState(0).uniform(1, 1000, size=(20, 1))
    table = pd.DataFrame(lengths * np.column_stack([np.cos(angles), np.sin(angles)]), columns=["a", "b"])
    table.to_parquet(tmp_path / "vectors.parquet")
    arguments = ["cluster", tmp_path / "vectors.parquet", "-o", tmp_path / "groups.csv", "--clusters", 2]
    code, _, err = epls(capsys, *arguments, "--metric", "cosine")
    assert code == 0, err
    groups = pd.read_csv(tmp_path / "groups.csv").group.to_numpy()
    assert len({tuple(groups[:10]), tuple(groups[10:])}) == 2
    assert len(set(groups[:10])) == len(set(groups[10:])) == 1
