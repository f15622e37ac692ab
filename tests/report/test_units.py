"""Figures of units against plain loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from epls.report.units import N_BINS, filter_statistics, unit_statistics


@pytest.fixture
def codes():
    return np.random.RandomState(0).normal(size=(200, 7)).astype(np.float32)


@pytest.fixture
def components():
    return np.random.RandomState(1).normal(size=(7, 12))


def test_figures_of_each_unit(codes, components):
    found = unit_statistics(codes, components, n_top=5)
    for unit in range(7):
        answers = np.abs(codes[:, unit])
        assert found.mean[unit] == pytest.approx(answers.mean(), rel=1e-5)
        assert found.often[unit] == pytest.approx(sum(a > answers.max() / 2 for a in answers) / 200)
        assert found.wins[unit] == sum(np.abs(row).argmax() == unit for row in codes)
        assert_array_equal(found.strongest[unit], np.argsort(-answers)[:5])
        edges = np.linspace(0, answers.max(), N_BINS + 1)
        assert_allclose(found.histogram[unit], np.histogram(answers, edges)[0], atol=1)  # an answer on an edge
        assert found.histogram[unit].sum() == 200
    assert found.wins.sum() == 200


def test_neighbors(codes, components):
    found = unit_statistics(codes, components, n_top=1)
    cosines = np.abs(components @ components.T) / np.outer(*[np.linalg.norm(components, axis=1)] * 2)
    correlations = np.corrcoef(np.abs(codes).T)
    for unit in range(7):
        others = [k for k in range(7) if k != unit]
        assert_array_equal(found.nearest[unit], sorted(others, key=lambda k: -cosines[unit, k]))
        assert_array_equal(found.together[unit], sorted(others, key=lambda k: -correlations[unit, k]))
        assert_allclose(found.cosines[unit], cosines[unit, found.nearest[unit]], rtol=1e-5)
        assert_allclose(found.correlations[unit], correlations[unit, found.together[unit]], atol=1e-5)


def test_units_that_never_answer_and_few_samples():
    codes = np.array([[0.0, 1.0], [0.0, 2.0]])
    found = unit_statistics(codes, np.zeros((2, 3)), n_top=9)
    assert found.strongest.shape == (2, 2)
    assert found.often.tolist() == [0, 0.5]
    assert found.wins.tolist() == [0, 2]
    assert np.isfinite(found.correlations).all()
    assert np.isfinite(found.cosines).all()


def test_ties_and_silence_are_no_wins():
    codes = np.array([[0.0, 0.0, 0.0], [2.0, -2.0, 1.0], [0.0, 1.0, 3.0]])
    assert unit_statistics(codes, np.eye(3), n_top=1).wins.tolist() == [0, 0, 1]


def test_one_unit_has_no_neighbors():
    found = unit_statistics(np.ones((3, 1)), np.ones((1, 2)), n_top=1)
    assert found.nearest.shape == (1, 0)


def wave(angle, frequency, side=16):
    """Crests in the direction of an angle, counted from the right upwards."""
    rows, columns = np.mgrid[:side, :side]
    across = np.radians(angle)
    distance = columns * np.sin(across) + rows * np.cos(across)  # from the crest through the corner, rows downwards
    return np.cos(2 * np.pi * frequency * distance)


@pytest.mark.parametrize("angle", [0, 30, 45, 90, 120, 135])
@pytest.mark.parametrize("frequency", [0.125, 0.25])
def test_waves_are_told(angle, frequency):
    filters = np.repeat(wave(angle, frequency)[None, :, :, None], 3, axis=3)
    found = filter_statistics(filters)
    away = abs(found["orientation"][0] - angle)
    assert min(away, 180 - away) < 6
    assert found["frequency"][0] == pytest.approx(frequency, abs=0.02)
    assert found["color"][0] == pytest.approx(0, abs=1e-12)


def test_the_drawing_of_45_degrees_rises_to_the_right():
    """A line of ones from bottom left to top right, as one would draw it."""
    line = np.eye(12)[::-1]
    found = filter_statistics(line[None, :, :, None])
    assert found["orientation"][0] == pytest.approx(45, abs=3)


def test_color():
    red_green = np.zeros((1, 6, 6, 3))
    red_green[..., :3, 0] = 1
    red_green[..., :3, 1] = -1
    assert filter_statistics(red_green)["color"][0] == pytest.approx(1)
    assert filter_statistics(np.zeros((1, 6, 6, 3)))["color"][0] == 0
    red = np.zeros((1, 6, 6, 3))
    red[..., 0] = np.random.RandomState(0).normal(size=(6, 6))
    assert filter_statistics(red)["color"][0] == pytest.approx(2 / 3)
