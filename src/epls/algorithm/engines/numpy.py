"""Outputs, winners and gradient of a batch: the part of a training step that looks at samples.

It depends on nothing but the weights, the batch and the target, and changes only the target: so it can be done
anywhere, by another library (:mod:`epls.torch`) or on other machines (:mod:`epls.distributed`), while the trainer moves
the weights by what was found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.samples import Batch
from ...kernels.activation import logistic_float32, subtract_target
from ...kernels.steps import gather
from ...utils.threads import RowThreads
from ..activations import LOGISTIC, Activation
from ..target import Target

Array = NDArray[np.floating]

# Inputs are rounded to a grid. Whatever the units of the data, standardised inputs differ in the last bits only;
# training would amplify these to other features, and the grid makes them the same inputs.
_GRID = 2.0**20


@dataclass(frozen=True)
class BatchReport:
    """Of each row: its winner, the winner's output, and the squared error."""

    winners: NDArray[np.intp]
    at_winner: Array
    errors: Array


@dataclass(frozen=True)
class BatchGradient:
    """What a batch says about the weights; the arrays are valid until the next batch.

    Attributes
    ----------
    gradient : ndarray of shape (n_components, n_features + 1)
        The sum over the rows of the derivative of their loss by the weights.
    report : BatchReport
        Winners and errors.
    inputs, slopes, curvatures : ndarray or None
        The gradient's two factors and the second derivative, for optimisers that need them: see
        :class:`epls.algorithm.optimizers.Optimizer`.
    """

    gradient: Array
    report: BatchReport
    inputs: Array | None = None
    slopes: Array | None = None
    curvatures: Array | None = None


class LayerGradient(ABC):
    """Computes gradients of one layer of units; weights have a unit per row, the bias last.

    What a batch is, is between the source of batches and this.

    Parameters
    ----------
    center, scale : ndarray of float64 of shape (n_features,), float
        A sample x enters as (x - center) / scale.
    activation : Activation
        The function f.
    loss : {"matching", "squared"}
        See :mod:`epls.algorithm.training`.
    needs_curvature : bool
        Whether second derivatives are wanted.
    """

    device: str | None = None

    def __init__(
        self, center: Array, scale: float, activation: Activation, loss: str = "matching", needs_curvature: bool = False
    ) -> None:
        self.center = center
        self.scale = scale
        self.activation = activation
        self.matching = loss == "matching" and activation.increasing
        self.needs_curvature = needs_curvature

    @abstractmethod
    def gradient(self, weights: Array, batch: Any, target: Target, threads: RowThreads) -> BatchGradient:
        """Outputs, winners, and the derivative of the loss by the weights."""

    @abstractmethod
    def largest_net(self, weights: Array, batch: Any) -> Array:
        """The largest net input of each unit in a batch."""

    @abstractmethod
    def net_quantile(self, weights: Array, batch: Any, share: float) -> Array:
        """What a share of each unit's net inputs in a batch does not exceed."""


class NumpyGradient(LayerGradient):
    """The layer in NumPy, and compiled passes between the matrix products."""

    def __init__(
        self, center: Array, scale: float, activation: Activation, loss: str = "matching", needs_curvature: bool = False
    ) -> None:
        super().__init__(center, scale, activation, loss, needs_curvature)
        self._inputs: Array = np.empty((0, 0))
        self._outputs: Array = np.empty((0, 0))
        self._gradient: Array = np.empty((0, 0))

    def gradient(self, weights: Array, batch: Batch, target: Target, threads: RowThreads) -> BatchGradient:
        """Outputs, winners, and the derivative of the loss by the weights."""
        f, n_rows = self.activation, len(batch[1])
        inputs, outputs = self._forward(weights, batch)
        net = outputs.copy() if self.needs_curvature or not self.matching else None
        squares = apply_activation(f, outputs, threads)
        winners = target.assign(outputs)
        report = BatchReport(winners, outputs[np.arange(n_rows), winners], np.empty(n_rows, outputs.dtype))
        inactive, active = outputs.dtype.type(f.inactive), outputs.dtype.type(f.active)
        subtract_target(outputs, squares, winners, inactive, active, report.errors)

        curvatures = self._curvatures(net, outputs) if net is not None and self.needs_curvature else None
        if net is not None and not self.matching:
            outputs *= f.slope(net)
        np.matmul(outputs.T, inputs, out=self._gradient)
        return BatchGradient(self._gradient, report, inputs, outputs, curvatures)

    def largest_net(self, weights: Array, batch: Batch) -> Array:
        """The largest net input of each unit in a batch."""
        return np.asarray(self._forward(weights, batch)[1].max(axis=0))

    def net_quantile(self, weights: Array, batch: Batch, share: float) -> Array:
        """What a share of each unit's net inputs in a batch does not exceed."""
        return np.asarray(np.quantile(self._forward(weights, batch)[1], share, axis=0))

    def _forward(self, weights: Array, batch: Batch) -> tuple[Array, Array]:
        X, indices = batch
        if len(indices) > len(self._inputs):
            self._inputs = np.ones((len(indices), weights.shape[1]), weights.dtype)
            self._outputs = np.empty((len(indices), len(weights)), weights.dtype)
            self._gradient = np.empty_like(weights)
        inputs = self._inputs[: len(indices)]
        gather_batch(X, indices, self.center, self.scale, inputs)
        return inputs, np.matmul(inputs, weights.T, out=self._outputs[: len(indices)])

    def _curvatures(self, net: Array, differences: Array) -> Array:
        """The second derivative of each sample's loss by each net input."""
        slope = self.activation.slope(net)
        if self.matching:
            return slope
        return slope * slope + differences * self.activation.curvature(net)

    def __getstate__(self) -> dict[str, Any]:
        """Without the buffers, which are made anew."""
        return self.__dict__ | dict.fromkeys(("_inputs", "_outputs", "_gradient"), np.empty((0, 0)))


def gather_batch(X: Array, indices: NDArray[np.intp], center: Array, scale: float, out: Array) -> None:
    """Write ``(X[indices] - center) / scale`` to the leading columns of ``out``, whatever type and layout ``X`` has."""
    if not X.flags.c_contiguous:
        X, indices = X[indices], np.arange(len(indices))
    X = X.view()
    X.flags.writeable = False  # read-only arrays are a type of their own to numba; this way it compiles for one
    gather(out, indices, X, center, 1 / scale, _GRID)


def apply_activation(activation: Activation, net: Array, threads: RowThreads | None = None) -> Array:
    """Replace net inputs by outputs, which must be finite; return the sums of their squares over each row."""
    if activation is LOGISTIC and net.dtype == np.float32:
        squares = np.empty(len(net), net.dtype)
        if threads is None:
            logistic_float32(net, squares)
        else:
            threads.run(logistic_float32, (net, squares))
    else:
        net[...] = activation.value(net)
        squares = np.einsum("ij,ij->i", net, net)
    if not np.isfinite(squares).all():
        raise not_finite(activation)
    return squares


def not_finite(activation: Activation) -> ValueError:
    """The error that outputs are NaN or infinite."""
    return ValueError(
        f"the outputs of {activation.name!r} are not finite: its function must give a finite number for every net "
        f"input, and neither the model nor the data may hold numbers that are too large"
    )
