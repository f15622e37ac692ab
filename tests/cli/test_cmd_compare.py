"""`epls compare`: learners on labelled images."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image
from run_command import epls
from sklearn.datasets import load_sample_images

from epls import EPLS, ImageFeatures, ImageFolder, KMeansTriangle, Raw
from epls.evaluation import compare
from epls.images.recipes import quick_features
from epls.utils.files import FolderLock

SMALL = ("--n-components", 6, "--n-patches", 300, "--patch-size", 6, "--stride", 6, "--n-folds", 2)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """Pieces of two photographs, in a folder for each."""
    folder = tmp_path_factory.mktemp("classes")
    for name, source in zip(("china", "flower"), load_sample_images().images, strict=True):
        (folder / name).mkdir()
        for k in range(12):
            Image.fromarray(source[25 * k : 25 * k + 24, 20 * k : 20 * k + 24]).save(folder / name / f"{k}.png")
    return folder


def test_table_and_json(classes, tmp_path, capsys):
    chosen = ["--learner", "epls", "--learner", "raw", "--learner", "omp"]
    code, out, _ = epls(capsys, "compare", classes, "--output", tmp_path, *SMALL, *chosen)
    assert code == 0
    report = json.loads((tmp_path / "compare.json").read_text())
    entries = {entry["name"]: entry for entry in report["entries"]}
    assert entries["epls, natural"]["settings"]["n_components"] == 6
    assert len(entries["epls, natural"]["folds"]) == 2
    assert set(entries) == {"epls, natural", "raw, natural", "omp, whitened, natural"}
    assert entries["epls, natural"]["n_to_tune"] == 0
    assert entries["omp, whitened, natural"]["n_to_tune"] == 1
    assert entries["raw, natural"]["n_units"] == 108
    assert 0 <= entries["epls, natural"]["n_never_active"] <= 6
    best = max(entries.values(), key=lambda entry: entry["accuracy"])
    assert f"{best['accuracy']:.1f} ({best['std']:.2f})" in out.splitlines()[1]


def test_archives(tmp_path, capsys):
    images = np.random.default_rng(0).integers(256, size=(20, 12, 12), dtype=np.uint8)
    np.savez(tmp_path / "data.npz", images=images, labels=np.array(["a", "b"] * 10))
    (tmp_path / "data.npz").rename(tmp_path / "DATA.NPZ")
    code, out, _ = epls(
        capsys, "compare", tmp_path / "DATA.NPZ", "--output", tmp_path / "out", *SMALL, "--learner", "epls",
        "--learner", "raw", "--json",
    )  # fmt: skip
    assert code == 0
    names = [entry["name"] for entry in json.loads(out)["entries"]]
    assert names == ["epls, natural", "raw, natural"]
    assert len(list((tmp_path / "out" / "stages").glob("row-*.json"))) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"images": np.zeros((4, 8, 8), np.uint8)},
            "has the arrays images, but no labels or y: name the array of labels",
        ),
        ({"images": np.zeros((4, 8, 8), np.uint8), "labels": np.zeros(3)}, "has 4 images, but 3 labels"),
        (
            {"images": np.zeros((3, 8, 8), np.uint8), "labels": np.arange(3)},
            "3 classes, the smallest with 1 sample;",
        ),
        (
            {"images": np.zeros((9, 8, 8), np.uint8), "labels": np.zeros(9)},
            "the labels have 1 class:",
        ),
        (
            {"images": np.zeros((9, 8, 8), np.uint8), "labels": np.r_[np.arange(8) % 2, np.nan]},
            "has labels for 8 of the 9 images",
        ),
    ],
)
def test_bad_archives_are_told(content, message, tmp_path, capsys):
    np.savez(tmp_path / "data.npz", **content)
    code, _, err = epls(capsys, "compare", tmp_path / "data.npz", "--output", tmp_path / "out")
    assert code == 1
    assert message in err
    assert err.count("\n") == 1


def test_skipped_images_are_listed(classes, tmp_path, capsys, monkeypatch):
    shutil.copytree(classes, tmp_path / "photos")
    (tmp_path / "photos" / "china" / "0.png").write_bytes(b"nothing")
    (tmp_path / "photos" / "china" / "further").mkdir()
    (tmp_path / "photos" / "china" / "further" / "1.png").write_bytes(b"nothing")
    monkeypatch.chdir(tmp_path)
    arguments = ["compare", "photos", "--learner", "raw", *SMALL, "--skip-bad", "--json"]
    code, out, err = epls(capsys, *arguments)
    assert code == 0, err
    assert "skipped photos/china/0.png: " in err
    assert "skipped photos/china/further/1.png: " in err
    assert "look through: 25 of 25" in err
    assert json.loads(out)["skipped"] == 2
    assert json.loads(out)["images"] == 23


def test_a_class_without_usable_images_is_refused(classes, tmp_path, capsys):
    shutil.copytree(classes, tmp_path / "photos")
    (tmp_path / "photos" / "dog").mkdir()
    (tmp_path / "photos" / "dog" / "0.png").write_bytes(b"nothing")
    code, _, err = epls(capsys, "compare", tmp_path / "photos", "--output", tmp_path / "out", *SMALL, "--skip-bad")
    assert code == 1
    assert "has no image of the class dog that can be used: repair its images, or remove this sub-folder" in err


def test_labels_in_a_file_and_images_of_different_sizes(classes, tmp_path, capsys):
    """The file that the page of `epls explore` saves; sub-folders don't matter then."""
    shutil.copytree(classes, tmp_path / "photos")
    for path in sorted((tmp_path / "photos").glob("*/*.png")):
        path.rename(tmp_path / "photos" / f"{path.parent.name}{path.name}")
    with Image.open(tmp_path / "photos" / "china0.png") as image:
        image.resize((30, 26)).save(tmp_path / "photos" / "china0.png")
    names = [path.name for path in (tmp_path / "photos").glob("*.png")]
    lines = [f"{name},{'flower' if 'flower' in name else 'china'}" for name in names]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *lines]))
    arguments = ["compare", tmp_path / "photos", "--output", tmp_path / "out", *SMALL, "--learner", "raw", "--json"]
    code, out, err = epls(capsys, *arguments, "--labels", tmp_path / "labels.csv", "--n-labels", 4)
    assert code == 0, err
    (entry,) = json.loads(out)["entries"]
    assert entry["failed"] is None
    assert entry["accuracy"] > 60
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *lines[1:]]))
    code, _, err = epls(capsys, *arguments, "--labels", tmp_path / "labels.csv")
    assert code == 1
    assert "has labels for 23 of the 24 images" in err


