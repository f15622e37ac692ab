"""Outputs, winners and gradient of a batch: the part of a training step that uses samples.

It depends only on the weights and the batch, and changes only the target. So it can run anywhere, with another library
or on other machines, while training moves the weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...utils.types import Array
from ..activations import Activation
from ..target import Target
from ..targets import TARGETS


@dataclass(frozen=True)
class LayerSettings:
    """Settings that are the same in all steps, on every engine.

    Attributes
    ----------
    center, scale : ndarray of float64 of shape (n_features,), float
        A sample x is used as (x - center) / scale.
    activation : Activation
        The function f.
    loss : {"matching", "squared"}
        See :mod:`epls.algorithm.training`.
    target : str
        How winners are found; see :mod:`epls.algorithm.target`.
    biases : {"auto", "steered", "quantile", "random", "none"}
        How biases start and change; see :mod:`epls.algorithm.steering`.
    needs_factors : bool
        Whether the optimiser needs the factors of the gradient and the curvatures.
    device : str or None
        Where to compute. None uses NumPy.
    half : bool
        Whether float32 products are computed in bfloat16.
    """

    center: Array
    scale: float
    activation: Activation
    loss: str = "matching"
    target: str = "auction"
    biases: str = "auto"
    needs_factors: bool = False
    device: str | None = None
    half: bool = False

    @property
    def matching(self) -> bool:
        """Whether the loss is the one that matches the activation."""
        return self.loss == "matching" and self.activation.increasing

    @property
    def steered(self) -> bool:
        """Whether the biases are steered instead of learned."""
        if self.biases == "auto":
            return self.matching and self.activation.inverse is not None
        return self.biases == "steered"


@dataclass(frozen=True)
class BatchReport:
    """The winner of each row, the winner's output, and the squared error."""

    winners: NDArray[np.intp]
    at_winner: Array
    errors: Array


@dataclass(frozen=True)
class Factors:
    """The two factors of a gradient, and the second derivative.

    With one layer, every second moment of the gradients of single samples is a product of these.

    Attributes
    ----------
    inputs : ndarray of shape (n, n_inputs)
        The samples.
    slopes, curvatures : ndarray of shape (n, n_components)
        The first and second derivatives of each sample's loss with respect to the net input of each unit.
    """

    inputs: Array
    slopes: Array
    curvatures: Array


@dataclass(frozen=True)
class BatchGradient:
    """The gradient of a batch. The arrays are valid until the next batch.

    Attributes
    ----------
    gradient : ndarray of shape (n_components, n_features + 1)
        The sum over the rows of the derivative of their loss with respect to the weights. If biases are steered, the
        last column is the sum of output - target instead, whatever the loss.
    report : BatchReport
        Winners and errors.
    factors : Factors or None
        For optimisers that need them.
    """

    gradient: Array
    report: BatchReport
    factors: Factors | None = None


class Engine(ABC):
    """Computes with one layer of units and its target. Weights have one unit per row, with the bias last.

    Each data source defines its own batch type. An engine accepts that of the source it computes with.

    Attributes
    ----------
    settings : LayerSettings
        The settings that are the same in all steps.
    target : Target or other part with a state
        Finds the winners, and keeps a state from batch to batch.
    """

    settings: LayerSettings
    target: Any

    def start_epoch(self, n_samples: int, n_dropped: int = 0) -> None:
        """Start a new epoch. Its batches have this many samples in total, minus those dropped."""
        self.target.start_epoch(n_samples, n_dropped)

    @abstractmethod
    def gradient(self, weights: Array, batch: Any) -> BatchGradient:
        """Return the outputs, the winners, and the derivative of the loss with respect to the weights."""

    @abstractmethod
    def largest_net(self, weights: Array, batch: Any) -> Array:
        """Return the largest net input of each unit in a batch."""

    @abstractmethod
    def net_quantile(self, weights: Array, batch: Any, share: float) -> Array:
        """Return a quantile of each unit's net inputs in a batch."""


class LocalEngine(Engine):
    """An engine in this process, with its own target and buffers."""

    def __init__(self, settings: LayerSettings, n_components: int) -> None:
        self.settings = settings
        self.target: Target = TARGETS[settings.target](n_components)


def new_engine(settings: LayerSettings, n_components: int) -> LocalEngine:
    """Return the engine for a device."""
    if settings.device is None:
        from .numpy import NumpyEngine

        return NumpyEngine(settings, n_components)
    from .torch.engine import TorchEngine

    return TorchEngine(settings, n_components)
