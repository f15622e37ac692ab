"""The interface of optimisers."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from ...utils.types import Array
from ..engines.base import Factors
from ..state import Stateful


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
