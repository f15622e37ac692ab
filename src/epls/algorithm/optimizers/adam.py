"""Adam (Kingma, Ba 2015) with a rate that follows from the number of inputs and falls to 0 along a cosine."""

from __future__ import annotations

import numpy as np

from ...kernels.steps import adam
from ...utils.threads import by_rows
from ...utils.types import Array
from ..engines.base import Factors
from .base import Optimizer

_MEAN_DECAY, _SQUARE_DECAY, _TINY = 0.9, 0.999, 1e-8
# A step of Adam moves every weight by about the rate. This limits the total step, relative to the norm of a new
# component, which is 1.
_STEP_NORM = 1 / 3
_CONSTANT_IN_STREAM = 1000  # steps after which the rate falls if their number is unknown


class Adam(Optimizer):
    """Adam without parameters to choose.

    A batch of n_components samples has one active sample per unit, so a unit's gradient is mostly noise. Only a falling
    rate averages it out.
    """

    needs_factors = False
    state_names = ("mean", "square", "n_done", "n_averaged")

    def start(self, weights: Array, n_steps: int | None, n_done: int = 0) -> None:
        self.n_steps = n_steps
        self.n_done = n_done
        self.n_averaged = 0
        self.mean = np.zeros_like(weights)
        self.square = np.zeros_like(weights)

    def rate(self) -> float:
        """Return the rate of the next step, before it is divided among the inputs."""
        if self.n_steps is None:
            return float(_STEP_NORM * min(1.0, _CONSTANT_IN_STREAM / (self.n_done + 1)) ** 0.5)
        return float(_STEP_NORM * 0.5 * (1 + np.cos(np.pi * min(self.n_done / self.n_steps, 1.0))))

    def step(self, weights: Array, gradient: Array, factors: Factors | None = None) -> None:
        rate = self.rate() / weights.shape[1] ** 0.5
        self.n_done += 1
        self.n_averaged += 1
        mean_bias, square_bias = 1 - _MEAN_DECAY**self.n_averaged, 1 - _SQUARE_DECAY**self.n_averaged
        scalars = (rate, _MEAN_DECAY, _SQUARE_DECAY, mean_bias, square_bias, _TINY)
        by_rows(adam, (weights, gradient, self.mean, self.square), *map(weights.dtype.type, scalars))
