"""The kernels of stacks against plain arithmetic in double precision."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import expit

from epls.kernels.dense import LANES, gather_centered, pool_logistic, pool_rectified, take_channels


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize(("size", "n_channels", "stride"), [(1, 2, 1), (3, 1, 2), (5, 16, 1), (7, 3, 3), (2, 3, 5)])
def test_patches_are_less_their_mean_and_the_factor_is_their_contrast(dtype, size, n_channels, stride):
    random = np.random.RandomState(0)
    image = random.uniform(0, 255, size=(19, 24, n_channels)).astype(dtype)
    windows = sliding_window_view(image.astype(float), (size, size), axis=(0, 1))[::stride, ::stride]
    n_rows, n_columns = windows.shape[:2]
    expected = windows.transpose(0, 1, 3, 4, 2).reshape(n_rows * n_columns, -1)
    expected = expected - expected.mean(axis=1, keepdims=True)
    lines = image.reshape(len(image), -1)
    for start, stop in ((2, n_rows * n_columns - 1), (1, n_columns - 1), (n_columns - 2, n_columns + 2)):
        patches = np.full((stop - start, expected.shape[1] + LANES), np.nan, np.float32)
        factors = np.empty(stop - start, np.float32)
        gather_centered(lines, start, stop, n_columns, size, stride, 10.0, patches, factors)
        np.testing.assert_allclose(patches[:, :-LANES], expected[start:stop], atol=3e-5)
        np.testing.assert_allclose(factors, 1 / np.sqrt(expected[start:stop].var(axis=1) + 10), rtol=1e-6)


def test_a_huge_pixel_leaves_the_patches_beside_it_as_they_are():
    image = np.random.RandomState(0).uniform(size=(6, 20)).astype(np.float32)
    image[2, 3] = 1e14
    patches, factors = np.empty((18 * 4, 9 + LANES), np.float32), np.empty(18 * 4, np.float32)
    gather_centered(image, 0, 18 * 4, 18, 3, 1, 0.1, patches, factors)
    beside = image[:3, 10:13].astype(float)
    np.testing.assert_allclose(patches[10, :9], (beside - beside.mean()).ravel(), atol=1e-6)
    np.testing.assert_allclose(factors[10], 1 / np.sqrt(beside.var() + 0.1), rtol=1e-6)


@pytest.mark.parametrize("kind", ["logistic", "rectified", "split"])
@pytest.mark.parametrize("n_units", [1, 7, 40])
def test_outputs_are_added_to_their_region_and_cells(kind, n_units):
    random = np.random.RandomState(0)
    n_rows, n_columns, size, step = 7, 9, 3, 2
    net = random.normal(scale=30, size=(n_rows * n_columns, n_units)).astype(np.float32)
    factors = random.uniform(0.5, 2, size=len(net)).astype(np.float32)
    shift, intercept = random.normal(size=(2, n_units)).astype(np.float32)
    of_row, of_column = np.repeat([0, 2], [3, 4]), np.repeat([0, 1], [4, 5])
    ends = np.array([2, 2, 3, 4, 5, 6, 7, 8, 9])  # 4 is in one more cell than 3
    n_codes = n_units * (2 if kind == "split" else 1)
    sums, cells = np.zeros((4, n_codes)), np.zeros((3, 4, n_codes), np.float32)
    for start in range(0, len(net), 20):  # blocks that end anywhere in a row
        some = slice(start, start + 20)
        where = start, ends, of_row, of_column, sums, cells, size, step
        if kind == "logistic":
            pool_logistic(net[some], factors[some], intercept, *where)
        else:
            pool_rectified(net[some], factors[some], shift, intercept, *where)
    z = factors[:, None].astype(float) * net
    outputs = expit(-np.log(2) * (z + intercept))
    if kind != "logistic":
        signs = [1, -1] if kind == "split" else [1]
        outputs = np.hstack([np.maximum(sign * (z - shift) + intercept, 0) for sign in signs])
    outputs = outputs.reshape(n_rows, n_columns, -1)
    for region, (rows, columns) in enumerate(
        [(i, j) for i in (slice(3), slice(3, 7)) for j in (slice(4), slice(4, 9))]
    ):
        np.testing.assert_allclose(sums[region], outputs[rows, columns].sum(axis=(0, 1)), rtol=1e-5, atol=1e-5)
    for r in range(3):
        for c in range(4):
            part = outputs[r * step : r * step + size, c * step : c * step + size]
            np.testing.assert_allclose(cells[r, c], part.sum(axis=(0, 1)), rtol=1e-5, atol=1e-5)


def test_channels_of_groups_are_taken():
    image = np.random.RandomState(0).uniform(size=(4, 5, 6)).astype(np.float32)
    channels = np.array([[0, 5], [2, 3], [1, 5]])
    lines = np.empty((3, 4, 10), np.float32)
    take_channels(image, channels, lines)
    for group, line in zip(channels, lines, strict=True):
        assert np.array_equal(line.reshape(4, 5, 2), image[:, :, group])
