"""ONNX files, run by another program and compared with transform."""

import sys

import numpy as np
import onnxruntime
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_sample_images
from sklearn.exceptions import NotFittedError

from epls import (
    EPLS,
    DeepFeatures,
    ImageFeatures,
    Layer,
    NaturalEncoder,
    RandomPatches,
    SoftThresholdEncoder,
    load_model,
    save_model,
)
from epls.algorithm.activations import ACTIVATIONS, Activation
from epls.onnx import to_onnx


@pytest.fixture(scope="module")
def digits():
    return load_digits().data.astype(np.float32)


@pytest.fixture(scope="module")
def photographs():
    first, second = load_sample_images().images
    return np.stack([first[100:124, 200:230], first[300:324, 10:40], second[300:324, 10:40]])


def run(path, X):
    return onnxruntime.InferenceSession(path).run(["output"], {"input": X.astype(np.float32)})[0]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_learner_for_any_number_of_samples(name, digits, tmp_path):
    model = EPLS(20, activation=name, max_iter=3, random_state=0).fit(digits)
    to_onnx(model, tmp_path / "model.onnx")
    for n_samples in (1, 300):
        codes = run(tmp_path / "model.onnx", digits[:n_samples])
        np.testing.assert_allclose(codes, model.transform(digits[:n_samples]), atol=1e-4)


@pytest.mark.parametrize(
    ("encoder", "whiten", "pooling", "stride", "grid", "activation"),
    [
        ("natural", False, "log", 1, 2, "logistic"),
        ("natural", True, "sum", 2, 3, "logistic"),
        (NaturalEncoder(split_sign=True), True, "log", 2, 2, "tanh"),
        ("soft_threshold", True, "mean", 3, 1, "logistic"),
        (SoftThresholdEncoder(split_sign=False), False, "log", 1, 2, "logistic"),
    ],
)
def test_features_of_images(photographs, tmp_path, encoder, whiten, pooling, stride, grid, activation):
    features = ImageFeatures(
        EPLS(20, max_iter=3, activation=activation), patch_size=6, encoder=encoder, n_patches=2000, whiten=whiten,
        pooling=pooling, stride=stride, grid=grid, random_state=0,
    ).fit(photographs)  # fmt: skip
    to_onnx(features, tmp_path / "features.onnx", image_shape=(24, 30))
    for n_images in (1, 3):
        found = run(tmp_path / "features.onnx", photographs[:n_images].transpose(0, 3, 1, 2))
        np.testing.assert_allclose(found, features.transform(photographs[:n_images]), rtol=1e-4, atol=1e-4)


def test_a_file_is_replaced_only_when_complete(digits, tmp_path, full_disk):
    path = tmp_path / "model.onnx"
    path.write_text("before")
    with pytest.raises(OSError, match="No space left"):
        to_onnx(EPLS(5, max_iter=1).fit(digits), path)
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


class TestErrors:
    def test_shapes(self, digits, photographs, tmp_path):
        model = EPLS(5, max_iter=1).fit(digits)
        features = ImageFeatures(EPLS(5, max_iter=1), patch_size=6, n_patches=100).fit(photographs)
        with pytest.raises(ValueError, match=r"require image_shape, the \(height, width\)"):
            to_onnx(features, tmp_path / "model.onnx")
        with pytest.raises(ValueError, match=r"image_shape=\(24, 6\): give .* at least 7"):
            to_onnx(features, tmp_path / "model.onnx", image_shape=(24, 6))
        with pytest.raises(ValueError, match="image_shape is for ImageFeatures and DeepFeatures"):
            to_onnx(model, tmp_path / "model.onnx", image_shape=(8, 8))
        assert not list(tmp_path.iterdir())

    def test_what_is_no_layer(self, photographs, tmp_path, digits):
        features = ImageFeatures(KMeans(5, n_init=1), patch_size=6, encoder="triangle", n_patches=100).fit(photographs)
        with pytest.raises(ValueError, match="TriangleEncoder with the components of KMeans are not the outputs"):
            to_onnx(features, tmp_path / "model.onnx", image_shape=(24, 30))
        with pytest.raises(ValueError, match="a KMeans is not one layer of units"):
            to_onnx(features.estimator_, tmp_path / "model.onnx")

    def test_an_activation_of_ones_own(self, digits, tmp_path):
        own = Activation("tanh", np.tanh, lambda z: 1 - np.tanh(z) ** 2, lambda z: z, -1.0, 1.0)
        with pytest.raises(ValueError, match="'tanh' is defined by NumPy functions"):
            to_onnx(EPLS(5, activation=own, max_iter=1).fit(digits), tmp_path / "model.onnx")

    def test_without_onnx(self, digits, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "onnx", None)  # which an import takes for missing
        with pytest.raises(ImportError, match=r'writing ONNX files needs onnx: pip install "epls\[onnx\]"'):
            to_onnx(EPLS(2, max_iter=1).fit(digits), tmp_path / "model.onnx")


