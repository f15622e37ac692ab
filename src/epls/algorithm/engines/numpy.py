"""The layer in NumPy, and compiled passes between the matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...data.shuffling import Batch
from ...kernels.activation import squared_error_of_logistic, subtract_target
from ...utils.threads import by_rows, do_all, product, row_ranges
from ...utils.types import Array
from ..activations import LOGISTIC
from ..half import HalfWeights, half_product
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
        """Return the outputs, the winners, and the derivative of the loss with respect to the weights."""
        settings, f = self.settings, self.settings.activation
        inputs, outputs = self._room(weights, len(batch[1]))
        # Derivatives are computed from outputs for the logistic function and the squared error, else from net inputs.
        from_outputs = f is LOGISTIC and not settings.matching
        keep_net = not from_outputs and (settings.needs_factors or not settings.matching)
        kept = np.empty_like(outputs) if keep_net else outputs
        squares = np.empty(len(outputs), outputs.dtype)

        def activated(rows: slice) -> None:
            if keep_net:
                kept[rows] = outputs[rows]
            squares[rows] = activate(f, outputs[rows])

        self._net(weights, batch, activated)
        winners = self.target.assign(outputs)
        if from_outputs:
            kept = outputs.copy()
        report = BatchReport(winners, outputs[np.arange(len(winners)), winners], np.empty(len(winners), outputs.dtype))
        inactive, active = outputs.dtype.type(f.inactive), outputs.dtype.type(f.active)
        subtract_target(outputs, squares, winners, inactive, active, report.errors)

        differences = outputs.sum(axis=0) if settings.steered and not settings.matching else None
        curvatures = self._through_activation(kept, outputs)
        factors = Factors(inputs, outputs, curvatures) if settings.needs_factors and curvatures is not None else None
        if self._half(weights):
            half_product(outputs.T, inputs[:, :-1], self._gradient[:, :-1])
            outputs.sum(axis=0, out=self._gradient[:, -1])
        else:
            product(outputs.T, inputs, self._gradient)
        if differences is not None:
            self._gradient[:, -1] = differences
        return BatchGradient(self._gradient, report, factors)

    def largest_net(self, weights: Array, batch: Batch) -> Array:
        """Return the largest net input of each unit in a batch."""
        return np.asarray(self._net(weights, batch).max(axis=0))

    def net_quantile(self, weights: Array, batch: Batch, share: float) -> Array:
        """Return a quantile of each unit's net inputs in a batch."""
        return np.asarray(np.quantile(self._net(weights, batch), share, axis=0))

    def _room(self, weights: Array, n_rows: int) -> tuple[Array, Array]:
        """Return buffers for inputs, whose last column is 1, and for outputs."""
        if n_rows > len(self._inputs):
            self._inputs = np.ones((n_rows, weights.shape[1]), weights.dtype)
            self._outputs = np.empty((n_rows, len(weights)), weights.dtype)
            self._gradient = np.empty_like(weights)
        return self._inputs[:n_rows], self._outputs[:n_rows]

    def _net(self, weights: Array, batch: Batch, then: Callable[[slice], None] | None = None) -> Array:
        """Compute net inputs. Threads share the rows, and call ``then`` with finished rows while they are in the "
        "cache."""
        X, chosen = batch
        inputs, outputs = self._room(weights, len(chosen))

        def compute(rows: slice) -> None:
            standardize(X, chosen[rows], self.settings.center, self.settings.scale, inputs[rows])
            if half_weights is None:
                net_inputs(inputs[rows], weights, outputs[rows])
            else:
                net_inputs(inputs[rows, :-1], weights, outputs[rows], weights[:, -1], half_weights)
            if then is not None:
                then(rows)

        half_weights = HalfWeights(weights[:, :-1]) if self._half(weights) else None
        all_rows = [slice(0, len(chosen))]  # torch divides its products itself
        do_all(compute, all_rows if half_weights else row_ranges(len(chosen), len(chosen) * weights.size))
        return outputs

    def _half(self, weights: Array) -> bool:
        return self.settings.half and weights.dtype == np.float32

    def _through_activation(self, kept: Array, differences: Array) -> Array | None:
        """Replace output - target by the slope of each sample's loss by each net input; return the curvatures."""
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
        """Pickle without the buffers, which are created again."""
        return self.__dict__ | dict.fromkeys(("_inputs", "_outputs", "_gradient"), np.empty((0, 0)))
