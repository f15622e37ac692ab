"""Gathering a batch and moving the weights: the passes over memory around the matrix products."""

import numpy as np
from numba import njit

_vectorised = njit(cache=True, nogil=True, fastmath={"contract", "arcp", "nsz"}, error_model="numpy")


@_vectorised
def _standardize_row(out, row, center, to_grid, from_grid):
    for j in range(row.size):
        out[j] = np.rint((row[j] - center[j]) * to_grid) * from_grid


@njit(cache=True, nogil=True)
def gather(batch, indices, X, center, inverse_scale, grid):
    """Write ``(X[indices] - center) * inverse_scale`` to the leading columns of ``batch``.

    Computed in the type of ``center`` and rounded to multiples of 1 / ``grid``, a power of 2. The arrays must be
    C-contiguous: of others numba does not know that neighbours in a row are neighbours in memory.
    """
    for i in range(indices.size):
        _standardize_row(batch[i], X[indices[i]], center, inverse_scale * grid, 1 / grid)


@_vectorised
def _adam_row(weights, gradient, mean, square, rate, mean_decay, square_decay, mean_bias, square_bias, tiny):
    one = weights.dtype.type(1)
    for j in range(weights.size):
        mean[j] = mean_decay * mean[j] + (one - mean_decay) * gradient[j]
        square[j] = square_decay * square[j] + (one - square_decay) * gradient[j] * gradient[j]
        weights[j] -= rate * (mean[j] / mean_bias) / (np.sqrt(square[j] / square_bias) + tiny)


@njit(cache=True, nogil=True)
def adam(weights, gradient, mean, square, rate, mean_decay, square_decay, mean_bias, square_bias, tiny):
    """One step of Adam on every row. The scalars must have the type of the arrays."""
    for i in range(weights.shape[0]):
        _adam_row(
            weights[i],
            gradient[i],
            mean[i],
            square[i],
            rate,
            mean_decay,
            square_decay,
            mean_bias,
            square_bias,
            tiny,
        )
