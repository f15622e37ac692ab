"""How samples become codes once the bases are learned."""

from .base import Encoder
from .natural import NaturalEncoder
from .soft_threshold import SoftThresholdEncoder
from .triangle import TriangleEncoder

# By the names that ImageFeatures and the command line take.
ENCODERS = {"natural": NaturalEncoder, "soft_threshold": SoftThresholdEncoder, "triangle": TriangleEncoder}

__all__ = ["ENCODERS", "Encoder", "NaturalEncoder", "SoftThresholdEncoder", "TriangleEncoder"]
