"""What is inside a fitted model, and data for it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, ImageFeatures
from epls.datasets.opening import Vectors
from epls.images.models import codes_of, image_features, learner_of, open_data_for


@pytest.fixture(scope="module")
def images():
    return np.random.RandomState(0).randint(256, size=(5, 12, 12), dtype=np.uint8)


@pytest.fixture(scope="module")
def features(images):
    return ImageFeatures(EPLS(4, max_iter=2), patch_size=4, n_patches=200, random_state=0).fit(images)


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


def test_codes_are_those_of_transform(features, images, blobs):
    then_scaled = make_pipeline(features, StandardScaler())
    then_scaled[-1].fit(features.transform(images))
    for model, data, X in (
        (features, images, images),
        (then_scaled, images, images),
        (EPLS(4, max_iter=2).fit(blobs), Vectors(blobs), blobs),
    ):
        assert_allclose(np.concatenate(list(codes_of(model, data))), model.transform(X), rtol=1e-5, atol=1e-5)


def test_data_are_read_as_the_model_needs_them(features, images, tmp_path):
    for number in range(3):
        doubled = np.repeat(np.repeat(images[number], 2, 0), 2, 1)
        Image.fromarray(doubled).convert("RGB").save(tmp_path / f"{number}.png")
    with pytest.raises(ValueError, match="color, where gray is needed"):
        open_data_for(features, {}, tmp_path)
    read = open_data_for(features, {"channels": "gray", "longest_side": 12}, tmp_path)
    assert read.shapes == [(12, 12)] * 3
    before = open_data_for(features, {"channels": "grey"}, tmp_path)  # as 0.1.0 wrote it
    assert_array_equal(before[1][::2, ::2], images[1])
    assert open_data_for(features, {"channels": "colour"}, tmp_path, channels="gray").shapes == [(24, 24)] * 3


def test_the_other_kind_of_data_is_refused(features, blobs, tmp_path, images):
    np.save(tmp_path / "x.npy", blobs)
    np.save(tmp_path / "i.npy", images)
    with pytest.raises(ValueError, match=r"learned from images, but .*x\.npy holds vectors"):
        open_data_for(features, {}, tmp_path / "x.npy")
    with pytest.raises(ValueError, match=r"learned from vectors, but .*i\.npy holds images"):
        open_data_for(EPLS(4, max_iter=1).fit(blobs), {}, tmp_path / "i.npy")
