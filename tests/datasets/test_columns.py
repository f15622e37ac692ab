"""Columns that look like something else than a measurement."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from epls.datasets.columns import doubtful_columns

ROWS = np.random.RandomState(0).normal(size=40)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("label", "label"), ("Class", "label"), ("TARGET", "label"), ("y", "label"), ("true_label", "label"),
        ("id", "identifier"), ("patient_id", "identifier"), ("patientId", "identifier"), ("ID", "identifier"),
        ("Unnamed: 0", "identifier"), ("index", "identifier"),
        ("height", None), ("width", None), ("acid", None), ("yield", None), ("identity", None), ("x_y", None),
        ("", None), ("classic", None), ("y1", None),
    ],
)  # fmt: skip
def test_names(name, kind):
    assert doubtful_columns(ROWS[:, None], [name]) == ({} if kind is None else {kind: [name]})


@given(start=st.integers(-(10**6), 10**6), step=st.integers(1, 1000), seed=st.integers(0, 100))
def test_different_whole_numbers_look_like_identifiers(start, step, seed):
    values = np.random.RandomState(seed).permutation(40) * step + start
    X = np.column_stack([ROWS, values, values % 7])
    assert doubtful_columns(X, ["a", "b", "c"]).get("identifier") == ["b"]


def test_few_rows_say_nothing():
    assert doubtful_columns(np.arange(9)[:, None], ["a"]) == {}
    assert doubtful_columns(np.ones((1, 1)), ["a"]) == {}


def test_a_column_is_listed_once():
    assert doubtful_columns(np.ones((20, 2)), ["a", "id"]) == {"constant": ["a", "id"]}
    assert doubtful_columns(np.arange(20)[:, None], ["label"]) == {"label": ["label"]}


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_measurements_are_left_alone(load):
    data = load()
    assert doubtful_columns(data.data, list(data.feature_names)) == {}
