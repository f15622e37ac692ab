"""The check of sparse input: SciPy and compiled code rely on indices within the shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def check_sparse(X: Any, name: str = "X") -> None:
    """Raise an error if a sparse array of any format has entries outside its shape. Other arrays pass."""
    if not sparse.issparse(X) or X.ndim != 2:
        return
    if X.format in ("csr", "csc", "bsr"):
        shape = X.shape[::-1] if X.format == "csc" else X.shape
        n_major, n_minor = np.array(shape) // (X.blocksize if X.format == "bsr" else 1)
        pointers = np.asarray(X.indptr)
        if (
            pointers.shape != (n_major + 1,)
            or pointers[0] != 0
            or (pointers[1:] < pointers[:-1]).any()
            or pointers[-1] > min(len(X.indices), len(X.data))
        ):
            raise ValueError(
                f"{name} is a damaged sparse array: its indptr does not rise from 0 to its number of entries"
            )
        indices = [(X.indices[: pointers[-1]], n_minor)]
    else:
        coordinates = X.tocoo()
        indices = list(zip((coordinates.row, coordinates.col), X.shape, strict=True))
        if {len(numbers) for numbers, _ in indices} != {len(coordinates.data)}:
            raise ValueError(f"{name} is a damaged sparse array: it must have as many coordinates as entries")
    for numbers, size in indices:
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= size):
            raise ValueError(
                f"{name} is a damaged sparse array: it has the index {numbers[(numbers < 0) | (numbers >= size)][0]}, "
                f"but indices must be from 0 to {size - 1}"
            )
