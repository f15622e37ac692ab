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
    from .learners import (
        EPLS,
        ICA,
        OMP,
        PSD,
        RICA,
        KMeansTriangle,
        RandomPatches,
        Raw,
        SparseAutoencoder,
        SparseCoding,
        SparseFiltering,
        SparseRBM,
    )
    from .persistence import load_model, read_notes, save_model

__all__ = [
    "EPLS",
    "ICA",
    "L2SVMCV",
    "OMP",
    "PSD",
    "RICA",
    "Checkpoint",
    "ImageFeatures",
    "ImageFolder",
    "KMeansTriangle",
    "NaturalEncoder",
    "RandomPatches",
    "Raw",
    "SoftThresholdEncoder",
    "SparseAutoencoder",
    "SparseCoding",
    "SparseCodingEncoder",
    "SparseFiltering",
    "SparseRBM",
    "TriangleEncoder",
    "ZCAWhitening",
    "__version__",
    "load_model",
    "open_shards",
    "read_notes",
    "save_model",
]

# Names are loaded when first used: scikit-learn and numba take a second to import.
_HOME = {
    "Checkpoint": ".checkpoints",
    "EPLS": ".learners.epls",
    "ICA": ".learners.ica",
    "ImageFeatures": ".images.features",
    "ImageFolder": ".datasets.folder",
    "KMeansTriangle": ".learners.kmeans",
    "L2SVMCV": ".evaluation.svm",
    "NaturalEncoder": ".encoders",
    "OMP": ".learners.omp",
    "PSD": ".learners.psd",
    "RICA": ".learners.rica",
    "RandomPatches": ".learners.random_patches",
    "Raw": ".learners.raw",
    "SoftThresholdEncoder": ".encoders",
    "SparseAutoencoder": ".learners.sparse_autoencoder",
    "SparseCoding": ".learners.sparse_coding",
    "SparseCodingEncoder": ".encoders",
    "SparseFiltering": ".learners.sparse_filtering",
    "SparseRBM": ".learners.sparse_rbm",
    "TriangleEncoder": ".encoders",
    "ZCAWhitening": ".images.whitening",
    "load_model": ".persistence",
    "open_shards": ".blocks",
    "read_notes": ".persistence",
    "save_model": ".persistence",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
