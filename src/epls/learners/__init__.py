"""What learns bases from vectors."""

from typing import Any

from .base import Learner
from .epls import EPLS
from .ica import ICA
from .kmeans import KMeansTriangle
from .omp import OMP
from .psd import PSD
from .random_patches import RandomPatches
from .raw import Raw
from .rica import RICA
from .sparse_autoencoder import SparseAutoencoder
from .sparse_coding import SparseCoding
from .sparse_filtering import SparseFiltering
from .sparse_rbm import SparseRBM

# By the names that the command line takes.
LEARNERS: dict[str, Any] = {
    "epls": EPLS,
    "ica": ICA,
    "kmeans": KMeansTriangle,
    "omp": OMP,
    "psd": PSD,
    "random_patches": RandomPatches,
    "raw": Raw,
    "rica": RICA,
    "sparse_autoencoder": SparseAutoencoder,
    "sparse_coding": SparseCoding,
    "sparse_filtering": SparseFiltering,
    "sparse_rbm": SparseRBM,
}

__all__ = [
    "EPLS",
    "ICA",
    "LEARNERS",
    "OMP",
    "PSD",
    "RICA",
    "KMeansTriangle",
    "Learner",
    "RandomPatches",
    "Raw",
    "SparseAutoencoder",
    "SparseCoding",
    "SparseFiltering",
    "SparseRBM",
]
