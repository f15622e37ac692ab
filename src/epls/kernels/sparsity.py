"""The passes of sparse filtering and RICA over the products of samples and components, row by row and in place."""

import numpy as np

from ..utils.compiling import njit

# Sums may be reordered and products fused; otherwise no running sum would use SIMD. None of these functions calls
# another, since LLVM compiles a call differently if the callee came from the cache, and the last bits would differ.
_kernel = njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz", "arcp", "reassoc"}, error_model="numpy")


@_kernel
def sparse_filtering_derivatives(products, inverse_norms, epsilon, sums):
    """Replace products z by the derivatives of the rows' sums of normalised features by z; return the total sum.

    The features are F = sqrt(z^2 + epsilon), here scaled by ``inverse_norms``, u = F / n, and then in each row to unit
    norm. The norms n are treated as constants; ``sums`` receives, for every feature, the sum over the rows of u times
    the derivative by u, which determines the derivative by n.
    """
    n_units = products.shape[1]
    sums[:] = 0
    one = products.dtype.type(1)
    objective = 0.0
    for i in range(products.shape[0]):
        row = products[i]
        total = products.dtype.type(0)
        squares = products.dtype.type(0)
        for j in range(n_units):
            scaled = np.sqrt(row[j] * row[j] + epsilon) * inverse_norms[j]
            total += scaled
            squares += scaled * scaled
        inverse = one / np.sqrt(squares)
        value = total * inverse  # the row's sum
        objective += value
        for j in range(n_units):
            feature = np.sqrt(row[j] * row[j] + epsilon)  # computed again: cheaper than storing it
            scaled = feature * inverse_norms[j]
            slope = inverse - value * inverse * inverse * scaled
            sums[j] += slope * scaled
            row[j] *= slope * inverse_norms[j] / feature
    return objective


@_kernel
def sparse_filtering_codes(products, inverse_norms, epsilon):
    """Replace products z by sqrt(z^2 + epsilon) * ``inverse_norms``, scaled in each row to unit norm."""
    n_units = products.shape[1]
    one = products.dtype.type(1)
    for i in range(products.shape[0]):
        row = products[i]
        squares = products.dtype.type(0)
        for j in range(n_units):
            scaled = np.sqrt(row[j] * row[j] + epsilon) * inverse_norms[j]
            row[j] = scaled
            squares += scaled * scaled
        inverse = one / np.sqrt(squares)
        for j in range(n_units):
            row[j] *= inverse


@_kernel
def soft_absolute_derivatives(products, epsilon):
    """Replace products z by the derivatives of sqrt(z^2 + epsilon), and return the sum of these roots."""
    objective = 0.0
    for i in range(products.shape[0]):
        row = products[i]
        total = products.dtype.type(0)
        for j in range(row.size):
            root = np.sqrt(row[j] * row[j] + epsilon)
            total += root
            row[j] /= root
        objective += total
    return objective
