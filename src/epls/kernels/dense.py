"""From an image to pooled outputs of logistic or rectified units, without an array of normalised patches or of outputs.

Patches are only cut out and centred. Their contrast is a factor of the products that follow. It is applied to these,
together with the intercept, the activation and the pooling, while a row of them is in the cache.
"""

import numpy as np
from numba import njit

from . import kernel
from .intrinsics import bits_of_float32, copy_less, float32_from_bits

_kernel = kernel(fastmath={"contract", "nnan", "nsz", "arcp"})
#: Values that are copied at a time. Rows of patches have room for this many more.
LANES = 8


@_kernel
def gather_centered(image, start, stop, n_columns, size, stride, contrast_floor, patches, factors):
    """Write patches minus their means to the rows of ``patches``, and 1 / their contrast to ``factors``.

    The patches are those at the positions ``start`` to ``stop - 1``, counted row by row with ``n_columns`` in a row, of
    an image (height, width * channels). Rows of ``patches`` have ``LANES`` more values than a patch, to be ignored.
    Means and variances come from sums in double precision over columns of pixels, which neighbouring patches share.
    """
    n_channels = (patches.shape[1] - LANES) // (size * size)
    width, step = size * n_channels, stride * n_channels
    n_values = float(size * width)
    span = (min(stop - start, n_columns) - 1) * step + width
    strip = np.empty((size, span + LANES), np.float32)
    sums, squares = np.empty(span), np.empty(span)
    n_pixels = span // n_channels
    pixel_sums, pixel_squares = np.empty(n_pixels), np.empty(n_pixels)
    position = start
    while position < stop:
        top, first = position // n_columns, position % n_columns
        run = min(n_columns - first, stop - position)
        span = (run - 1) * step + width
        sums[:span] = 0.0
        squares[:span] = 0.0
        for i in range(size):
            line, kept = image[top * stride + i, first * step : first * step + span], strip[i]
            for j in range(span):
                value = np.float32(line[j])
                kept[j] = value
                sums[j] += value
                squares[j] += np.float64(value) * np.float64(value)
        for pixel in range(span // n_channels):
            total, square = 0.0, 0.0
            for j in range(pixel * n_channels, (pixel + 1) * n_channels):
                total += sums[j]
                square += squares[j]
            pixel_sums[pixel], pixel_squares[pixel] = total, square
        for k in range(run):
            total, square = 0.0, 0.0
            for pixel in range(k * stride, k * stride + size):
                total += pixel_sums[pixel]
                square += pixel_squares[pixel]
            mean = total / n_values
            variance = max(square / n_values - mean * mean, 0.0)
            factors[position - start + k] = 1.0 / np.sqrt(variance + contrast_floor)
            level, patch = np.float32(mean), patches[position - start + k]
            for i in range(size):
                line = strip[i]
                for part in range(0, width, LANES):
                    copy_less(line, k * step + part, level, patch, i * width + part)
        position += run


@njit(inline="always")
def _one_and_power_of_two(exponent):
    """Return 1 + 2**exponent for float32 from -60 to 60; logistic_float32 explains how."""
    whole = np.rint(exponent)
    rest = exponent - whole
    power = np.float32(1.326472689e-03)
    power = power * rest + np.float32(9.671512910e-03)
    power = power * rest + np.float32(5.550733747e-02)
    power = power * rest + np.float32(2.402224208e-01)
    power = power * rest + np.float32(6.931469776e-01)
    power = power * rest + np.float32(1.0)
    exponent_bits = np.int32(np.int32(whole) << np.int32(23))
    return np.float32(1.0) + float32_from_bits(np.int32(bits_of_float32(power) + exponent_bits))


@_kernel
def _add(outputs, row, column, of_row, of_column, sums, cells, size, step):
    """Add the outputs at a position to its region and to its cells."""
    total = sums[of_row[row] + of_column[column]]
    for j in range(outputs.size):
        total[j] += outputs[j]
    for r in range(max(0, (row - size) // step + 1), min(row // step + 1, cells.shape[0])):
        for c in range(max(0, (column - size) // step + 1), min(column // step + 1, cells.shape[1])):
            cell = cells[r, c]
            for j in range(outputs.size):
                cell[j] += outputs[j]


@_kernel
def pool_logistic(net, factors, intercept, start, stretch_ends, of_row, of_column, sums, cells, size, step):
    """Add 1 / (1 + 2**(factor * net + intercept)) of each row to the sums of its region, and to its cells.

    The rows are positions as in :func:`gather_centered`; ``of_row[row] + of_column[column]`` is a position's region.
    ``sums`` are (n_regions, n_codes), ``cells`` (rows, columns, n_codes). Cells of ``size`` positions a side begin
    every ``step`` positions. All positions from a column up to its ``stretch_ends`` (exclusive) are in the same region
    and cells, so they are added up first.
    """
    n_columns, n_units = stretch_ends.size, net.shape[1]
    outputs = np.empty(n_units, np.float32)
    least, most = np.float32(-60.0), np.float32(60.0)  # outputs beyond these differ from 0 and 1 by 1e-18
    i = 0
    while i < net.shape[0]:
        row, column = (start + i) // n_columns, (start + i) % n_columns
        stop = min(i + stretch_ends[column] - column, net.shape[0])
        outputs[:] = np.float32(0.0)
        while i + 1 < stop:  # two rows at a time: their sum needs only one division, the slowest operation
            here, there, factor_here, factor_there = net[i], net[i + 1], factors[i], factors[i + 1]
            for j in range(n_units):
                a = _one_and_power_of_two(min(max(factor_here * here[j] + intercept[j], least), most))
                b = _one_and_power_of_two(min(max(factor_there * there[j] + intercept[j], least), most))
                outputs[j] += (a + b) / (a * b)
            i += 2
        if i < stop:
            here, factor_here = net[i], factors[i]
            for j in range(n_units):
                a = _one_and_power_of_two(min(max(factor_here * here[j] + intercept[j], least), most))
                outputs[j] += np.float32(1.0) / a
            i += 1
        _add(outputs, row, column, of_row, of_column, sums, cells, size, step)


@_kernel
def pool_rectified(net, factors, shift, intercept, start, stretch_ends, of_row, of_column, sums, cells, size, step):
    """Add max(0, z + intercept) of each row, with z = factor * net - shift, as :func:`pool_logistic` does.

    If there is room for twice as many codes, max(0, -z + intercept) follow.
    """
    n_columns, n_units = stretch_ends.size, net.shape[1]
    outputs = np.empty(sums.shape[1], np.float32)
    split = outputs.size > n_units
    positive, negative, zero = outputs[:n_units], outputs[n_units:], np.float32(0.0)
    i = 0
    while i < net.shape[0]:
        row, column = (start + i) // n_columns, (start + i) % n_columns
        stop = min(i + stretch_ends[column] - column, net.shape[0])
        outputs[:] = zero
        while i < stop:
            here, factor = net[i], factors[i]
            if split:
                for j in range(n_units):
                    z = factor * here[j] - shift[j]
                    positive[j] += max(intercept[j] + z, zero)
                    negative[j] += max(intercept[j] - z, zero)
            else:
                for j in range(n_units):
                    positive[j] += max(factor * here[j] - shift[j] + intercept[j], zero)
            i += 1
        _add(outputs, row, column, of_row, of_column, sums, cells, size, step)


@_kernel
def take_channels(image, channels, lines):
    """Write the channels of groups (n_groups, n) of an image to the ``lines`` (n_groups, height, width * n)."""
    size = channels.shape[1]
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            pixel = image[i, j]
            for group in range(channels.shape[0]):
                of_group, line = channels[group], lines[group, i, j * size : (j + 1) * size]
                for k in range(size):
                    line[k] = pixel[of_group[k]]
