"""`epls compare` with learners of the user's own, from a file or a module."""

import json
import sys

import numpy as np
import pytest
from run_command import check_error, epls
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_iris

from epls import ImageFeatures, KMeansTriangle, Raw
from epls.evaluation import compare

CODE = '''
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from neighbour import FACTOR  # a file beside it


class Mine(TransformerMixin, BaseEstimator):
    """Random projections, squared."""

    def __init__(self, n_components=3, power=2, random_state=None):
        self.n_components, self.power, self.random_state = n_components, power, random_state

    def fit(self, X, y=None):
        random = np.random.RandomState(self.random_state)
        self.components_ = FACTOR * random.normal(size=(self.n_components, X.shape[1]))
        return self

    def transform(self, X):
        return np.abs(X @ self.components_.T) ** self.power


class Fails(Mine):
    def fit(self, X, y=None):
        return self.undefined


class Strict(Mine):
    def __init__(self, necessary):
        self.necessary = necessary


class Forgets(Mine):
    def __init__(self, power=2):
        pass


class Exits(Mine):
    def __init__(self):
        raise SystemExit(0)


class ExitsInFit(Mine):
    def fit(self, X, y=None):
        raise SystemExit(0)


class Interrupted(Mine):
    def fit(self, X, y=None):
        raise KeyboardInterrupt


class kmeans(Mine):
    pass


class raw(Mine):
    pass


class Other:
    pass
'''
IRIS = load_iris()


@pytest.fixture
def work(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "neighbour.py").write_text("FACTOR = 1.0\n")
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "exits.py").write_text("import sys\n\nsys.exit(0)\n")
    (tmp_path / "silent.py").write_text("raise RuntimeError\n")
    (tmp_path / "mine.txt").write_text(CODE)
    np.savez(tmp_path / "iris.npz", X=IRIS.data, y=IRIS.target)
    random = np.random.default_rng(0)
    images = random.integers(256, size=(24, 12, 12), dtype=np.uint8)
    images[1::2] = np.repeat(images[1::2, :, :1], 12, axis=2)  # stripes
    np.savez(tmp_path / "images.npz", images=images, labels=np.arange(24) % 2)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in set(sys.modules) - before:
        if name in ("mine", "neighbour", "own_mine", "own_broken", "own_exits", "own_silent"):
            del sys.modules[name]


