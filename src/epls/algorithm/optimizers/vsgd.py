"""vSGD (Schaul, Zhang, LeCun 2013): a separate rate for every parameter, from the data, for mini-batches.

For a parameter with gradient g_i at sample i of a batch of n, running averages are kept of

- ``mean``: the batch's mean gradient,
- ``square``: the mean of g_i**2 over the batch,
- ``curvature``: the mean of the absolute second derivative.

The rate that reduces the expected loss most on a noisy quadratic is then ``signal / curvature``, where ``signal`` is
the fraction of the batch gradient's second moment that is not noise. The averages' memory shortens after long steps.

The formula for mini-batches and the rule for outliers are from the authors' second paper (Schaul, LeCun 2013).
"""

from __future__ import annotations

import numpy as np

from ...utils.types import Array
from ..engines.base import Factors
from .base import Optimizer

_N_START = 10  # batches for the initial averages, without a step
_SLOW_START = 0.1  # times the number of parameters: enlarges the first second moment, for short first steps
_OUTLIER = 2.0  # standard deviations beyond which a gradient lengthens the memory before it is used
_LONGEST_STEP = 0.1  # relative to the norm of a unit's weights, or to 1 if that is larger


class VSGD(Optimizer):
    """Learning rates without constants to choose, as the authors define them."""

    needs_factors = True
    state_names = ("mean", "square", "curvature", "memory", "n_seen")

    def start(self, weights: Array, n_steps: int | None, n_done: int = 0) -> None:
        self.mean = np.zeros_like(weights)
        self.square = np.zeros_like(weights)
        self.curvature = np.zeros_like(weights)
        self.memory = np.full_like(weights, _N_START)
        self.n_seen = 0

    def step(self, weights: Array, gradient: Array, factors: Factors | None = None) -> None:
        if factors is None:
            raise ValueError("vSGD requires the curvature of the loss and the gradient of every sample")
        n = len(factors.inputs)
        squared_inputs = factors.inputs * factors.inputs
        square = (factors.slopes * factors.slopes).T @ squared_inputs / n
        curvature = np.abs(factors.curvatures).T @ squared_inputs / n

        self.n_seen += 1
        if self.n_seen <= _N_START:
            self._start_averages(gradient, square, curvature)
            return

        spread = np.sqrt(np.maximum(self.square - self.mean**2, 0) / n)
        is_outlier = np.abs(gradient - self.mean) > _OUTLIER * spread
        self.memory[is_outlier] += 1
        for average, value in ((self.mean, gradient), (self.square, square), (self.curvature, curvature)):
            average += (value - average) / self.memory

        tiny = np.finfo(weights.dtype).tiny
        squared_mean = self.mean**2
        signal = squared_mean / np.maximum(self.square / n + (n - 1) / n * squared_mean, tiny)
        step = signal / np.maximum(self.curvature, tiny) * gradient
        self.memory *= 1 - signal
        self.memory += 1
        weights -= self._limited(step, weights)

    def _limited(self, step: Array, weights: Array) -> Array:
        """Return the step unchanged."""
        return step

    def _start_averages(self, gradient: Array, square: Array, curvature: Array) -> None:
        share = 1 / self.n_seen
        self.mean += (gradient - self.mean) * share
        self.square += (square - self.square) * share
        self.curvature += (curvature - self.curvature) * share
        if self.n_seen == _N_START:
            self.square *= max(1.0, _SLOW_START * self.square.size)


class CappedVSGD(VSGD):
    """vSGD whose steps move a unit's weights by at most a tenth of their norm.

    The rates assume that parameters move independently. With strongly correlated inputs, all of them overshoot the
    common minimum in the same direction.
    """

    def _limited(self, step: Array, weights: Array) -> Array:
        length = np.linalg.norm(step, axis=1, keepdims=True)
        allowed = _LONGEST_STEP * np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1)
        limited: Array = step * np.minimum(1, allowed / np.maximum(length, np.finfo(step.dtype).tiny))
        return limited
