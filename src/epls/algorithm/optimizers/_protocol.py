"""What training asks of an optimiser."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...utils.threads import RowThreads

Array = NDArray[np.floating]


class Optimizer(Protocol):
    """Moves the weights after each batch.

    Besides the gradient it is given the gradient's two factors, if it needs them: with one layer, every second moment
    of the per-sample gradients is a product of these, and an optimiser computes only those that it wants.
    """

    #: Whether it looks at curvatures, and at the gradient's factors: it then needs all samples in one place.
    needs_curvature: bool

    def start(self, weights: Array, n_steps: int | None, n_done: int = 0) -> None:
        """Prepare for weights of this shape and type, and for this many steps (None: an endless stream).

        ``n_done`` steps were taken before, by another optimiser.
        """

    def step(
        self,
        weights: Array,
        gradient: Array,
        inputs: Array | None,
        slopes: Array | None,
        curvatures: Array | None,
        threads: RowThreads,
    ) -> None:
        """Change ``weights`` (n_components, n_inputs) in place.

        ``gradient`` has their shape and is the mean over the batch; a column of zeros is to stay as it is. ``inputs``
        (n, n_inputs) are the samples, ``slopes`` and ``curvatures`` (n, n_components) the first and second derivative
        of each sample's loss by the net input of each unit.
        """