def test_settings_and_failures_have_their_rows(classes, tmp_path, capsys):
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
    code, out, _ = epls(capsys, "compare", classes, "--output", tmp_path, *SMALL, *chosen)
    assert code == 0
    assert "omp, n_nonzero_coefs=2, whitened, natural" in out
    assert "kmeans, max_iter=0, whitened, triangle" in out
    assert "failed: The 'max_iter' parameter" in out
    code, _, err = epls(capsys, "compare", classes, "--output", tmp_path, "--set", "rica.max_iter=2")
    assert code == 2
    assert "--set rica.max_iter=2: write it as LEARNER.NAME=VALUE" in err
    code, _, err = epls(capsys, "compare", classes, "--output", tmp_path, "--set", "epls.=2")
    assert code == 2
    assert "--set epls.=2: write it as LEARNER.NAME=VALUE" in err


def test_when_all_fail(classes, tmp_path, capsys):
    arguments = ["compare", classes, "--n-components", 400, "--n-patches", 150, "--patch-size", 5, "--stride", 8]
    code, out, err = epls(capsys, *arguments, "--learner", "epls", "--output", tmp_path, "--json")
    assert code == 1
    assert "all learners failed" in err
    told = json.loads(out, parse_constant=pytest.fail)  # NaN is not JSON
    assert told["entries"][0]["accuracy"] is None


def test_another_comparison_is_not_replaced(classes, tmp_path, capsys):
    arguments = ["compare", classes, "--n-patches", 150, "--patch-size", 5, "--stride", 8, "--output", tmp_path]
    assert epls(capsys, *arguments, "--learner", "raw")[0] == 0
    before = (tmp_path / "compare.json").read_bytes()
    code, _, err = epls(capsys, *arguments, "--learner", "raw", "--learner", "random_patches", "--n-components", 5)
    assert code == 1
    assert "belongs to another comparison" in err
    assert (tmp_path / "compare.json").read_bytes() == before
    assert epls(capsys, *arguments, "--learner", "raw")[0] == 0
    assert epls(capsys, *arguments, "--learner", "random_patches", "--n-components", 5, "--force")[0] == 0


