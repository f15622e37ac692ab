"""`epls explore`: a page to look through images or vectors."""

import base64
import json

import numpy as np
import pytest
from PIL import Image
from run_command import check_error, epls

pytestmark = pytest.mark.usefixtures("hardly_any_training")

EVIL = "<script>alert(1)<%2Fscript>'\"&.png"


def content_of(path):
    return json.loads(path.read_text().split('id="content">')[1].split("</script>")[0])


@pytest.fixture(scope="module")
def features(model, pictures, tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "features.npz"
    from epls.cli.main import run

    assert run(["transform", str(model), str(pictures), "-o", str(path)]) == 0
    return path


def test_a_folder_of_photographs_learns_its_features(pictures, tmp_path, capsys):
    code, out, err = epls(capsys, "explore", pictures, "-o", tmp_path / "page.html")
    assert code == 0, err
    assert "page.html" in out
    assert "6 images" in out
    content = content_of(tmp_path / "page.html")
    assert content["names"] == [f"picture{k}.png" for k in range(6)]
    assert content["nameColumn"] == "file"


def test_a_model_or_its_features_give_the_same_page(model, features, pictures, tmp_path, capsys):
    for name, more in (("a", ["--model", model]), ("b", ["--features", features])):
        arguments = ["explore", pictures, "-o", tmp_path / f"{name}.html", "--groups", "density", "--json"]
        code, out, err = epls(capsys, *arguments, *more)
        assert code == 0, err
        assert json.loads(out)["samples"] == 6
    first, second = (content_of(tmp_path / f"{name}.html") for name in "ab")
    assert first["nearest"] == second["nearest"]
    assert first["positions"] == second["positions"]


def test_features_alone_are_a_map_of_points_with_names(features, tmp_path, capsys):
    code, _, err = epls(capsys, "explore", features, "-o", tmp_path / "page.html")
    assert code == 0, err
    content = content_of(tmp_path / "page.html")
    assert content["kind"] == "vectors"
    assert content["names"] == [f"picture{k}.png" for k in range(6)]


@pytest.mark.slow
def test_a_table_and_labels_of_some_rows(work, tmp_path, capsys):
    (tmp_path / "labels.csv").write_text("row,label\n3,benign\n568,malignant\n")
    arguments = ["explore", work / "table.csv", "-o", tmp_path / "page.html", "--drop", "target", "--n-groups", 5]
    code, out, err = epls(capsys, *arguments, "--labels", tmp_path / "labels.csv")
    assert code == 0, err
    assert "569 vectors" in out
    content = content_of(tmp_path / "page.html")
    assert len(content["groups"]) == 5
    assert "mean radius" in content["columns"]
    assert content["labels"]["classes"] == ["benign", "malignant"]


def test_gray_and_color_photographs_and_odd_names(tmp_path, capsys):
    folder = tmp_path / "photos"
    folder.mkdir()
    random = np.random.RandomState(0)
    for number in range(4):
        shape = (20, 30, 3) if number % 2 else (40, 25)
        name = EVIL if number == 0 else f"{number}.png"
        Image.fromarray(random.randint(256, size=shape, dtype=np.uint8)).save(folder / name)
    code, _, err = epls(capsys, "explore", folder, "-o", tmp_path / "page.html")
    assert code == 0, err
    assert "all are converted to color" in err
    assert EVIL in content_of(tmp_path / "page.html")["names"]


def test_what_is_refused(work, pictures, model, features, tmp_path, capsys):
    output = ["-o", tmp_path / "page.html"]
    (tmp_path / "labels.csv").write_text("file,label\nabsent.png,cat\n")
    np.savez(tmp_path / "other.npz", features=np.eye(6), names=np.array([f"{k}.png" for k in range(6)]))
    np.save(tmp_path / "few.npy", np.eye(5))
    (tmp_path / "x.txt").touch()
    for arguments, code, message in [
        ([pictures, *output, "--model", model, "--features", features], 2, "give only one of them"),
        ([pictures, *output, "--model", model, "--longest-side", 100], 2, "set by the model"),
        ([pictures, *output, "--groups", "density", "--n-groups", 3], 2, "--n-groups is for balanced groups"),
        (
            [pictures, *output, "--features", features, "--labels", tmp_path / "labels.csv"],
            1,
            "1 of 1 labelled samples",
        ),
        ([pictures, *output, "--features", tmp_path / "other.npz"], 1, "lacks 6 of the 6 samples of"),
        ([pictures, *output, "--features", tmp_path / "few.npy"], 1, "has 5 rows without names, but"),
        ([pictures, *output, "--features", tmp_path / "x.txt"], 2, r"give a \.npz, \.npy, \.parquet or \.csv file"),
        ([work / "vectors.npy", *output, "--model", model], 1, "learned from images"),
        ([work / "absent", *output], 1, "no file or folder"),
    ]:
        check_error(capsys, tmp_path, ["explore", *arguments], code, message)


def test_own_places_and_cosines(pictures, features, tmp_path, capsys):
    """Places are matched by name, as features are; a lower row of the table is higher on the map."""
    lines = [f"picture{k}.png,{10 * k},{k}" for k in (3, 1, 5, 0, 2, 4, 9)]
    (tmp_path / "places.csv").write_text("\n".join(["file,x,y", *lines]) + "\n")
    arguments = ["explore", pictures, "-o", tmp_path / "page.html", "--features", features, "--metric", "cosine"]
    code, _, err = epls(capsys, *arguments, "--positions", tmp_path / "places.csv")
    assert code == 0, err
    assert "1 row of" in err
    assert "'picture9.png'" in err
    content = content_of(tmp_path / "page.html")
    places = np.frombuffer(base64.b64decode(content["positions"]), "<u2").reshape(6, 2).astype(int)
    assert (np.diff(places[:, 0]) > 0).all()
    assert (np.diff(places[:, 1]) < 0).all()
    assert content["basis"].startswith("the cosine of ")
    np.save(tmp_path / "three.npy", np.ones((6, 3)))
    check_error(
        capsys, tmp_path, [*arguments, "--force", "--positions", tmp_path / "three.npy"], 1, r"\(6, 2\) is needed"
    )
