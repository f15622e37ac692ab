"""From products of samples and components to codes, row by row."""

import numpy as np

from ..utils.compiling import njit

_kernel = njit(cache=True, nogil=True, error_model="numpy")


@_kernel
def add_to_regions(codes, regions, totals):
    """Add each row of codes to the row of ``totals`` that ``regions`` names."""
    for i in range(codes.shape[0]):
        row, total = codes[i], totals[regions[i]]
        for j in range(row.size):
            total[j] += row[j]


@_kernel
def add_to_cells(codes, rows, columns, size, stride, totals):
    """Add each row of codes to all square cells of ``totals`` (rows, columns, n_codes) that its position lies in.

    Cells of ``size`` positions a side begin every ``stride`` positions; positions after the last cell are in no cell.
    """
    for i in range(codes.shape[0]):
        row = codes[i]
        for r in range(max(0, (rows[i] - size) // stride + 1), min(rows[i] // stride + 1, totals.shape[0])):
            for c in range(max(0, (columns[i] - size) // stride + 1), min(columns[i] // stride + 1, totals.shape[1])):
                total = totals[r, c]
                for j in range(row.size):
                    total[j] += row[j]


@_kernel
def raise_cells(codes, rows, columns, size, stride, largest):
    """Like :func:`add_to_cells`, but keep the largest code of each cell."""
    for i in range(codes.shape[0]):
        row = codes[i]
        for r in range(max(0, (rows[i] - size) // stride + 1), min(rows[i] // stride + 1, largest.shape[0])):
            for c in range(max(0, (columns[i] - size) // stride + 1), min(columns[i] // stride + 1, largest.shape[1])):
                best = largest[r, c]
                for j in range(row.size):
                    best[j] = max(best[j], row[j])


@_kernel
def shrink(products, threshold, codes):
    """Write max(0, z - threshold) to the leading columns, and the same of -z to further columns if there are any."""
    n_units = products.shape[1]
    split = codes.shape[1] > n_units
    zero = products.dtype.type(0)
    for i in range(products.shape[0]):
        row, positive = products[i], codes[i, :n_units]
        for j in range(n_units):
            positive[j] = max(row[j] - threshold, zero)
        if split:
            negative = codes[i, n_units:]
            for j in range(n_units):
                negative[j] = max(-row[j] - threshold, zero)


@_kernel
def distances(products, sign, samples, units, sample_squares, unit_squares, result):
    """Write the distances of samples x and components c, sqrt(|x|^2 - 2 x.c + |c|^2); of x and -c if ``sign`` is -1."""
    zero = products.dtype.type(0)
    doubled = sign + sign
    nearly_equal = products.dtype.type(1e-3)
    for i in range(products.shape[0]):
        row, out, square = products[i], result[i], sample_squares[i]
        for j in range(row.size):
            out[j] = max(square - doubled * row[j] + unit_squares[j], zero)
        for j in range(row.size):
            if out[j] < nearly_equal * square:  # a difference of large numbers, without correct digits
                total = zero
                for k in range(samples.shape[1]):
                    difference = samples[i, k] - sign * units[j, k]
                    total += difference * difference
                out[j] = total
        for j in range(row.size):
            out[j] = np.sqrt(out[j])


@_kernel
def triangle(codes):
    """Replace each row of distances by max(0, their mean - distance)."""
    zero = codes.dtype.type(0)
    for i in range(codes.shape[0]):
        row = codes[i]
        total = 0.0
        for j in range(row.size):
            total += row[j]
        mean = codes.dtype.type(total / row.size)
        for j in range(row.size):
            row[j] = max(mean - row[j], zero)
