"""Functions that dictionary learners share: update components for given codes, and replace unused ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..data.moments import center_and_scale
from ..utils.types import Array


def unit_rows(components: Array) -> Array:
    """Return components scaled to unit norm, in the same type; those of norm 0 are unchanged."""
    largest = np.abs(components).max(axis=1, keepdims=True, initial=0).astype(np.float64)
    # Squares of very large or small numbers overflow or underflow in every type.
    scaled = components / np.where(largest > 0, largest, 1)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(norms > 0, norms, 1), components.dtype)


def random_components(X: Array, n_components: int, random: np.random.RandomState) -> Array:
    """Return different samples, scaled to unit norm; samples of zeros only if there are no others."""
    order = random.permutation(len(X))
    has_norm = np.asarray(X.any(axis=1))[order]
    chosen = np.concatenate([order[has_norm], order[~has_norm]])[:n_components]
    return unit_rows(X[np.sort(chosen)])


def first_components(X: Array, n_components: int, random: np.random.RandomState) -> Array:
    """Return random samples of unit norm, or random directions if only samples of zeros are left."""
    components = random_components(X, n_components, random)
    empty = ~components.any(axis=1)
    components[empty] = unit_rows(random.standard_normal((int(empty.sum()), X.shape[1])))
    return components


def improve_components(components: Array, code_squares: Array, code_products: Array) -> None:
    """Set each component in turn to the best one of unit norm, given S'S and S'X for codes S of samples X.

    A component that no sample uses is unchanged.
    """
    for k in np.flatnonzero(np.diagonal(code_squares) > 0):
        wanted = code_products[k] - code_squares[k] @ components + code_squares[k, k] * components[k]
        norm = float(np.linalg.norm(wanted))
        if norm > 0:
            components[k] = wanted / norm


def replace_unused(
    components: Array, n_uses: NDArray[np.int64], X: Array, random: np.random.RandomState
) -> NDArray[np.intp]:
    """Replace components that no sample uses by random samples; return which."""
    unused = np.flatnonzero(n_uses == 0)
    if len(unused) > 0:
        components[unused] = first_components(X, len(unused), random)
    return unused


class RunningProducts:
    """S'S and S'X of the codes and samples of all batches so far, with more weight on recent batches."""

    def __init__(self, components: Array) -> None:
        self.squares = np.zeros((len(components), len(components)), components.dtype)
        self.products = np.zeros_like(components)
        self._n_batches = 0

    def add(self, squares: Array, products: Array) -> None:
        self._n_batches += 1
        kept = (1 - 1 / self._n_batches) ** 3
        self.squares *= kept
        self.squares += squares
        self.products *= kept
        self.products += products

    def forget(self, which: NDArray[np.intp]) -> None:
        """Forget the past of replaced components, which would turn them back."""
        self.squares[which] = 0
        self.squares[:, which] = 0
        self.products[which] = 0


def check_scale(X: Array) -> None:
    """Raise an error if the squares of samples are so small or large that the penalty, or they, would be rounded away.

    Fourth powers of the scale, summed over all samples, must also be in the range of their type.
    """
    _, scale = center_and_scale(X)
    least, most = 1e-10, 1e6 if X.dtype == np.float32 else 1e10
    if not least < scale < most and X.any():
        raise ValueError(
            f"the samples have a standard deviation of {scale:.1e}, but {X.dtype} supports {least:g} to {most:g}: "
            f"scale them to about 1"
        )
