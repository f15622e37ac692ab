"""Gathering a batch and moving the weights: the passes over memory around the matrix products."""

import numpy as np

from ..utils.compiling import njit

# No fast-math: the weights must have the same bits whether a kernel was compiled in this process or earlier.
_kernel = njit(cache=True, nogil=True, error_model="numpy")


@_kernel
def gather(batch, indices, X, center, inverse_scale, grid):
    """Write ``(X[indices] - center) * inverse_scale`` to the leading columns of ``batch``.

    Values are computed in the type of ``center`` and rounded to multiples of 1 / ``grid``, a power of 2. The arrays
    must be C-contiguous, so that numba knows that neighbours in a row are neighbours in memory.
    """
    to_grid, from_grid = inverse_scale * grid, 1 / grid
    for i in range(indices.size):
        out, row = batch[i], X[indices[i]]
        for j in range(row.size):
            out[j] = np.rint((row[j] - center[j]) * to_grid) * from_grid


@_kernel
def adam(weights, gradient, mean, square, rate, mean_decay, square_decay, mean_bias, square_bias, tiny):
    """Take one step of Adam. The scalars must have the type of the arrays."""
    one = weights.dtype.type(1)
    for i in range(weights.shape[0]):
        w, g, m, s = weights[i], gradient[i], mean[i], square[i]
        for j in range(w.size):
            m[j] = mean_decay * m[j] + (one - mean_decay) * g[j]
            s[j] = square_decay * s[j] + (one - square_decay) * g[j] * g[j]
            w[j] -= rate * (m[j] / mean_bias) / (np.sqrt(s[j] / square_bias) + tiny)


# One pass: the weights fill the cache, and batches are small.
@_kernel
def momentum_step(weights, gradient, velocity, rates, decays, momentum):
    """Take a step uphill with momentum; every column has its own rate and decay."""
    for i in range(weights.shape[0]):
        w, g, v = weights[i], gradient[i], velocity[i]
        for j in range(w.size):
            v[j] = momentum * v[j] + rates[j] * (g[j] - decays[j] * w[j])
            w[j] += v[j]
