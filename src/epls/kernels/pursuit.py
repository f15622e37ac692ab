"""Orthogonal matching pursuit of many samples with one dictionary."""

import numpy as np

from ..utils.compiling import njit
from .lasso import largest_size

_kernel = njit(cache=True, nogil=True, error_model="numpy")


@_kernel
def pursue(products, gram, numbers, values):
    """Write the components of each sample and their codes, as many as there are columns; -1 and 0 if fewer suffice.

    ``products`` (n, n_components) are those of samples and components of unit norm, ``gram`` is the components' Gram
    matrix. In each round, the component with the largest product with the residual joins, and all codes are fitted
    again.
    """
    n_most = numbers.shape[1]
    kind = products.dtype.type
    dependent = kind(1e-4)  # the smallest part of a component outside of the span of the others
    factor = np.zeros((n_most, n_most), products.dtype)
    half = np.zeros(n_most, products.dtype)
    slopes = np.empty(products.shape[1], products.dtype)
    for i in range(products.shape[0]):
        row, own, code = products[i], numbers[i], values[i]
        own[:] = -1
        code[:] = 0
        for b in range(slopes.size):
            slopes[b] = row[b]
        for k in range(n_most):
            size = largest_size(slopes)
            if size == 0:
                break
            j = 0
            while j + 1 < slopes.size and abs(slopes[j]) != size:
                j += 1
            # One more row of the Cholesky factor of the components' Gram matrix.
            rest = gram[j, j]
            for a in range(k):
                value = gram[j, own[a]]
                for b in range(a):
                    value -= factor[k, b] * factor[a, b]
                factor[k, a] = value / factor[a, a]
                rest -= factor[k, a] * factor[k, a]
            if rest <= dependent:
                break
            factor[k, k] = np.sqrt(rest)
            own[k] = j
            for a in range(k + 1):
                value = row[own[a]]
                for b in range(a):
                    value -= factor[a, b] * half[b]
                half[a] = value / factor[a, a]
            for a in range(k, -1, -1):
                value = half[a]
                for b in range(a + 1, k + 1):
                    value -= factor[b, a] * code[b]
                code[a] = value / factor[a, a]
            if k + 1 < n_most:
                for b in range(slopes.size):
                    slopes[b] = row[b]
                for a in range(k + 1):
                    near = gram[own[a]]
                    for b in range(slopes.size):
                        slopes[b] -= code[a] * near[b]
                for a in range(k + 1):
                    slopes[own[a]] = 0  # exactly, despite rounding: no component may join twice
