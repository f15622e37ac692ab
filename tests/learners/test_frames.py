"""Learners, groups and reports take data frames of pandas and of polars."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, BalancedKMeans, KMeansTriangle, load_model, save_model
from epls.report import model_page

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


@pytest.fixture(params=["pandas", "polars"])
def frame(request):
    X = load_iris().data
    if request.param == "pandas":
        return pd.DataFrame(X, columns=NAMES)
    return pytest.importorskip("polars").DataFrame(X, schema=NAMES)


def reversed_columns(frame):
    return frame[NAMES[::-1]]


@pytest.mark.parametrize("learner", [EPLS(6, max_iter=2, random_state=0), KMeansTriangle(6, random_state=0)])
def test_frames_give_what_arrays_give(frame, learner):
    expected = learner.fit(load_iris().data).components_
    codes = learner.transform(load_iris().data)
    learner.fit(frame)
    assert_array_equal(learner.components_, expected)
    assert learner.feature_names_in_.tolist() == NAMES
    assert_array_equal(learner.transform(frame), codes)
    with pytest.raises(ValueError, match="feature names should match"):
        learner.transform(reversed_columns(frame))


def test_frames_come_out_and_survive_a_file(frame, tmp_path):
    kind = type(frame).__module__.partition(".")[0]
    model = make_pipeline(StandardScaler(), EPLS(6, max_iter=2, random_state=0)).set_output(transform=kind).fit(frame)
    save_model(model, tmp_path / "model")
    codes = load_model(tmp_path / "model").transform(frame)
    assert type(codes) is type(frame)
    assert list(codes.columns) == [f"epls{k}" for k in range(6)]
    assert_array_equal(np.asarray(codes), np.asarray(model.transform(frame)))


def test_groups_and_pages(frame):
    groups = BalancedKMeans(3, random_state=0).fit(frame).labels_
    assert_array_equal(groups, BalancedKMeans(3, random_state=0).fit(load_iris().data).labels_)
    assert "petal width" in model_page(EPLS(6, max_iter=2, random_state=0).fit(frame), frame)


def test_lazy_frames_are_told_from_others():
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"LazyFrame .* give X\.collect\(\)"):
        EPLS(6).fit(polars.DataFrame({"a": [1.0, 2.0]}).lazy())
