"""The fast encoding of stacks against the general one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_sample_images

from epls import EPLS, KMeansTriangle, Layer, NaturalEncoder
from epls.images.layers import LayerEncoder
from epls.images.units import LogisticUnits, UnitPools, _stretch_ends

IMAGES = np.stack(load_sample_images().images)[:, 100:140, 200:250]


def fitted(images=IMAGES, estimator=None, **settings):
    estimator = EPLS(11, max_iter=2) if estimator is None else estimator
    return Layer(estimator, n_patches=1000, random_state=0, **{"patch_size": 5, **settings}).fit(images)


@pytest.mark.parametrize("images", [IMAGES, IMAGES.astype(np.float32) / 255], ids=["bytes", "fractions"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"pool": 3, "pool_stride": 2},
        {"pool": 1, "patch_size": 7, "stride": 3},
        {"pool": 2, "pool_stride": 5},
        {"pooling": "mean"},
        {"whiten": True},
        {"n_groups": 4, "group_size": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("grid", [1, 3])
def test_features_and_maps_are_those_of_the_general_encoder(images, settings, grid):
    layer = fitted(images, **settings)
    fast, exact = layer.new_encoders()(), layer.new_encoders(exact=True)()
    assert isinstance(fast, UnitPools)
    assert isinstance(exact, LayerEncoder)
    for size in ((40, 50), (31, 33)):
        image = np.ascontiguousarray(images[1][: size[0], : size[1]])
        features, map_of_image = fast.features_and_map(image, grid, with_map=True)
        expected, expected_map = exact.features_and_map(image, grid, with_map=True)
        np.testing.assert_allclose(features, expected, atol=1e-5)
        np.testing.assert_allclose(map_of_image, expected_map, atol=3e-5)
        alone, nothing = fast.features_and_map(image, grid, with_map=False)
        assert nothing is None
        np.testing.assert_allclose(alone, expected, atol=1e-5)


def test_a_map_with_many_channels_is_encoded_as_by_the_general_encoder():
    below = fitted(estimator=EPLS(40, max_iter=2)).new_encoders()()
    maps = [below.features_and_map(image, 2, with_map=True)[1] for image in IMAGES]
    layer = fitted(maps, n_groups=5, group_size=16, patch_size=3)
    found = [
        make().features_and_map(maps[0], 2, with_map=True) for make in (layer.new_encoders(), layer.exact_encoders())
    ]
    for fast, exact in zip(*found, strict=True):
        np.testing.assert_allclose(fast, exact, atol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"pooling": "max"},
        {"estimator": EPLS(11, max_iter=2, activation="relu")},
        {"estimator": KMeansTriangle(11)},
        {"encoder": NaturalEncoder(split_sign=True)},
        {"encoder": "soft_threshold"},
    ],
    ids=str,
)
def test_all_else_is_left_to_the_general_encoder(settings):
    assert isinstance(fitted(**settings).new_encoders()(), LayerEncoder)


def test_weights_that_might_overflow_are_left_to_the_general_encoder():
    layer = fitted()
    assert LogisticUnits.can_be_of(layer)
    layer.features_[0].estimator_.components_[0, 0] = 1e30
    assert not LogisticUnits.can_be_of(layer)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 9), st.integers(1, 9))
def test_positions_of_a_stretch_are_in_the_same_region_and_cells(n_columns, grid, size, step):
    cuts = [int(k * n_columns / grid + 0.5) for k in range(grid + 1)]
    ends = _stretch_ends(n_columns, cuts, size, step)

    def where(column):
        cells = {c for c in range(n_columns) if c * step <= column < c * step + size}
        return np.searchsorted(cuts, column, side="right"), cells

    for column, end in enumerate(ends):
        assert column < end <= min(n_columns, column + 16)
        assert all(where(other) == where(column) for other in range(column, end))
