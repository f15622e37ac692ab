"""Positions and regions against plain loops over the map, and what memory they may take."""

import tracemalloc
from copy import copy
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epls import EPLS, DeepFeatures, Layer
from epls.images.pooling import Geometry, RegionGrid, n_features_of, pool_sums, require_map, smallest_side
from epls.onnx import to_onnx

SIDES, GRIDS = st.integers(3, 12), st.integers(1, 3)


def plain_region(place, n_places, grid):
    """The part of a side that a place is in, where cuts are rounded, halves up."""
    return sum(place >= np.floor(k * n_places / grid + 0.5) for k in range(1, grid))


@given(st.integers(4, 15), st.integers(4, 15), st.integers(1, 4), st.integers(1, 5))
def test_positions_are_those_of_a_plain_loop(height, width, patch_size, stride):
    geometry = Geometry(patch_size, stride)
    rows, columns = range(0, height - patch_size + 1, stride), range(0, width - patch_size + 1, stride)
    assert geometry.positions(height, width) == (len(rows), len(columns))
    tops, lefts = geometry.corners(np.arange(len(rows) * len(columns)), len(columns))
    assert list(zip(tops, lefts, strict=True)) == [(top, left) for top in rows for left in columns]


@given(SIDES, SIDES, GRIDS, st.integers(1, 20))
def test_sums_over_regions_are_those_of_a_plain_loop(n_rows, n_columns, grid, n_block):
    codes = np.random.RandomState(0).randint(100, size=(n_rows * n_columns, 2)).astype(np.float32)
    expected, counts = np.zeros((grid, grid, 2)), np.zeros((grid, grid), int)
    for position, code in enumerate(codes):
        row, column = divmod(position, n_columns)
        region = plain_region(row, n_rows, grid), plain_region(column, n_columns, grid)
        expected[region] += code
        counts[region] += 1
    regions = RegionGrid((n_rows, n_columns), grid)
    np.testing.assert_array_equal(regions.counts, counts.ravel())
    assert (regions.row_cuts[-1], regions.column_cuts[-1]) == (n_rows, n_columns)
    for order in (regions.order, np.arange):
        sums = np.zeros((grid**2, 2))
        for start in range(0, len(codes), n_block):
            block = order(start, min(start + n_block, len(codes)))
            regions.add(codes[block], block, sums)
        np.testing.assert_array_equal(sums, expected.reshape(-1, 2))


@given(SIDES, SIDES, GRIDS)
def test_the_order_is_region_by_region_and_row_by_row_in_each(n_rows, n_columns, grid):
    expected = sorted(
        range(n_rows * n_columns),
        key=lambda p: (plain_region(p // n_columns, n_rows, grid), plain_region(p % n_columns, n_columns, grid), p),
    )
    order = RegionGrid((n_rows, n_columns), grid).order
    assert order(0, n_rows * n_columns).tolist() == expected
    assert order(2, 5).tolist() == expected[2:5]


SIZES, STEPS = st.integers(1, 5), st.integers(1, 4)
LAYERS = st.lists(st.builds(Geometry, SIZES, STEPS, SIZES, STEPS), min_size=1, max_size=3)


@given(LAYERS, st.integers(1, 4), st.booleans())
def test_the_smallest_side_is_the_least_that_has_a_patch_in_each_region(layers, grid, with_map):
    def fits(side):
        for number, layer in enumerate(layers, 1):
            n_positions = (side - layer.patch_size) // layer.stride + 1
            n_cells = (n_positions - layer.pool) // layer.pool_stride + 1
            if n_positions < grid or (n_cells < 1 and (with_map or number < len(layers))):
                return False
            side = n_cells
        return True

    least = smallest_side(layers, grid, with_map=with_map)
    assert fits(least)
    assert not fits(least - 1)


def test_every_region_of_the_smallest_image_has_a_patch():
    layer = Geometry(3, stride=2)
    least = smallest_side([layer], 3)
    assert RegionGrid(layer.positions(least, least), 3).counts.min() == 1


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("sum", [3.0, -6.0, 0.0, 8.0]),
        ("mean", [1.5, -3.0, 0.0, 2.0]),
        ("log", [np.log(4.0), -np.log(7.0), 0.0, np.log(5.0)]),
    ],
)
def test_pooled_sums(pooling, expected):
    """Signs are kept, and sums of many images are pooled at once."""
    sums, counts = np.array([[3.0, -6.0], [0.0, 8.0]], np.float32), np.array([2, 4])
    found = pool_sums(sums, counts, pooling, 0.5)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.reshape(expected, (2, 2)), rtol=1e-6)
    np.testing.assert_array_equal(pool_sums(np.stack([sums, sums]), counts, pooling, 0.5), [found, found])


@pytest.fixture(scope="module")
def stack():
    images = np.random.RandomState(0).randint(256, size=(3, 12, 12), dtype=np.uint8)
    layers = [Layer(EPLS(20, max_iter=1), patch_size=2, pool=1, n_patches=100) for _ in range(2)]
    return DeepFeatures(layers, grid=1, random_state=0).fit(images)


class TestMemory:
    """A file of some kilobytes may ask for any grid and any map."""

    @staticmethod
    def ways(model, image, tmp_path):
        """Return functions that encode an image in all ways that are installed."""
        found = [lambda: model.transform(image[None]), lambda: list(model.iter_transform(image[None]))]
        if find_spec("torch") is not None:
            on_device = copy(model).set_params(device="cpu")
            found.append(lambda: on_device.transform(image[None]))
        if find_spec("onnx") is not None:
            found.append(lambda: to_onnx(model, tmp_path / "model.onnx", image_shape=image.shape))
        return found

    @staticmethod
    def refused(way, message):
        tracemalloc.start()
        with pytest.raises(ValueError, match=message):
            way()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak < 2**26

    def test_a_fine_grid_of_many_codes(self, stack, tmp_path):
        model = copy(stack).set_params(grid=1000)
        message = "1000 x 1000 regions of 40 codes are 40,000,000 features of an image, but at most 8,388,608"
        image = np.zeros((1010, 1010), np.uint8)
        for way in [*self.ways(model, image, tmp_path), model.get_feature_names_out]:
            assert self.refused(way, message)

    def test_a_map_of_many_cells_and_codes(self, stack, tmp_path):
        message = "1,999 x 1,999 cells of 20 codes are 79,920,020 values of a map, but at most 67,108,864"
        for way in self.ways(stack, np.zeros((2000, 2000), np.uint8), tmp_path):
            assert self.refused(way, message)

    def test_what_real_models_do_is_allowed(self):
        assert n_features_of(2 * 1600, 20) == 1_280_000  # the paper's units with both signs, on a fine grid
        require_map(96, 96, 1600)  # its units at stride 1
        require_map(512, 512, 256)  # the usual first layer for images of 96 pixels, on a photograph of 2,048
