"""Biases that are steered: how active units should be by now, and how far that moves their biases.

A unit's mean output ought to be its share, 1 / N_h, as in the target. From the start on that would let the first,
random winners keep what they won, and the filters stay blurred. So the mean output of every unit goes from one half,
where the logistic function is linear, to the share, in equal ratios over the first quarter of the training, and stays
there. At first all units answer to everything and are pressed apart; winners settle as the outputs become sparse.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..utils.types import Array
from .activations import Activation

#: Steps from dense to sparse outputs in a stream, where the number of steps is not known.
STREAM_PATH = 1000
_GAIN = 0.2  # of the way to the wanted mean output per batch: an average over the last few batches
_LONGEST_STEP = 0.5


def wanted_activity(n_components: int, n_steps_done: int, n_steps: int | None) -> float:
    """What share of the way from inactive to active the mean output of a unit ought to be by now.

    From one half to 1 / n_components in equal ratios over the first quarter of the training.
    """
    share = 1 / max(n_components, 2)
    return float(0.5 * (2 * share) ** min(n_steps_done / steps_to_sparse(n_steps), 1.0))


def steps_to_sparse(n_steps: int | None) -> int:
    """How many steps it takes until outputs ought to be sparse; None if nobody knows how many there will be."""
    return STREAM_PATH if n_steps is None else max(n_steps // 4, 1)


def bias_steps(
    activation: Activation, mean_difference: Array, winners: NDArray[np.intp], wanted_activity: float
) -> Array:
    """By how much to move the biases so that every unit's mean output comes nearer to what it ought to be by now.

    ``mean_difference``, the mean of output - target over a batch, is the gradient of the bias, and the target's mean
    follows from the wins: so the mean outputs need no pass of their own.
    """
    f, n_components = activation, len(mean_difference)
    assert f.inverse is not None
    wins = np.bincount(winners, minlength=n_components) / len(winners)
    means = mean_difference + f.inactive + wins * (f.active - f.inactive)
    # Outputs so low or high that their inverse is not finite are far off: any number far off will do.
    tiny = np.finfo(mean_difference.dtype).eps * (f.active - f.inactive)
    wanted = f.inactive + wanted_activity * (f.active - f.inactive)
    away = f.inverse(np.array([wanted])) - f.inverse(np.clip(means, f.inactive + tiny, f.active - tiny))
    # A batch with less than a sample per unit says as much less about the mean outputs.
    trust = min(1.0, len(winners) / n_components)
    steps: Array = trust * np.clip(_GAIN * away, -_LONGEST_STEP, _LONGEST_STEP)
    return steps


def half_active_net(activation: Activation) -> float:
    """The net input at which an increasing activation is half way from inactive to active, by bisection."""
    half = (activation.inactive + activation.active) / 2
    low, high = np.array([-100.0]), np.array([100.0])
    for _ in range(60):
        middle = (low + high) / 2
        if activation.value(middle)[0] < half:
            low = middle
        else:
            high = middle
    return float(high[0])