class Expected(TransformerMixin, BaseEstimator):
    """What CODE does, written once more."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        self.matrix_ = np.random.RandomState(self.random_state).normal(size=(4, X.shape[1]))
        return self

    def transform(self, X):
        return np.abs(X @ self.matrix_.T) ** 3


@pytest.mark.parametrize("name", ["mine.py:Mine", "mine:Mine", "./mine.py:Mine"])
def test_vectors(work, capsys, name):
    arguments = ["--n-components", 4, "--n-folds", 2, "--no-scale", "--set", "Mine.power=3", "--json"]
    code, out, err = epls(capsys, "compare", "iris.npz", "--learner", name, "--learner", "kmeans", *arguments)
    assert code == 0, err
    entries = {entry["name"]: entry for entry in json.loads(out)["entries"]}
    assert list(entries) == ["raw columns", "pca, 4", "kmeans", "Mine, power=3"]
    expected = compare(IRIS.data, IRIS.target, {"a": Expected(), "raw": Raw(), "k": KMeansTriangle(4)}, n_folds=2)
    assert entries["Mine, power=3"]["folds"] == pytest.approx(expected[0].folds)
    assert entries["raw columns"]["folds"] == pytest.approx(expected[1].folds)
    assert entries["kmeans"]["folds"] == pytest.approx(expected[2].folds)


def test_images(work, capsys):
    small = ["--n-components", 5, "--patch-size", 4, "--n-patches", 200, "--stride", 2, "--n-folds", 2]
    learners = ["--learner", "mine.py:Mine", "--learner", "omp", "--learner", "raw"]
    code, out, err = epls(capsys, "compare", "images.npz", *learners, *small, "--mirror")
    assert code == 0, err
    report = json.loads((work / "epls-compare" / "compare.json").read_text())
    entries = {entry["name"]: entry for entry in report["entries"]}
    assert {name: entry["n_features"] for name, entry in entries.items()} == {
        "omp, natural": 4 * 5, "raw, natural": 4 * 16, "Mine, natural": 4 * 5
    }  # fmt: skip
    assert all(entry["failed"] is None for entry in entries.values())
    archive = np.load("images.npz")
    raw = ImageFeatures(Raw(), patch_size=4, n_patches=200, stride=2, mirror=True)
    expected = compare(archive["images"], archive["labels"], {"raw": raw}, n_folds=2)
    assert entries["raw, natural"]["folds"] == pytest.approx(expected[0].folds)
    assert "Mine, natural" in out
    assert not (work / "epls-compare" / "stages").exists()
    code, _, err = epls(capsys, "compare", "images.npz", *learners, *small)
    assert "already exists" in err


def test_a_learner_that_fails_has_its_row(work, capsys):
    arguments = ["--learner", "mine.py:Fails", "--learner", "mine.py:Mine", "--n-folds", 2, "--n-components", 4]
    code, out, err = epls(capsys, "compare", "iris.npz", *arguments)
    assert code == 0, err
    assert "AttributeError: 'Fails' object has no attribute 'undefined'" in out


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("mine.py:", 2, "--learner mine.py:: write it as MODULE:CLASS or FILE.py:CLASS"),
        (":Mine", 2, "write it as MODULE:CLASS"),
        ("absent.py:Mine", 2, "there is no file absent.py"),
        ("absent:Mine", 1, "importing absent failed: ModuleNotFoundError: No module named 'absent'"),
        ("broken.py:Mine", 1, "importing broken.py failed: ModuleNotFoundError: No module named 'nothing"),
        ("mine.py:Absent", 2, "no class Absent; classes with fit and transform: Mine, Fails, Strict, Forgets"),
        ("mine.py:FACTOR", 2, "there is no class FACTOR"),
        ("mine.py:Other", 2, "Other must have fit, transform and get_params"),
        ("mine.py:Strict", 1, r"Strict\(\) failed: TypeError: .*necessary"),
        ("exits.py:Mine", 1, r"importing exits.py failed: it called sys.exit\(0\)"),
        ("exits:Mine", 1, r"importing exits failed: it called sys.exit\(0\)"),
        ("silent.py:Mine", 1, "importing silent.py failed: RuntimeError$"),
        ("mine.py:Exits", 1, r"Exits\(\) failed: it called sys.exit\(0\)"),
        ("mine.py:Forgets", 1, "get_params of Forgets failed: AttributeError: .*; its __init__ must store each"),
        ("mine.txt:Mine", 2, "mine.txt is neither a module nor a .py file"),
        ("own/mine.txt:Mine", 2, "own/mine.txt is neither a module nor a .py file"),
        ("unknown", 2, "'unknown' is not one of"),
    ],
)
def test_what_cannot_be_loaded(work, capsys, name, code, message):
    check_error(capsys, work, ["compare", "iris.npz", "--learner", name], code, message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layers", 2], "--layers is for learners of the library"),
        (["--split-sign"], "--split-sign is for learners of the library"),
        (["--mirror", "decisions"], "--mirror decisions is for learners of the library"),
        (["--set", "other.power=3"], "LEARNER being one of Mine"),
        (["--learner", "mine:Mine"], "another learner is called Mine"),
        (["--learner", "raw", "--learner", "mine:raw"], "--learner mine:raw: another learner is called raw"),
        (["--all", "--learner", "mine:kmeans"], "another learner is called kmeans"),
        (["--set", "Mine.=3"], "--set Mine.=3: write it as LEARNER.NAME=VALUE, LEARNER being one of Mine"),
    ],
)
def test_what_has_no_meaning_for_own_learners(work, capsys, arguments, message):
    check_error(capsys, work, ["compare", "images.npz", "--learner", "mine.py:Mine", *arguments], 2, message)


@pytest.mark.parametrize("name", ["kmeans", "raw"])
def test_a_class_called_like_a_learner_of_the_library(work, capsys, name):
    arguments = ["compare", "iris.npz", "--learner", f"mine.py:{name}", "--n-folds", 2, "--n-components", 4]
    check_error(capsys, work, [*arguments, "--learner", name], 2, f"another learner is called {name}; give one of them")
    code, out, err = epls(capsys, *arguments, "--set", f"{name}.power=3", "--json")
    assert code == 0, err
    assert [entry["name"] for entry in json.loads(out)["entries"]] == ["raw columns", "pca, 4", f"{name}, power=3"]


def test_a_learner_that_ends_the_program_has_its_row(work, capsys):
    arguments = ["compare", "iris.npz", "--n-folds", 2, "--n-components", 4]
    code, out, err = epls(capsys, *arguments, "--learner", "mine.py:ExitsInFit", "--learner", "mine.py:Mine")
    assert code == 0, err
    assert "failed: SystemExit: 0" in out
    code, out, err = epls(capsys, *arguments, "--learner", "mine.py:Interrupted", "--output", "other")
    assert code == 1
    assert "interrupted" in err
    assert out == ""
