"""Outputs, winners and gradient of a batch: the part of a training step that uses samples.

It depends only on the weights and the batch, and changes only the target. So it can run anywhere, with another library
or on other machines, while training moves the weights. :class:`NumpyEngine` computes with NumPy, and with compiled
passes between the matrix products; ``epls.torch`` has the one for other devices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.shuffling import Batch
from ..kernels.activation import squared_error_of_logistic
from ..utils.optional import torch_room
from ..utils.threads import by_rows, do_all, product, row_ranges
from ..utils.types import Array
from .activations import LOGISTIC, Activation
from .layer import activate, net_inputs, standardize
from .optimizers import OPTIMIZERS, Factors
from .settings import TrainingSettings
from .target import TARGETS


@dataclass(frozen=True)
class Objective:
    """The objective of training, the same in all steps, on every engine. Samples are used as (x - center) / scale."""

    center: Array
    scale: float
    activation: Activation
    settings: TrainingSettings = field(default_factory=TrainingSettings)

    @property
    def matching(self) -> bool:
        """Whether the loss is the one that matches the activation."""
        return self.settings.loss == "matching" and self.activation.increasing

    @property
    def steered(self) -> bool:
        """Whether the biases are steered instead of learned."""
        if self.settings.biases == "auto":
            return self.matching and self.activation.inverse is not None
        return self.settings.biases == "steered"

    @property
    def needs_factors(self) -> bool:
        """Whether the optimiser needs the factors of the gradient and the curvatures."""
        return OPTIMIZERS[self.settings.optimizer].needs_factors


@dataclass(frozen=True)
class BatchReport:
    """The counts of a batch.

    Attributes
    ----------
    winners : ndarray of int of shape (n_rows,)
        The winner of each row of this process.
    wins : ndarray of int of shape (n_components,)
        How often each unit won, in all processes.
    live : ndarray of int of shape (n_components,)
        At how many of its wins its output was at least a tenth of the way from inactive to active.
    error : float
        The sum of the squared errors of all rows.
    """

    winners: NDArray[np.intp]
    wins: NDArray[np.int64]
    live: NDArray[np.int64]
    error: float

    @classmethod
    def of(cls, winners: NDArray[np.intp], at_winner: Array, errors: Array, units: Activation, n: int) -> BatchReport:
        """Count the rows of a batch, given the output of each winner and the squared error, for ``n`` units."""
        live = np.bincount(winners[units.is_active(at_winner.astype(np.float64))], minlength=n)
        return cls(winners, np.bincount(winners, minlength=n), live, float(errors.sum(dtype=np.float64)))


@dataclass(frozen=True)
class BatchGradient:
    """The gradient of a batch, (n_components, n_features + 1), valid until the next batch.

    It is the sum over the rows of the derivative of their loss with respect to the weights. If biases are steered, the
    last column is the sum of output - target instead, whatever the loss. ``factors`` are for optimisers that need them.
    """

    gradient: Array
    report: BatchReport
    factors: Factors | None = None


class Engine(ABC):
    """Computes with one layer of units and its target. Weights have one unit per row, with the bias last.

    Each data source defines its own batch type. An engine accepts that of the source it computes with.
    """

    #: Where it computes; None for NumPy.
    device: str | None = None

    def __init__(self, objective: Objective, n_components: int) -> None:
        self.objective = objective
        #: Finds the winners: a Target, or another part with a state that it keeps from batch to batch.
        self.target: Any = TARGETS[objective.settings.target](n_components)

    @abstractmethod
    def gradient(self, weights: Array, batch: Any) -> BatchGradient:
        """Return the outputs, the winners, and the derivative of the loss with respect to the weights."""

    @abstractmethod
    def largest_net(self, weights: Array, batch: Any) -> Array:
        """Return the largest net input of each unit in a batch."""

    @abstractmethod
    def net_quantile(self, weights: Array, batch: Any, share: float) -> Array:
        """Return a quantile of each unit's net inputs in a batch."""


def new_engine(objective: Objective, n_components: int, device: str | None = None) -> Engine:
    """Return the engine that computes in this process: with NumPy, or with torch on a device."""
    if device is None:
        return NumpyEngine(objective, n_components)
    engine: Engine = torch_room("engine").TorchEngine(objective, n_components, device)
    return engine


