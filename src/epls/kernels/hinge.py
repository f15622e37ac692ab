"""Passes over the samples of SVMs with squared hinge loss."""

import numpy as np

from ..utils.compiling import njit

_kernel = njit(cache=True, nogil=True, error_model="numpy")


@_kernel
def _slope(slack, change, linear, square, loss_weight, t):
    """Return the first and second derivatives of the objective at t."""
    first, second = 0.0, 0.0
    for i in range(slack.size):
        hinge = slack[i] - t * change[i]
        if hinge > 0:
            first += change[i] * hinge
            second += change[i] * change[i]
    return linear + t * square - 2 * loss_weight * first, square + 2 * loss_weight * second


@_kernel
def step_lengths(slack, change, linear, square, lengths, loss_weight, tolerance):
    """Write to ``lengths`` the step that minimises the objective of each problem along its line.

    The objective at t is ``linear`` t + ``square`` t^2 / 2 + ``loss_weight`` sum max(0, ``slack`` - t ``change``)^2, a
    row for each problem. Its slope is piecewise linear and increasing. Newton's method, restricted to the known
    bounds, finds the zero: it stops when the slope is at most ``tolerance`` times that at 0.
    """
    for k in range(slack.shape[0]):
        at_0, _ = _slope(slack[k], change[k], linear[k], square[k], loss_weight, 0.0)
        t, low, high = 1.0, 0.0, np.inf
        for _ in range(100):
            slope, curvature = _slope(slack[k], change[k], linear[k], square[k], loss_weight, t)
            if abs(slope) <= tolerance * abs(at_0):
                break
            if slope < 0:
                low = t
            else:
                high = t
            newton = t - slope / curvature
            if low < newton < high:
                t = newton
            elif high == np.inf:
                t *= 2
            else:
                t = (low + high) / 2
        lengths[k] = t