def test_what_is_not_chosen_is_the_recipe(classes, tmp_path, capsys):
    code, out, err = epls(
        capsys, "compare", classes, "--output", tmp_path, "--learner", "raw", "--n-folds", 2, "--json"
    )
    assert code == 0, err
    (settings,) = (entry["settings"] for entry in json.loads(out)["entries"])
    recipe = quick_features(24, 24, 24, layers=1)
    for name in ("patch_size", "n_patches", "stride", "grid", "pooling"):
        assert settings[name] == getattr(recipe, name)
    assert settings["mirror"] is False


def test_as_in_python(classes, tmp_path, capsys):
    options = ["--learner", "epls", "--learner", "kmeans", "--set", "epls.max_iter=2", "--seed", 3, "--json"]
    code, out, err = epls(capsys, "compare", classes, "--output", tmp_path, *SMALL, *options)
    assert code == 0, err
    folder = ImageFolder(classes)
    images = np.stack([folder[k] for k in range(len(folder))])
    shared = {"patch_size": 6, "stride": 6, "n_patches": 300}
    features = {
        "epls": ImageFeatures(EPLS(6, max_iter=2), **shared),
        "kmeans": ImageFeatures(KMeansTriangle(6), whiten=True, encoder="triangle", **shared),
    }
    expected = compare(images, folder.labels, features, folds=2, random_state=3)
    assert [entry["folds"] for entry in json.loads(out)["entries"]] == [list(row.folds) for row in expected]


@pytest.mark.slow
@pytest.mark.filterwarnings("default:.* is damaged")
def test_finished_rows_are_kept(classes, tmp_path, capsys, monkeypatch):
    """An interrupted run continues with the learner that was not finished."""
    arguments = ["compare", classes, "--output", tmp_path / "a", *SMALL, "--learner", "raw", "--learner", "epls"]

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(EPLS, "learn", interrupted)
        code, _, err = epls(capsys, *arguments)
    assert code == 1
    assert "interrupted; run the same command to continue" in err
    assert len(list((tmp_path / "a" / "stages").glob("row-*.json"))) == 1
    with monkeypatch.context() as patched:
        patched.setattr(Raw, "learn", interrupted)
        assert epls(capsys, *arguments)[0] == 0
        patched.setattr(EPLS, "learn", interrupted)
        assert epls(capsys, *arguments)[0] == 0  # all is known
    assert (tmp_path / "a" / "compare.html").read_text().count("data:image/png") >= 2
    arguments[3] = tmp_path / "b"
    assert epls(capsys, *arguments)[0] == 0
    tables = [json.loads((tmp_path / name / "compare.json").read_text()) for name in "ab"]
    for entry in (entry for table in tables for entry in table["entries"]):
        del entry["seconds"]
    assert tables[0] == tables[1]
    for path in (tmp_path / "b" / "stages").glob("row-*.json"):
        path.write_text('{"row": {"name": "raw"}}')  # damaged
    code, _, err = epls(capsys, *arguments)
    assert code == 0
    assert err.count("is damaged and is computed again") == 2


def test_a_second_run_at_the_same_place_is_refused(classes, tmp_path, capsys):
    with FolderLock(tmp_path / "stages", "run", "wait"):
        code, _, err = epls(capsys, "compare", classes, "--output", tmp_path, *SMALL)
    assert code == 1
    assert "another run is using" in err


def test_images_that_are_too_small(classes, tmp_path, capsys):
    code, _, err = epls(capsys, "compare", classes, "--output", tmp_path, "--patch-size", 25)
    assert code == 1
    assert "images of (24, 24) pixels are too small for patches of 25" in err


def test_bad_folders_are_told(classes, pictures, tmp_path, capsys):
    code, _, err = epls(capsys, "compare", pictures, "--output", tmp_path)
    assert code == 1
    assert "has images outside of sub-folders" in err
    code, _, err = epls(capsys, "compare", tmp_path / "nothing", "--output", tmp_path)
    assert code == 1
    assert "there is no file or folder" in err
    (tmp_path / "data.npz").write_bytes(b"PK nothing")
    code, _, err = epls(capsys, "compare", tmp_path / "data.npz", "--output", tmp_path)
    assert code == 1
    assert "data.npz" in err
