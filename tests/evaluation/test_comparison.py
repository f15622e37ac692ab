"""Comparisons of learners in Python, on vectors and images."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from epls import EPLS, OMP, ImageFeatures, KMeansTriangle, Raw
from epls.evaluation import compare
from epls.images.recipes import quick_features
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
    good, bad = compare(X, y, {"good": Knows(), "bad": Noise()}, n_labels=n_labels, folds=3)
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


@pytest.mark.slow
def test_the_usual_learners_on_vectors():
    X, y = load_digits(return_X_y=True)
    rows = compare(X[:150], y[:150], n_labels=5, folds=2)
    assert [row.name for row in rows] == [
        "raw columns", "raw, unit length, logistic regression", "PCA(15)", "Prototypes(15)",
    ]  # fmt: skip
    assert all(row.failed is None for row in rows)
    units = X[:150] / np.linalg.norm(X[:150], axis=1, keepdims=True)
    (raw,) = compare(units, y[:150], [Raw()], n_labels=5, folds=2)
    assert rows[1].accuracy > 70
    assert abs(rows[1].accuracy - raw.accuracy) < 8  # another linear classifier on the same vectors


class First(Learner):
    """A learner of one's own."""

    def __init__(self, n_components=None):
        self.n_components = n_components

    def learn(self, samples, random):
        return {"components_": samples.array()[: self.n_components]}

    def encode(self, X):
        return X @ self.components_.T


@pytest.mark.slow
def test_images():
    digits = load_digits()
    images, y = digits.images[:80], digits.target[:80]
    learners = {
        "own": First(5),
        "whole": ImageFeatures(EPLS(5, max_iter=2), patch_size=5, n_patches=300),
        "steps": make_pipeline(ImageFeatures(EPLS(5, max_iter=2), patch_size=5, n_patches=300), StandardScaler()),
        "triangle": KMeansTriangle(5),
        "pca": PCA(5),
    }
    with pytest.raises(TypeError, match="has no transform"):
        compare(images, y, {"x": LinearSVC()})
    rows = compare(np.pad(images, ((0, 0), (4, 4), (4, 4))), y, learners, folds=2)
    assert [(row.name, row.failed) for row in rows] == [(name, None) for name in learners]
    assert all(row.n_features == 20 for row in rows)


def test_images_have_the_recipe_around_learners():
    """Also images of different sizes; what a learner of the library needs is set, too."""
    digits = load_digits()
    images = [np.pad(image, ((2, 2), (3, k % 2))) for k, image in enumerate(digits.images[:40])]
    fitted = []
    learners = {"epls": EPLS(5, max_iter=1), "kmeans": KMeansTriangle(5), "pca": PCA(5)}
    rows = compare(images, np.arange(40) % 2, learners, folds=2, on_row=lambda row, model: fitted.append(model))
    recipe = quick_features(40, 12, 11, layers=1)
    for model in fitted:
        assert (model.patch_size, model.n_patches, model.stride) == (recipe.patch_size, recipe.n_patches, recipe.stride)
        assert model.mirror is False
    assert [(model.whiten, model.encoder) for model in fitted] == [
        (False, "natural"), (True, "triangle"), (False, "natural"),
    ]  # fmt: skip
    assert [(row.n_units, row.n_to_tune) for row in rows] == [(5, 0), (5, 0), (None, None)]


def test_classifiers_are_trained_on_the_samples():
    """Their figures are those of their own score, in the folds of the learners."""
    iris = load_iris(as_frame=True)
    X, y = iris.data, iris.target.to_numpy()
    train = [np.arange(k, 150, 3) for k in range(3)]
    forest = RandomForestClassifier(10)
    told = []
    for data in (X, X.to_numpy(), X.to_numpy().tolist()):
        learners = {"forest": forest, "raw": Raw()}
        row, raw = compare(data, y, learners, folds=train, on_row=lambda row, fitted: told.append(fitted))
        seed = told[0].random_state
        expected = [
            100 * clone(forest).set_params(random_state=seed).fit(X.to_numpy()[k], y[k]).score(
                np.delete(X.to_numpy(), k, axis=0), np.delete(y, k)
            )
            for k in train
        ]  # fmt: skip
        np.testing.assert_allclose(row.folds, expected)
        assert (row.n_features, row.n_units, row.seconds["encode"]) == (4, None, 0)
        assert raw.failed is None


