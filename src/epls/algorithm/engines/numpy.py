"""The layer in NumPy, and compiled passes between the matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...data.shuffling import Batch
from ...kernels.activation import squared_error_of_logistic, subtract_target
from ...utils.threads import by_rows
from ...utils.types import Array
from ..activations import LOGISTIC
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
        # What derivatives follow from: of the logistic function and the squared error outputs, else net inputs.
        from_outputs = f is LOGISTIC and not settings.matching
        kept = outputs.copy() if not from_outputs and (settings.needs_factors or not settings.matching) else outputs
        squares = activate(f, outputs)
        winners = self.target.assign(outputs)
        if from_outputs:
            kept = outputs.copy()
        report = BatchReport(winners, outputs[np.arange(len(winners)), winners], np.empty(len(winners), outputs.dtype))
        inactive, active = outputs.dtype.type(f.inactive), outputs.dtype.type(f.active)
        subtract_target(outputs, squares, winners, inactive, active, report.errors)

        differences = outputs.sum(axis=0) if settings.steered and not settings.matching else None
        curvatures = self._through_activation(kept, outputs)
        factors = Factors(inputs, outputs, curvatures) if settings.needs_factors and curvatures is not None else None
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

    def _through_activation(self, kept: Array, differences: Array) -> Array | None:
        """Turn output - target into the slope of each sample's loss by each net input; return the curvatures."""
        settings, f = self.settings, self.settings.activation
        if settings.matching:  # the slope is the difference
            return f.slope(kept) if settings.needs_factors else None
        if f is LOGISTIC:
            curvatures = np.empty_like(kept)
            by_rows(squared_error_of_logistic, (differences, kept, curvatures))
            return curvatures
        slopes = f.slope(kept)
        found = slopes * slopes + differences * f.curvature(kept) if settings.needs_factors else None
        differences *= slopes
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without the buffers, which are made anew."""
        return self.__dict__ | dict.fromkeys(("_inputs", "_outputs", "_gradient"), np.empty((0, 0)))
