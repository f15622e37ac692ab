"""The layers of a stack if nobody chooses them."""

from __future__ import annotations

from ..learners.epls import EPLS
from .layers import Layer


def usual_layers(height: int, width: int, n_channels: int) -> list[Layer]:
    """PLACEHOLDER."""
    return [Layer(EPLS(256), patch_size=7, pool=4), Layer(EPLS(128), patch_size=5, n_groups=24)]