def subtract_target(
    outputs: Array, squares: Array, winners: NDArray[np.intp], units: Activation
) -> tuple[Array, Array]:
    """Replace outputs by ``outputs - T``, given the sums of their squares over each row.

    Returns the output of each winner, and the squared error of each row.
    """
    places = np.arange(len(winners)), winners
    at_winner = outputs[places]
    if units.inactive != 0:
        outputs -= outputs.dtype.type(units.inactive)
        squares = np.einsum("ij,ij->i", outputs, outputs)
    without_winner = np.maximum(squares - np.square(outputs[places]), 0)
    outputs[places] = at_winner - outputs.dtype.type(units.active)
    return at_winner, without_winner + np.square(outputs[places])


class NumpyEngine(Engine):
    """Outputs, winners and gradient in NumPy."""

    def __init__(self, objective: Objective, n_components: int) -> None:
        super().__init__(objective, n_components)
        self._inputs: Array = np.empty((0, 0))
        self._outputs: Array = np.empty((0, 0))
        self._gradient: Array = np.empty((0, 0))

    def gradient(self, weights: Array, batch: Batch) -> BatchGradient:
        objective, f = self.objective, self.objective.activation
        inputs, outputs = self._room(weights, len(batch[1]))
        # Derivatives are computed from outputs for the logistic function and the squared error, else from net inputs.
        from_outputs = f is LOGISTIC and not objective.matching
        keep_net = not from_outputs and (objective.needs_factors or not objective.matching)
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
        at_winner, errors = subtract_target(outputs, squares, winners, f)
        report = BatchReport.of(winners, at_winner, errors, f, len(weights))

        differences = outputs.sum(axis=0) if objective.steered and not objective.matching else None
        curvatures = self._through_activation(kept, outputs)
        factors = Factors(inputs, outputs, curvatures) if objective.needs_factors and curvatures is not None else None
        product(outputs.T, inputs, self._gradient)
        if differences is not None:
            self._gradient[:, -1] = differences
        return BatchGradient(self._gradient, report, factors)

    def largest_net(self, weights: Array, batch: Batch) -> Array:
        return np.asarray(self._net(weights, batch).max(axis=0))

    def net_quantile(self, weights: Array, batch: Batch, share: float) -> Array:
        return np.asarray(np.quantile(self._net(weights, batch), share, axis=0))

    def _room(self, weights: Array, n_rows: int) -> tuple[Array, Array]:
        """Return buffers for inputs, whose last column is 1, and for outputs."""
        if n_rows > len(self._inputs):
            self._inputs = np.ones((n_rows, weights.shape[1]), weights.dtype)
            self._outputs = np.empty((n_rows, len(weights)), weights.dtype)
            self._gradient = np.empty_like(weights)
        return self._inputs[:n_rows], self._outputs[:n_rows]

    def _net(self, weights: Array, batch: Batch, then: Callable[[slice], None] | None = None) -> Array:
        """Compute net inputs. Threads share the rows, and call ``then`` with rows that are still in the cache."""
        X, chosen = batch
        inputs, outputs = self._room(weights, len(chosen))

        def compute(rows: slice) -> None:
            standardize(X, chosen[rows], self.objective.center, self.objective.scale, inputs[rows])
            net_inputs(inputs[rows], weights, outputs[rows])
            if then is not None:
                then(rows)

        do_all(compute, row_ranges(len(chosen), len(chosen) * weights.size))
        return outputs

    def _through_activation(self, kept: Array, differences: Array) -> Array | None:
        """Replace output - target by the slope of each sample's loss by each net input; return the curvatures."""
        objective, f = self.objective, self.objective.activation
        if objective.matching:  # the slope is the difference
            return f.slope(kept) if objective.needs_factors else None
        if f is LOGISTIC:
            curvatures = np.empty_like(kept)
            by_rows(squared_error_of_logistic, (differences, kept, curvatures))
            return curvatures
        slopes = f.slope(kept)
        found = slopes * slopes + differences * f.curvature(kept) if objective.needs_factors else None
        differences *= slopes
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the buffers, which are created again."""
        return self.__dict__ | dict.fromkeys(("_inputs", "_outputs", "_gradient"), np.empty((0, 0)))
