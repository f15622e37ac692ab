"""What learners of dictionaries share: better bases for codes that are given, and new ones for those never used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .base import unit_rows
from .random_patches import random_bases

Array = NDArray[np.floating]


def first_bases(X: Array, n_components: int, random: np.random.RandomState) -> Array:
    """Random samples of unit norm; random directions where only samples of zeros are left."""
    bases = random_bases(X, n_components, random)
    empty = ~bases.any(axis=1)
    bases[empty] = unit_rows(random.standard_normal((int(empty.sum()), X.shape[1])))
    return bases


def improve_bases(bases: Array, code_squares: Array, code_products: Array) -> None:
    """Set one base after the other to the best of unit norm, given the codes S of samples X: S'S and S'X.

    A base that no sample uses stays.
    """
    for k in np.flatnonzero(np.diagonal(code_squares) > 0):
        wanted = code_products[k] - code_squares[k] @ bases + code_squares[k, k] * bases[k]
        norm = float(np.linalg.norm(wanted))
        if norm > 0:
            bases[k] = wanted / norm


def replace_unused(bases: Array, n_uses: NDArray[np.int64], X: Array, random: np.random.RandomState) -> int:
    """Put random samples in the place of bases that no sample uses; returns how many."""
    unused = np.flatnonzero(n_uses == 0)
    if len(unused) > 0:
        bases[unused] = first_bases(X, len(unused), random)
    return len(unused)