def test_the_usual_learners_on_images():
    digits = load_digits()
    rows = compare(digits.images[:60], digits.target[:60] % 2, folds=1)
    n_units = quick_features(60, 8, 8, layers=1).estimator.n_components
    assert [row.name for row in rows] == ["raw pixels", "PCA(16)", f"EPLS({n_units})"]
    assert [row.failed for row in rows] == [None] * 3


def test_units_that_never_answer_are_counted():
    X, y = labelled()
    rows = compare(X, y, {"epls": EPLS(6, max_iter=3), "omp": OMP(6, max_iter=2), "good": Knows()}, folds=2)
    assert [(row.n_units, row.n_to_tune) for row in rows] == [(6, 0), (6, 1), (None, None)]
    assert rows[0].n_never_active == 0
    line = next(line for line in repr(rows).splitlines() if line.startswith("epls"))
    assert line.endswith("0 of 6")


def test_folds_may_be_given():
    X, y = labelled()
    folds = [np.arange(60), np.arange(30, 100)]
    given = compare(X, y, {"good": Knows(), "bad": Noise()}, folds=folds)
    assert [len(row.folds) for row in given] == [2, 2]
    assert given[0].folds == (100, 100)
    again = compare(X[:, ::-1].copy()[:, ::-1], y, {"bad": Noise()}, folds=folds[:1])
    assert again[0].folds == given[1].folds[:1]
    with pytest.raises(ValueError, match="n_labels=5 draws its own samples"):
        compare(X, y, {"good": Knows()}, folds=folds, n_labels=5)


def test_rows_are_told_when_they_are_known():
    X, y = labelled()
    told = []
    rows = compare(X, y, {"many": EPLS(1000), "good": Knows()}, on_row=lambda *row: told.append(row))
    assert [row for row, _ in told] == list(rows)
    assert [type(fitted) for _, fitted in told] == [type(None), Knows]


def test_one_that_fails_stops_no_other():
    X, y = labelled()
    rows = compare(X, y, {"many": EPLS(1000), "good": Knows()})
    assert "n_components=1000" in rows[0].failed
    assert rows[1].accuracy == 100
    table = repr(rows).split("\n")
    assert [line.split()[0] for line in table] == ["learner", "good", "many"]
    assert "failed: n_components=1000" in repr(rows)


class Destroys(Knows):
    """Writes into the samples, whatever their form."""

    def fit(self, X, y=None):
        if isinstance(X, pd.DataFrame):
            X.iloc[:] = 0
        else:
            for row in X:
                row[...] = 0
        return self


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, list])
def test_a_learner_may_change_its_samples(form):
    """Neither the next learner nor the caller sees the change."""
    X, y = labelled()
    given = form(X.copy())
    rows = compare(given, y, {"destroys": Destroys(), "good": Knows()}, folds=2)
    assert [(row.accuracy, row.failed) for row in rows] == [(100, None), (100, None)]
    np.testing.assert_array_equal(np.asarray(given), X)


class Returns(Knows):
    """Returns features of any shape."""

    def __init__(self, shape=(120, 4)):
        self.shape = shape

    def transform(self, X):
        return np.zeros(self.shape)


@pytest.mark.parametrize("shape", [(240, 4), (60, 4), (120,), (120, 2, 2)])
def test_features_of_another_shape_are_refused(shape):
    X, y = labelled()
    failed, good = compare(X, y, {"returns": Returns(shape), "good": Knows()})
    assert failed.failed == f"transform returned shape {shape}, but (120, n_features) is needed"
    assert good.accuracy == 100


