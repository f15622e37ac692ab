"""Learn sparse features from unlabelled data with nothing to tune."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .datasets.folder import ImageFolder
    from .encoders import NaturalEncoder, SoftThresholdEncoder, SparseCodingEncoder, TriangleEncoder
    from .evaluation.svm import L2SVMCV
    from .images.features import ImageFeatures
    from .images.whitening import ZCAWhitening
    from .learners.epls import EPLS
    from .persistence import load_model, save_model

__all__ = [
    "EPLS",
    "L2SVMCV",
    "ImageFeatures",
    "ImageFolder",
    "NaturalEncoder",
    "SoftThresholdEncoder",
    "SparseCodingEncoder",
    "TriangleEncoder",
    "ZCAWhitening",
    "__version__",
    "load_model",
    "save_model",
]

# Names are loaded when first used: scikit-learn and numba take a second to import.
_HOME = {
    "EPLS": ".learners.epls",
    "ImageFeatures": ".images.features",
    "ImageFolder": ".datasets.folder",
    "L2SVMCV": ".evaluation.svm",
    "NaturalEncoder": ".encoders",
    "SoftThresholdEncoder": ".encoders",
    "SparseCodingEncoder": ".encoders",
    "TriangleEncoder": ".encoders",
    "ZCAWhitening": ".images.whitening",
    "load_model": ".persistence",
    "save_model": ".persistence",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
