"""EPLS with PyTorch: training and encoding on any device, several processes, a loss for any
network, learned layers as modules, features of pretrained networks.

Needs torch (``pip install "epls[torch]"``).
"""

# ruff: noqa: E402 (the error that says what to install comes first)
from ..utils.optional import require

require("torch", "torch", "epls.torch, or device=... of a model,")

from .coder import ImageNetwork
from .distributed import Shard
from .export import to_module
from .loss import EPLSLoss
from .network import network_features

__all__ = ["EPLSLoss", "ImageNetwork", "Shard", "network_features", "to_module"]
