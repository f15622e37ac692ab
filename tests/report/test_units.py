"""Figures of units against plain loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from epls.report.units import N_BINS, filter_statistics, layer_content, strongest_samples


def figures(codes, components):
    found = layer_content(codes, components, [None], "samples", facts=[], about=[])
    return found, found["units"]


@pytest.fixture
def codes():
    return np.random.RandomState(0).normal(size=(200, 7)).astype(np.float32)


@pytest.fixture
def components():
    return np.random.RandomState(1).normal(size=(7, 12))


def test_figures_of_each_unit(codes, components):
    found, units = figures(codes, components)
    strongest = strongest_samples(codes, 5)
    for unit in range(7):
        answers = np.abs(codes[:, unit])
        assert units["mean"][unit] == pytest.approx(answers.mean(), rel=1e-5)
        assert units["often"][unit] == pytest.approx(sum(a > answers.max() / 2 for a in answers) / 200)
        assert units["wins"][unit] == sum(np.abs(row).argmax() == unit for row in codes)
        assert_array_equal(strongest[unit], np.argsort(-answers)[:5])
        edges = np.linspace(0, answers.max(), N_BINS + 1)
        assert_allclose(found["histogram"][unit], np.histogram(answers, edges)[0], atol=1)  # an answer on an edge
        assert found["histogram"][unit].sum() == 200
    assert units["wins"].sum() == 200


def test_neighbors(codes, components):
    found, units = figures(codes, components)
    cosines = np.abs(components @ components.T) / np.outer(*[np.linalg.norm(components, axis=1)] * 2)
    correlations = np.corrcoef(np.abs(codes).T)
    for unit in range(7):
        others = [k for k in range(7) if k != unit]
        for pairs, similarities in ((found["nearest"][unit], cosines), (found["together"][unit], correlations)):
            similar = sorted(others, key=lambda k, all_of=similarities[unit]: -all_of[k])
            assert [k for k, _ in pairs] == similar
            assert_allclose([similarity for _, similarity in pairs], similarities[unit, similar], rtol=1e-3)
        assert units["redundancy"][unit] == pytest.approx(cosines[unit, others].max(), rel=1e-5)


def test_units_that_never_answer_and_few_samples():
    codes = np.array([[0.0, 1.0], [0.0, 2.0]])
    found, units = figures(codes, np.zeros((2, 3)))
    assert [samples.shape for samples in strongest_samples(codes, 9)] == [(2,), (2,)]
    assert units["often"].tolist() == [0, 0.5]
    assert units["wins"].tolist() == [0, 2]
    assert np.isfinite([found["together"], found["nearest"]]).all()


def test_ties_and_silence_are_no_wins():
    codes = np.array([[0.0, 0.0, 0.0], [2.0, -2.0, 1.0], [0.0, 1.0, 3.0]])
    assert figures(codes, np.eye(3))[1]["wins"].tolist() == [0, 0, 1]


def test_one_unit_has_no_neighbors():
    assert figures(np.ones((3, 1)), np.ones((1, 2)))[0]["nearest"] == [[]]


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
    assert found["clarity"][0] > 0.7
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


def test_noise_is_not_clear():
    noise = np.random.RandomState(0).normal(size=(50, 10, 10, 3))
    assert filter_statistics(noise)["clarity"].max() < 0.3
    assert filter_statistics(np.zeros((1, 6, 6, 3)))["clarity"][0] == 0
