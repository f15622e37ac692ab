"""How samples become codes once the bases are learned."""

from .base import Encoder
from .natural import NaturalEncoder
from .soft_threshold import SoftThresholdEncoder
from .sparse_coding import SparseCodingEncoder
from .triangle import TriangleEncoder

# By the names that ImageFeatures and the command line take.
ENCODERS = {
    "natural": NaturalEncoder,
    "soft_threshold": SoftThresholdEncoder,
    "sparse_coding": SparseCodingEncoder,
    "triangle": TriangleEncoder,
}

__all__ = [
    "ENCODERS",
    "Encoder",
    "NaturalEncoder",
    "SoftThresholdEncoder",
    "SparseCodingEncoder",
    "TriangleEncoder",
]