class Raises(Knows):
    def __init__(self, error=None):
        self.error = error

    def fit(self, X, y=None):
        raise self.error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SystemExit(0), "SystemExit: 0"),
        (RuntimeError(), "RuntimeError"),
        (ValueError(" "), "ValueError"),
        (ValueError("one\ntwo"), "one"),
        (ValueError("Expected 2D array, got:\narray=[1. 2.].\nReshape"), "Expected 2D array, got: array=[1. 2.]."),
        (KeyError("a"), "KeyError: 'a'"),
    ],
)
def test_reasons_of_failures(error, reason):
    X, y = labelled()
    failed, good = compare(X, y, {"raises": Raises(error), "good": Knows()}, folds=2)
    assert failed.failed == reason
    assert good.accuracy == 100


def test_an_interrupt_stops_the_comparison():
    X, y = labelled()
    with pytest.raises(KeyboardInterrupt):
        compare(X, y, {"raises": Raises(KeyboardInterrupt()), "good": Knows()})


class Changes(Knows):
    """Cannot be cloned, because it changes its parameter."""

    def __init__(self, names=()):
        self.names = list(names)


def test_one_that_cannot_be_cloned_stops_no_other():
    X, y = labelled()
    good, failed = compare(X, y, {"good": Knows(), "changes": Changes()}, folds=2)
    assert good.accuracy == 100
    assert failed.failed.startswith("RuntimeError: Cannot clone object")


class NoComponents(Knows):
    pass


def test_images_need_components():
    digits = load_digits()
    (row,) = compare(np.pad(digits.images[:40], ((0, 0), (4, 4), (4, 4))), np.arange(40) % 2, {"own": NoComponents()})
    assert row.failed == "NoComponents has no components_ after fit; on images, a learner must set them"


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, "", " ", "nan"])
@pytest.mark.parametrize("others", ["texts", "numbers"])
def test_missing_labels_are_refused(missing, others):
    X, y = labelled()
    labels = [str(k) for k in y] if others == "texts" else [float(k) for k in y]
    with pytest.raises(ValueError, match=r"y has no label \(empty or NaN\) for 1 of 120 samples: fill"):
        compare(X, pd.Series([*labels[:-1], missing], dtype=object), {"good": Knows()})


@pytest.mark.parametrize(
    "y",
    [
        np.r_[np.arange(119) % 3, np.nan],
        np.array([*"abc" * 39, "a", "b", " "]),
        np.array([*"abc" * 39, "a", "b", np.nan]),
    ],
)
def test_missing_labels_in_arrays_are_refused(y):
    with pytest.raises(ValueError, match=r"y has no label .* for 1 of 120"):
        compare(labelled()[0], y, {"good": Knows()})


@pytest.mark.parametrize("form", [np.array, lambda texts: np.array(texts, dtype=object)])
def test_spaces_around_labels_do_not_count(form):
    X, y = labelled()
    texts = [("a", "b", "c")[k] + " " * (number % 2) for number, k in enumerate(y)]
    assert compare(X, form(texts), {"good": Knows()})[0].accuracy == 100
    assert compare(X, form(texts), [Raw()])[0].folds == compare(X, y, [Raw()])[0].folds


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
        ({"y": np.zeros(120)}, "^the labels have 1 class: give samples of at least two classes"),
        ({"y": np.arange(120)}, "have 120 classes, the smallest with 1 sample; at least 4 in each are needed"),
        ({"y": np.zeros(7)}, "120 samples: give one label for each"),
        ({"X": np.zeros((0, 2)), "y": []}, "the labels have 0 classes"),
        (
            {"n_labels": 40},
            "have 3 classes, the smallest with 40 samples; n_labels=40 needs at least 41 in each: give a smaller n_l",
        ),
        ({"n_labels": 1}, "n_labels=1 at least 2"),
        ({"folds": 0}, "folds=0 must be at least 1"),
        ({"learners": [Raw(), Raw()]}, "two learners are called .*: give a dict"),
    ],
)
def test_errors(change, message):
    X, y = labelled()
    with pytest.raises(ValueError, match=message):
        compare(**({"X": X, "y": y} | change))
