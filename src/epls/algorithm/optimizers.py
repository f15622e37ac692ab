"""Optimisers: how the gradient of a batch moves the weights. The method works with any of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..kernels.steps import adam
from ..utils.threads import by_rows
from ..utils.types import Array
from .state import Stateful


@dataclass(frozen=True)
class Factors:
    """The two factors of a gradient, and the second derivative.

    With one layer, every second moment of the gradients of single samples is a product of these.
    """

    inputs: Array  # (n, n_inputs), the samples
    slopes: Array  # (n, n_components), derivatives of each sample's loss with respect to each net input
    curvatures: Array  # the second derivatives


class Optimizer(Stateful):
    """Moves the weights after each batch."""

    #: Whether it needs the gradient's factors, and so all samples in one place.
    needs_factors: ClassVar[bool]

    @abstractmethod
    def start(self, weights: Array, n_steps: int | None, n_done: int = 0) -> None:
        """Prepare for weights of this shape and type, and for this many steps (None: an endless stream).

        ``n_done`` steps were taken before, by another optimiser.
        """

    @abstractmethod
    def step(self, weights: Array, gradient: Array, factors: Factors | None = None) -> None:
        """Change ``weights`` (n_components, n_inputs) in place.

        ``gradient`` has their shape and is the mean over the batch; columns where it is zero must not change.
        """


class Adam(Optimizer):
    """Adam (Kingma, Ba 2015), with a rate that follows from the number of inputs and falls to 0 along a cosine.

    A batch of n_components samples has one active sample per unit, so a unit's gradient is mostly noise. Only a falling
    rate averages it out.
    """

    needs_factors = False
    state_names = ("mean", "square", "n_done", "n_averaged")

    _MEAN_DECAY, _SQUARE_DECAY, _TINY = 0.9, 0.999, 1e-8
    # A step of Adam moves every weight by about the rate. This limits the total step, relative to the norm of a new
    # component, which is 1.
    _STEP_NORM = 1 / 3
    _CONSTANT_IN_STREAM = 1000  # steps after which the rate falls if their number is unknown

    def start(self, weights: Array, n_steps: int | None, n_done: int = 0) -> None:
        self.n_steps = n_steps
        self.n_done = n_done
        self.n_averaged = 0
        self.mean = np.zeros_like(weights)
        self.square = np.zeros_like(weights)

    def rate(self) -> float:
        """Return the rate of the next step, before it is divided among the inputs."""
        if self.n_steps is None:
            return float(self._STEP_NORM * min(1.0, self._CONSTANT_IN_STREAM / (self.n_done + 1)) ** 0.5)
        return float(self._STEP_NORM * 0.5 * (1 + np.cos(np.pi * min(self.n_done / self.n_steps, 1.0))))

    def step(self, weights: Array, gradient: Array, factors: Factors | None = None) -> None:
        rate = self.rate() / weights.shape[1] ** 0.5
        self.n_done += 1
        self.n_averaged += 1
        mean_bias, square_bias = 1 - self._MEAN_DECAY**self.n_averaged, 1 - self._SQUARE_DECAY**self.n_averaged
        scalars = (rate, self._MEAN_DECAY, self._SQUARE_DECAY, mean_bias, square_bias, self._TINY)
        by_rows(adam, (weights, gradient, self.mean, self.square), *map(weights.dtype.type, scalars))


class VSGD(Optimizer):
    """vSGD (Schaul, Zhang, LeCun 2013): rates from the data, for mini-batches; here one for each parameter.

    For a block of parameters that share a rate, with gradient g_i at sample i of a batch of n, these running averages
    are kept:

    - ``mean``: the mean gradient of a batch,
    - ``square``: the mean of ||g_i||**2 over a batch,
    - ``curvature``: the mean absolute second derivative over a batch, the largest of all parameters of the block.

    The rate that reduces the expected loss most on a noisy quadratic is then ``signal / curvature``, where ``signal``
    is the fraction of the batch gradient's second moment that is not noise. The averages' memory shortens after long
    steps. The formula for mini-batches and the rule for outliers are from the authors' second paper (Schaul, LeCun
    2013), the constants from their public code, py-optim.
    """

    needs_factors = True
    state_names = ("mean", "square", "curvature", "memory", "n_seen")

    _N_START = 10  # batches for the initial averages, without a step
    _SLOW_START = 2.0  # enlarges the first second moment, for short first steps
    _FIRST_MEMORY = 2.0
    _OUTLIER = 1.0  # standard deviations beyond which a gradient lengthens the memory before it is used
    _TINY = 1e-9  # added to what divides

    def start(self, weights: Array, n_steps: int | None, n_done: int = 0) -> None:
        self.mean = np.zeros_like(weights)
        self.square, self.curvature = (self._of_blocks(self.mean, np.sum) for _ in range(2))
        self.memory = np.full_like(self.square, self._FIRST_MEMORY)
        self.n_seen = 0

    def step(self, weights: Array, gradient: Array, factors: Factors | None = None) -> None:
        if factors is None:
            raise ValueError("vSGD requires the curvature of the loss and the gradient of every sample")
        n = len(factors.inputs)
        squared_inputs = factors.inputs * factors.inputs
        square = self._of_blocks((factors.slopes * factors.slopes).T @ squared_inputs / n, np.sum)
        curvature = self._curvature(factors, squared_inputs, self.mean if self.n_seen else gradient)

        self.n_seen += 1
        seen = ((self.mean, gradient), (self.square, square), (self.curvature, curvature))
        if self.n_seen <= self._N_START:
            for average, value in seen:
                average += (value - average) / self.n_seen
            if self.n_seen == self._N_START:
                self.square *= self._SLOW_START
            return

        variance = np.maximum(self.square - self._squared_norm(self.mean), 0) / n
        self.memory[self._squared_norm(gradient - self.mean) > self._OUTLIER**2 * variance] += 1
        for average, value in seen:
            average += (value - average) / self.memory

        squared_mean = self._squared_norm(self.mean)
        signal = squared_mean / (self.square / n + (n - 1) / n * squared_mean + self._TINY)
        weights -= signal / (self.curvature + self._TINY) * gradient
        self.memory *= 1 - signal
        self.memory += 1

    def _squared_norm(self, values: Array) -> Array:
        return self._of_blocks(values**2, np.sum)

    def _curvature(self, factors: Factors, squared_inputs: Array, mean_gradient: Array) -> Array:
        return self._of_blocks(np.abs(factors.curvatures).T @ squared_inputs / len(squared_inputs), np.max)

    def _of_blocks(self, values: Array, reduce: Callable[[Array], Any]) -> Array:
        """Return a new array with a value for each block, whose shape suits the weights."""
        return values.copy()


class BlockVSGD(VSGD):
    """vSGD with a rate for all weights and one for all biases.

    If inputs are correlated, the curvature in the direction in which the weights move together is far above that of
    each. So the curvature of the weights is at least that along their mean gradient, which the authors' second paper
    measures.
    """

    def _curvature(self, factors: Factors, squared_inputs: Array, mean_gradient: Array) -> Array:
        found = super()._curvature(factors, squared_inputs, mean_gradient)
        direction = mean_gradient[:, :-1]
        steps = factors.inputs[:, :-1] @ direction.T  # of the net inputs
        along = (np.abs(factors.curvatures) * steps**2).sum() / len(steps)
        found[:, :-1] = np.maximum(found[:, :-1], along / max((direction**2).sum(), np.finfo(along.dtype).tiny))
        return found

    def _of_blocks(self, values: Array, reduce: Callable[[Array], Any]) -> Array:
        found = np.empty_like(values[:1])
        found[:, :-1], found[:, -1] = reduce(values[:, :-1]), reduce(values[:, -1])
        return found


class GlobalVSGD(VSGD):
    """vSGD with one rate for all parameters, as Algorithm 2 of the paper has it."""

    def _of_blocks(self, values: Array, reduce: Callable[[Array], Any]) -> Array:
        return np.full((1, 1), reduce(values), values.dtype)


OPTIMIZERS: dict[str, type[Optimizer]] = {
    "adam": Adam,
    "vsgd": VSGD,
    "vsgd_block": BlockVSGD,
    "vsgd_global": GlobalVSGD,
}
