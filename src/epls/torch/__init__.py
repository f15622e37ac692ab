"""EPLS with PyTorch: training and encoding on any device, a loss for any network, learned layers as modules.

Needs torch (``pip install "epls[torch]"``).
"""

from ..algorithm.engines import torch as _torch  # noqa: F401 (first: it says what to install where torch is missing)
from .coder import ImageNetwork
from .convolution import fit_convolution
from .export import to_conv2d, to_linear, to_module
from .loss import EPLSLoss

__all__ = ["EPLSLoss", "ImageNetwork", "fit_convolution", "to_conv2d", "to_linear", "to_module"]
