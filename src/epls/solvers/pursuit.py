"""Orthogonal matching pursuit of many samples with one dictionary: sparse codes with a given number of entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..kernels.pursuit import pursue
from ..utils.threads import map_blocks
from ..utils.types import Array


def pursuit_codes(X: Array, components: Array, n_nonzero: int) -> Any:
    """Return codes with at most ``n_nonzero`` entries as a csr_array, computed on all cores.

    The components have unit norm and the type of the samples.
    """
    encode = _new_coder(components, n_nonzero)
    blocks = list(map_blocks(lambda: lambda rows: encode(X[rows]), len(X)))
    numbers, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    found = numbers >= 0
    pointers = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
    return sparse.csr_array((values[found], numbers[found], pointers), shape=(len(X), len(components)))


def dense_coder(components: Array, n_nonzero: int) -> Callable[[Array], Array]:
    """Return a function from samples to dense codes, for many calls. Several threads may call it at once."""
    encode = _new_coder(components, n_nonzero)

    def codes_of(samples: Array) -> Array:
        numbers, values = encode(samples)
        codes = np.zeros((len(numbers), len(components)), values.dtype)
        rows, places = np.nonzero(numbers >= 0)
        codes[rows, numbers[rows, places]] = values[rows, places]
        return codes

    return codes_of


def _new_coder(components: Array, n_nonzero: int) -> Callable[[Array], tuple[NDArray[np.int64], Array]]:
    """Return a function from samples to the components in their codes (-1 for unused places) and the entries."""
    columns = np.ascontiguousarray(components.T)
    gram = components @ columns
    n_most = min(n_nonzero, *components.shape)

    def encode(samples: Array) -> tuple[NDArray[np.int64], Array]:
        numbers, values = np.empty((len(samples), n_most), np.int64), np.empty((len(samples), n_most), samples.dtype)
        pursue(samples @ columns, gram, numbers, values)
        return numbers, values

    return encode
