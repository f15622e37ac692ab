"""Places on the map and on the grid."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.manifold import trustworthiness

from epls.report import layout
from epls.report.layout import grid_positions, map_positions
from epls.report.similarity import comparable


@pytest.mark.parametrize("landmarks", [4000, 100])
def test_neighbours_are_near_each_other(blobs, monkeypatch, landmarks):
    monkeypatch.setattr(layout, "_LANDMARKS", landmarks)
    X = comparable(blobs, np.random.RandomState(0))
    positions = map_positions(X, np.random.RandomState(0))
    assert positions.shape == (400, 2)
    assert positions.min() >= 0
    assert positions.max() <= 1
    assert trustworthiness(X, positions, n_neighbors=10) > 0.9
    np.testing.assert_array_equal(positions, map_positions(X, np.random.RandomState(0)))


@pytest.mark.parametrize("X", [np.eye(3), np.ones((8, 4)) / 2, np.eye(7)[:, :1], np.ones((4, 1))])
def test_few_or_equal_samples_have_a_place(X):
    positions = map_positions(X, np.random.RandomState(0))
    assert positions.shape == (len(X), 2)
    assert np.isfinite(positions).all()


@given(st.integers(1, 200), st.integers(0, 1000))
def test_every_sample_has_a_cell_of_its_own(n_samples, seed):
    cells = grid_positions(np.random.RandomState(seed).uniform(size=(n_samples, 2)))
    assert len(set(map(tuple, cells))) == n_samples
    side = int(np.ceil(np.sqrt(n_samples)))
    assert cells.min() >= 0
    assert cells.max() < side


def test_a_grid_stays_as_it_is():
    cells = np.stack(np.meshgrid(np.arange(6), np.arange(6)), axis=2).reshape(-1, 2)
    shuffled = np.random.RandomState(0).permutation(cells)
    np.testing.assert_array_equal(grid_positions(shuffled / 5), shuffled)
