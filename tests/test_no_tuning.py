"""EPLS at its defaults on every kind of data of the benchmark that needs no download."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from no_tuning import bundled_kinds, judge

KINDS = bundled_kinds()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_warning_no_collapse_no_silent_unit(kind):
    X = KINDS[kind]
    result = judge(X[:2000] if kind != "two tight clusters" else X[::2])  # a warning is an error there
    assert result["finite"]
    assert result["last error"] < result["first error"]
    assert result["last error"] < 1.01
    assert result["spread"] <= 1
    assert result["never active"] == 0
    assert result["least largest"] >= 0.5 - 1e-3
