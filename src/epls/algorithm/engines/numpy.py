"""The layer in NumPy, and compiled passes between the matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...data.shuffling import Batch
from ...kernels.activation import subtract_target
from ...utils.types import Array
from ..layer import activate, net_inputs, standardize
from .base import BatchGradient, BatchReport, Factors, LayerSettings, LocalEngine


class NumpyEngine(LocalEngine):
    """Outputs, winners and gradient in NumPy."""

    def __init__(self, settings: LayerSettings, n_components: int) -> None:
        super().__init__(settings, n_components)
        self._inputs: Array = np.empty((0, 0))
        self._outputs: Array = np.empty((0, 0))
        self._gradient: Array = np.empty((0, 0))

    def gradient(self, weights: Array, batch: Batch) -> BatchGradient:
        """Outputs, winners, and the derivative of the loss by the weights."""
        settings, f = self.settings, self.settings.activation
        inputs, outputs = self._net(weights, batch)
        keeps_net = settings.needs_factors or not settings.matching
        net = outputs.copy() if keeps_net else outputs
        squares = activate(f, outputs)
        winners = self.target.assign(outputs)
        report = BatchReport(winners, outputs[np.arange(len(winners)), winners], np.empty(len(winners), outputs.dtype))
        inactive, active = outputs.dtype.type(f.inactive), outputs.dtype.type(f.active)
        subtract_target(outputs, squares, winners, inactive, active, report.errors)

        factors = Factors(inputs, outputs, self._curvatures(net, outputs)) if settings.needs_factors else None
        differences = outputs.sum(axis=0) if settings.steered and not settings.matching else None
        if not settings.matching:
            outputs *= f.slope(net)
        np.matmul(outputs.T, inputs, out=self._gradient)
        if differences is not None:
            self._gradient[:, -1] = differences
        return BatchGradient(self._gradient, report, factors)

    def largest_net(self, weights: Array, batch: Batch) -> Array:
        """The largest net input of each unit in a batch."""
        return np.asarray(self._net(weights, batch)[1].max(axis=0))

    def net_quantile(self, weights: Array, batch: Batch, share: float) -> Array:
        """What a share of each unit's net inputs in a batch does not exceed."""
        return np.asarray(np.quantile(self._net(weights, batch)[1], share, axis=0))

    def _net(self, weights: Array, batch: Batch) -> tuple[Array, Array]:
        """Inputs with a last column of 1, and net inputs."""
        X, rows = batch
        if len(rows) > len(self._inputs):
            self._inputs = np.ones((len(rows), weights.shape[1]), weights.dtype)
            self._outputs = np.empty((len(rows), len(weights)), weights.dtype)
            self._gradient = np.empty_like(weights)
        inputs = self._inputs[: len(rows)]
        standardize(X, rows, self.settings.center, self.settings.scale, inputs)
        return inputs, net_inputs(inputs, weights, self._outputs[: len(rows)])

    def _curvatures(self, net: Array, differences: Array) -> Array:
        """The second derivative of each sample's loss by each net input."""
        f = self.settings.activation
        slope = f.slope(net)
        if self.settings.matching:
            return slope
        return slope * slope + differences * f.curvature(net)

    def __getstate__(self) -> dict[str, Any]:
        """Without the buffers, which are made anew."""
        return self.__dict__ | dict.fromkeys(("_inputs", "_outputs", "_gradient"), np.empty((0, 0)))
