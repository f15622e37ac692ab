"""Comparisons of learners in Python, on vectors and images."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from epls import EPLS, ImageFeatures, KMeansTriangle, Raw
from epls.evaluation import compare
from epls.learners import Learner


class Knows(TransformerMixin, BaseEstimator):
    """Returns the last column, which is the label, a column for each class."""

    def fit(self, X, y=None):
        assert y is None  # labels are not told to learners
        return self

    def transform(self, X):
        return np.eye(3)[np.asarray(X)[:, -1].astype(int)]


class Noise(Knows):
    def transform(self, X):
        return np.random.RandomState(0).normal(size=(len(X), 3))


def labelled(n=120):
    random = np.random.RandomState(0)
    y = np.arange(n) % 3
    return np.column_stack([random.normal(size=(n, 4)), y]), y


@pytest.mark.parametrize("n_labels", [None, 2, 5])
def test_what_is_known_to_be_good_and_bad(n_labels):
    X, y = labelled()
    good, bad = compare(X, y, {"good": Knows(), "bad": Noise()}, n_labels=n_labels, n_folds=3)
    assert good.accuracy == 100
    assert good.std == 0
    assert 20 < bad.accuracy < 50  # chance is a third
    assert len(good.folds) == 3
    assert (good.n_features, bad.n_features) == (3, 3)
    assert good.accuracy == np.mean(good.folds)
    assert set(good.seconds) == {"learn", "encode", "judge"}


def test_labels_may_be_texts_and_samples_a_frame():
    data = load_iris(as_frame=True)
    texts = data.target_names[data.target]
    first = compare(data.data, texts, [Raw(), PCA(2)])
    again = compare(data.data.to_numpy(), data.target, [Raw(), PCA(2)])
    assert [row.folds for row in first] == [row.folds for row in again]
    assert [row.name for row in first] == ["Raw()", "PCA(n_components=2)"]


def test_a_seed_fixes_all():
    X, y = load_iris(return_X_y=True)
    runs = [compare(X, y, [EPLS(8, max_iter=3)], n_labels=5, random_state=seed)[0].folds for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_settings_of_learners_stay():
    X, y = load_iris(return_X_y=True)
    learner = EPLS(8, max_iter=3)
    compare(X, y, [learner])
    assert learner.random_state is None
    assert not hasattr(learner, "components_")


def test_the_usual_learners_on_vectors():
    X, y = load_digits(return_X_y=True)
    rows = compare(X[:400], y[:400], n_labels=5, n_folds=2)
    assert [row.name for row in rows] == ["raw columns", "PCA(64)", "EPLS(100)"]
    assert all(row.failed is None for row in rows)


class First(Learner):
    """A learner of one's own."""

    def __init__(self, n_components=None):
        self.n_components = n_components

    def learn(self, samples, random):
        return {"components_": samples.array()[: self.n_components]}

    def encode(self, X):
        return X @ self.components_.T


def test_images():
    digits = load_digits()
    images, y = digits.images[:200], digits.target[:200]
    learners = {
        "own": First(5),
        "whole": ImageFeatures(EPLS(5, max_iter=2), patch_size=5, n_patches=300),
        "steps": make_pipeline(ImageFeatures(EPLS(5, max_iter=2), patch_size=5, n_patches=300), StandardScaler()),
        "triangle": KMeansTriangle(5),
        "pca": PCA(5),
    }
    with pytest.raises(TypeError, match="has no transform"):
        compare(images, y, {"x": LinearSVC()})
    rows = compare(np.pad(images, ((0, 0), (4, 4), (4, 4))), y, learners, n_folds=2)
    assert [(row.name, row.failed) for row in rows] == [(name, None) for name in learners]
    assert all(row.n_features == 20 for row in rows)


def test_one_that_fails_stops_no_other():
    X, y = labelled()
    rows = compare(X, y, {"many": EPLS(1000), "good": Knows()})
    assert "n_components=1000" in rows[0].failed
    assert rows[1].accuracy == 100
    table = repr(rows).split("\n")
    assert [line.split()[0] for line in table] == ["learner", "good", "many"]
    assert "failed: n_components=1000" in rows._repr_html_()


def test_figures_as_a_frame():
    X, y = labelled()
    frame = pd.DataFrame(compare(X, y, {"good": Knows(), "bad": Noise()}))
    assert frame.set_index("name")["accuracy"]["good"] == 100


def test_progress():
    told = []
    X, y = labelled()
    compare(X, y, {"good": Knows(), "bad": Noise()}, progress=lambda *step: told.append(step))
    assert told == [("compare", 0, 2), ("compare", 1, 2), ("compare", 2, 2)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(120)}, "1 class"),
        ({"y": np.arange(120)}, "smallest with 1 sample"),
        ({"y": np.zeros(7)}, "120 samples: give one label for each"),
        ({"n_labels": 40}, "at least 41"),
        ({"n_labels": 1}, "n_labels=1 at least 2"),
        ({"n_folds": 0}, "n_folds=0 must be at least 1"),
        ({"learners": [Raw(), Raw()]}, "two learners are called .*: give a dict"),
    ],
)
def test_errors(change, message):
    X, y = labelled()
    with pytest.raises(ValueError, match=message):
        compare(**({"X": X, "y": y} | change))
