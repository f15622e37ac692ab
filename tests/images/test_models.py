"""What is inside a fitted model, and data for it."""

import numpy as np
import pytest
from dense_codes import code_maps
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, DeepFeatures, ImageFeatures, Layer
from epls.datasets.opening import Vectors
from epls.images.models import codes_of, image_features, layers_of, learner_of, open_data_for


@pytest.fixture(scope="module")
def images():
    return np.random.RandomState(0).randint(256, size=(5, 12, 12), dtype=np.uint8)


@pytest.fixture(scope="module")
def features(images):
    return ImageFeatures(EPLS(4, max_iter=2), patch_size=4, n_patches=200, random_state=0).fit(images)


@pytest.fixture(scope="module")
def deep(images):
    first = Layer(EPLS(6, max_iter=2), patch_size=3, pool=2, n_patches=300)
    second = Layer(EPLS(4, max_iter=2), patch_size=2, n_groups=2, group_size=3, n_patches=300)
    return DeepFeatures([first, second], random_state=0).fit(images)


def test_parts_of_models(features, images, blobs):
    then_scaled = make_pipeline(features, StandardScaler())
    scaled_first = make_pipeline(StandardScaler(), EPLS(4, max_iter=2)).fit(blobs)
    assert image_features(features) is features
    assert image_features(then_scaled) is features
    assert image_features(scaled_first) is None
    assert learner_of(then_scaled) is learner_of(features)
    assert isinstance(learner_of(features), EPLS)
    assert learner_of(scaled_first) is scaled_first[-1]
    assert learner_of(scaled_first[-1]) is scaled_first[-1]


def test_parts_of_stacks(deep):
    assert image_features(deep) is deep
    assert image_features(make_pipeline(deep, StandardScaler())) is deep
    assert [layer.n_units for layer in layers_of(deep)] == [6, 8]
    assert [len(layer.groups) for layer in layers_of(deep)] == [1, 2]
    with pytest.raises(ValueError, match="the model has 3 learners"):
        learner_of(deep)


STACKS = [
    [{"patch_size": 3, "pool": 2}, {"patch_size": 2, "pool": 2}, {"patch_size": 2}],
    [{"patch_size": 4, "stride": 2, "pool": 3, "pool_stride": 2}, {"patch_size": 2, "stride": 2, "pool": 1}],
    [{"patch_size": 5, "pool": 1}],
]


@pytest.mark.parametrize("settings", STACKS)
@pytest.mark.parametrize("grid", [1, 2, 3])
def test_the_part_of_an_image_that_a_unit_sees(settings, grid):
    """A position changes with the pixels of its part, and with no others."""
    random = np.random.RandomState(0)
    images = random.uniform(size=(4, 40, 40)).astype(np.float32)
    layers = [Layer(EPLS(5, max_iter=1), n_patches=100, **given) for given in settings]
    model = DeepFeatures(layers, grid=grid, random_state=0).fit(images)
    for number, (layer, fitted) in enumerate(zip(layers_of(model), model.layers_, strict=True), 1):
        size = layer.sees + 2 * layer.step  # three positions a side
        image = random.uniform(size=(size, size)).astype(np.float32)

        def codes(image, number=number, fitted=fitted):
            below = image[:, :, None] if number == 1 else next(model.maps([image], number - 1))
            return next(code_maps(fitted.coder(), [below]))

        before, other = codes(image), image.copy()
        assert before.shape[:2] == (3, 3)
        part = slice(layer.step, layer.step + layer.sees)
        other[part, part] = random.uniform(size=(layer.sees, layer.sees))
        outside = np.where(other == image, random.uniform(size=image.shape), image).astype(np.float32)
        assert_array_equal(codes(outside)[1, 1], before[1, 1])
        for row, column in ((0, 0), (0, -1), (-1, 0), (-1, -1)):  # each corner of the part is seen
            changed = image.copy()
            changed[part, part][row, column] += 100
            assert np.abs(codes(changed)[1, 1] - before[1, 1]).max() > 0


def test_one_layer_is_a_stack_of_one(features):
    (layer,) = layers_of(features)
    assert (layer.sees, layer.step, layer.n_units, layer.n_channels) == (4, 1, 4, 1)
    assert features.smallest_side() == 5
    assert features.smallest_side(1) == 4


def test_codes_are_those_of_transform(features, deep, images, blobs):
    then_scaled, deep_scaled = (make_pipeline(first, StandardScaler()) for first in (features, deep))
    for pipeline in (then_scaled, deep_scaled):
        pipeline[-1].fit(pipeline[0].transform(images))
    for model, data, X in (
        (features, images, images),
        (then_scaled, images, images),
        (deep, images, images),
        (deep_scaled, images, images),
        (EPLS(4, max_iter=2).fit(blobs), Vectors(blobs), blobs),
    ):
        assert_allclose(np.concatenate(list(codes_of(model, data))), model.transform(X), rtol=1e-5, atol=1e-5)


def test_data_are_read_as_the_model_needs_them(features, images, tmp_path):
    for number in range(3):
        doubled = np.repeat(np.repeat(images[number], 2, 0), 2, 1)
        Image.fromarray(doubled).convert("RGB").save(tmp_path / f"{number}.png")
    with pytest.raises(ValueError, match="color, but gray is needed"):
        open_data_for(features, {}, tmp_path)
    read = open_data_for(features, {"channels": "gray", "longest_side": 12}, tmp_path)
    assert read.shapes == [(12, 12)] * 3
    assert open_data_for(features, {"channels": "color"}, tmp_path, channels="gray").shapes == [(24, 24)] * 3


def test_the_other_kind_of_data_is_refused(features, blobs, tmp_path, images):
    np.save(tmp_path / "x.npy", blobs)
    np.save(tmp_path / "i.npy", images)
    with pytest.raises(ValueError, match=r"learned from images, but .*x\.npy holds vectors"):
        open_data_for(features, {}, tmp_path / "x.npy")
    with pytest.raises(ValueError, match=r"learned from vectors, but .*i\.npy holds images"):
        open_data_for(EPLS(4, max_iter=1).fit(blobs), {}, tmp_path / "i.npy")