def test_mirror_images(photographs, tmp_path):
    settings = {"patch_size": 4, "n_patches": 300, "mirror": True, "random_state": 0}
    features = ImageFeatures(EPLS(5, max_iter=3), **settings).fit(photographs)
    to_onnx(features, tmp_path / "model.onnx", image_shape=photographs.shape[1:3])
    for images in (photographs, photographs[:1]):
        found = run(tmp_path / "model.onnx", images.transpose(0, 3, 1, 2))
        np.testing.assert_allclose(found, features.transform(images), rtol=1e-3, atol=1e-4)


class TestDeepFeatures:
    @pytest.mark.parametrize(
        ("pooling", "mirror", "settings"),
        [
            ("log", False, {"n_groups": 3, "group_size": 4}),
            ("mean", True, {"n_groups": 2, "group_size": 20, "stride": 2}),
            ("max", True, {"encoder": "soft_threshold", "n_groups": 2, "group_size": 5}),
            ("log", False, {"encoder": NaturalEncoder(split_sign=True), "whiten": True}),
        ],
    )
    def test_two_layers(self, photographs, tmp_path, pooling, mirror, settings):
        first = Layer(EPLS(9, max_iter=3), patch_size=5, pool=3, pool_stride=2, pooling=pooling, n_patches=500)
        second = Layer(EPLS(5, max_iter=3, activation="tanh"), patch_size=3, n_patches=500, **settings)
        features = DeepFeatures([first, second], mirror=mirror, random_state=0).fit(photographs)
        to_onnx(features, tmp_path / "deep.onnx", image_shape=(24, 30))
        for n_images in (1, 3):
            found = run(tmp_path / "deep.onnx", photographs[:n_images].transpose(0, 3, 1, 2))
            np.testing.assert_allclose(found, features.transform(photographs[:n_images]), rtol=1e-4, atol=1e-4)

    def test_one_layer_and_three_of_gray_fractions(self, photographs, tmp_path):
        gray = photographs[..., 1] / 255
        for n_layers in (1, 3):
            layers = [Layer(EPLS(6, max_iter=2), patch_size=3, pool=2, pool_stride=1, n_patches=300)] * n_layers
            features = DeepFeatures(layers, grid=3, random_state=0).fit(gray)
            to_onnx(features, tmp_path / "deep.onnx", image_shape=(24, 30))
            found = run(tmp_path / "deep.onnx", gray[:, None])
            np.testing.assert_allclose(found, features.transform(gray), rtol=1e-4, atol=1e-4)

    def test_errors(self, photographs, tmp_path):
        layers = [Layer(EPLS(5, max_iter=1), encoder=encoder, n_patches=100) for encoder in ("natural", "triangle")]
        features = DeepFeatures(layers, random_state=0)
        with pytest.raises(NotFittedError):
            to_onnx(features, tmp_path / "deep.onnx", image_shape=(24, 30))
        features.fit(photographs)
        with pytest.raises(ValueError, match=r"require image_shape, the \(height, width\)"):
            to_onnx(features, tmp_path / "deep.onnx")
        with pytest.raises(ValueError, match=r"image_shape=\(24, 15\): give .* at least 16"):
            to_onnx(features, tmp_path / "deep.onnx", image_shape=(24, 15))
        with pytest.raises(ValueError, match="TriangleEncoder with the components of EPLS are not the outputs"):
            to_onnx(features, tmp_path / "deep.onnx", image_shape=(24, 30))
        assert not list(tmp_path.iterdir())


