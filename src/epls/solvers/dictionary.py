"""What learners of dictionaries share: better bases for codes that are given, and new ones for those never used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..data.moments import center_and_scale

Array = NDArray[np.floating]


def unit_rows(bases: Array) -> Array:
    """Bases scaled to unit norm, of the type given; those of norm 0 stay."""
    largest = np.abs(bases).max(axis=1, keepdims=True, initial=0).astype(np.float64)
    scaled = bases / np.where(largest > 0, largest, 1)  # squares of very large or small numbers are beyond all types
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(norms > 0, norms, 1), bases.dtype)


def random_bases(X: Array, n_components: int, random: np.random.RandomState) -> Array:
    """Different samples, scaled to unit norm; samples of zeros are taken last."""
    order = random.permutation(len(X))
    has_norm = np.asarray(X.any(axis=1))[order]
    chosen = np.concatenate([order[has_norm], order[~has_norm]])[:n_components]
    return unit_rows(X[np.sort(chosen)])


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


def replace_unused(
    bases: Array, n_uses: NDArray[np.int64], X: Array, random: np.random.RandomState
) -> NDArray[np.intp]:
    """Put random samples in the place of bases that no sample uses; returns which."""
    unused = np.flatnonzero(n_uses == 0)
    if len(unused) > 0:
        bases[unused] = first_bases(X, len(unused), random)
    return unused


class RunningProducts:
    """S'S and S'X of codes and samples of all batches so far, the last tenths of which count most."""

    def __init__(self, bases: Array) -> None:
        self.squares = np.zeros((len(bases), len(bases)), bases.dtype)
        self.products = np.zeros_like(bases)
        self._n_batches = 0

    def add(self, squares: Array, products: Array) -> None:
        self._n_batches += 1
        kept = (1 - 1 / self._n_batches) ** 3
        self.squares *= kept
        self.squares += squares
        self.products *= kept
        self.products += products

    def forget(self, which: NDArray[np.intp]) -> None:
        """Bases that were drawn anew have no past: theirs would turn them back."""
        self.squares[which] = 0
        self.squares[:, which] = 0
        self.products[which] = 0


def check_scale(X: Array) -> None:
    """Samples whose squares are beyond single precision cannot be weighed against a penalty."""
    _, scale = center_and_scale(X)
    if not 1e-10 < scale < 1e10 and X.any():
        raise ValueError(f"the samples have a standard deviation of {scale:.1e}: bring them to a scale of about 1")
