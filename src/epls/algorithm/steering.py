"""Steered biases: how active units should be at each step, and how far their biases move.

In the target, the mean output of a unit is its share, 1 / N_h. If outputs had this mean from the start, the first,
random winners would keep what they won, and the filters would stay blurred. So the mean output of every unit starts at
one half, where the logistic function is linear, falls to the share in equal ratios over the first quarter of training,
and stays there. At first all units respond to everything and are pushed apart; the winners settle as the outputs become
sparse.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..utils.types import Array
from .activations import Activation

#: The number of steps from dense to sparse outputs in a stream, whose length is unknown.
STREAM_PATH = 1000
_GAIN = 0.2  # of the way to the wanted mean output per batch: an average over the last few batches
_LONGEST_STEP = 0.5


def wanted_activity(n_components: int, n_steps_done: int, n_steps: int | None) -> float:
    """Return how active a unit should be on average at this step, as a fraction of the way from inactive to active."""
    share = 1 / max(n_components, 2)
    return float(0.5 * (2 * share) ** min(n_steps_done / steps_to_sparse(n_steps), 1.0))


def steps_to_sparse(n_steps: int | None) -> int:
    """Return the number of steps until outputs should be sparse. ``n_steps`` is None if the total is unknown."""
    return STREAM_PATH if n_steps is None else max(n_steps // 4, 1)


def bias_steps(
    activation: Activation, mean_difference: Array, wins: NDArray[np.int64], wanted_activity: float
) -> Array:
    """Return the change of the biases that brings each unit's mean output closer to the desired one.

    ``mean_difference``, the mean of output - target over a batch, is the gradient of the bias. The mean of the target
    follows from the wins. So the mean outputs need no extra pass.
    """
    f, n_rows = activation, int(wins.sum())
    assert f.inverse is not None
    means = mean_difference + f.inactive + wins / n_rows * (f.active - f.inactive)
    # Outputs whose inverse is not finite are far off, so any distant number works.
    tiny = np.finfo(mean_difference.dtype).eps * (f.active - f.inactive)
    wanted = f.inactive + wanted_activity * (f.active - f.inactive)
    away = f.inverse(np.array([wanted])) - f.inverse(np.clip(means, f.inactive + tiny, f.active - tiny))
    # A batch with less than one sample per unit says proportionally less about the mean outputs.
    trust = min(1.0, n_rows / len(wins))
    steps: Array = trust * np.clip(_GAIN * away, -_LONGEST_STEP, _LONGEST_STEP)
    return steps


def half_active_net(activation: Activation) -> float:
    """Return the net input at which an increasing activation is half way from inactive to active, by bisection."""
    half = (activation.inactive + activation.active) / 2
    low, high = np.array([-100.0]), np.array([100.0])
    for _ in range(60):
        middle = (low + high) / 2
        if activation.value(middle)[0] < half:
            low = middle
        else:
            high = middle
    return float(high[0])
