"""EPLS and PyTorch: training and encoding on any device, a criterion for any network, learned layers as modules.

Needs torch (``pip install "epls[torch]"``).
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError('epls.torch, and device=... of a model, need torch: pip install "epls[torch]"') from error

from .dense import DenseFeatures
from .export import to_conv2d, to_linear, to_module
from .loss import EPLSLoss

__all__ = ["DenseFeatures", "EPLSLoss", "to_conv2d", "to_linear", "to_module"]