class TestCraftedModels:
    """As from a stranger's file: nothing fills memory, and no file is written that computes NaN."""

    def test_numbers_beyond_single_precision(self, photographs, tmp_path):
        features = ImageFeatures(EPLS(5, max_iter=1), patch_size=3, n_patches=200, random_state=0).fit(photographs)
        features.estimator_.components_ = np.full(features.estimator_.components_.shape, 1e300)
        with pytest.raises(ValueError, match="too large for the single precision"):
            to_onnx(features, tmp_path / "model.onnx", image_shape=(20, 24))
        assert list(tmp_path.iterdir()) == []

    def test_large_patches_and_fine_grids(self, tmp_path):
        features = ImageFeatures(RandomPatches(2), patch_size=77, n_patches=10, encoder="soft_threshold", grid=1)
        features.fit(np.random.RandomState(0).randint(256, size=(3, 80, 80), dtype=np.uint8))
        with pytest.raises(ValueError, match=r"35,153,049 values to cut .* at most 33,554,432"):
            to_onnx(features, tmp_path / "model.onnx", image_shape=(80, 80))
        features = ImageFeatures(RandomPatches(2), patch_size=3, n_patches=10, encoder="soft_threshold", grid=1)
        features.fit(np.random.RandomState(0).randint(256, size=(3, 5, 5), dtype=np.uint8)).set_params(grid=1000)
        with pytest.raises(ValueError, match=r"66,533,081 values to cut .* at most 33,554,432"):
            to_onnx(features, tmp_path / "model.onnx", image_shape=(1002, 65_535))
        assert list(tmp_path.iterdir()) == []

    def test_groups_share_what_cuts_out_patches(self, photographs, tmp_path):
        """The filters that cut out patches of 144 values have 83 kB, and a model may have thousands of groups."""
        layers = [Layer(EPLS(9, max_iter=1), patch_size=3, n_patches=50)]
        layers.append(Layer(EPLS(1, max_iter=1), patch_size=4, n_groups=20, group_size=9, n_patches=50))
        features = DeepFeatures(layers, random_state=0).fit(photographs)
        to_onnx(features, tmp_path / "model.onnx", image_shape=(24, 30))
        assert (tmp_path / "model.onnx").stat().st_size < 200_000

    @pytest.mark.parametrize("shape", [(2**31, 2**31), (20.5, 24), ("20", "24"), (20, 24, 3), (-5, 10), (65_536, 24)])
    def test_images_of_no_size(self, shape, photographs, tmp_path):
        features = ImageFeatures(EPLS(5, max_iter=1), patch_size=3, n_patches=200, random_state=0).fit(photographs)
        with pytest.raises(ValueError, match=r"give a \(height, width\) of at least 4 and at most 65535 each"):
            to_onnx(features, tmp_path / "model.onnx", image_shape=shape)
        to_onnx(features, tmp_path / "model.onnx", image_shape=tuple(np.array([20, 24])))

    def test_an_integer_where_a_float_is_expected(self, photographs, tmp_path):
        features = ImageFeatures(EPLS(5, max_iter=1), patch_size=3, n_patches=200, random_state=0).fit(photographs)
        features.contrast_floor_ = 3
        save_model(features, tmp_path / "model.epls")
        to_onnx(load_model(tmp_path / "model.epls"), tmp_path / "model.onnx", image_shape=photographs.shape[1:3])
        found = run(tmp_path / "model.onnx", photographs.transpose(0, 3, 1, 2))
        np.testing.assert_allclose(found, features.transform(photographs), rtol=1e-3, atol=1e-4)
