"""Products and factors of large symmetric matrices, a part at a time.

OpenBLAS (0.3.30 and 0.3.31) crashes with two threads if it multiplies 16,000 rows with themselves, or factors such a
matrix; in single precision, 27,000. Parts take about as long, and need no second matrix.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ..utils.threads import row_blocks
from ..utils.types import Array

_ROWS = 2048


def add_inner_products(products: Array, rows: Array) -> None:
    """Add the inner products of rows to the lower triangle of ``products``."""
    for some in row_blocks(len(products), _ROWS):
        products[some, : some.stop] += rows[some] @ rows[: some.stop].T


def factor_lower(matrix: Array) -> None:
    """Replace the lower triangle of a symmetric matrix by its Cholesky factor, whatever is above the diagonal."""
    for some in row_blocks(len(matrix), _ROWS):
        left, below = slice(None, some.start), slice(some.stop, None)
        beside = matrix[some, left].T
        factor = cholesky(matrix[some, some] - beside.T @ beside, lower=True, check_finite=False)
        matrix[some, some] = factor + np.triu(matrix[some, some], 1)
        rest = matrix[below, some] - matrix[below, left] @ beside
        matrix[below, some] = solve_triangular(factor, rest.T, lower=True, check_finite=False).T
