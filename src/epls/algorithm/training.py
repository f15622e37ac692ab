"""Algorithm 2: the training loop.

======  =====================  ===================================================================================
paper   here                   what it is
======  =====================  ===================================================================================
D       ``inputs``             (N_b, N_d + 1), a centred and scaled mini-batch; the last column is 1, for the bias
W, b    ``weights``            (N_h, N_d + 1), a unit per row; the last column is the bias
H       ``outputs``            (N_b, N_h), f(D W + b)
T       ``winners``            (N_b,), the one active unit of each sample: :mod:`epls.algorithm.target`
N, N_b  ``samples.shape[0]``,  samples in an epoch and in a mini-batch
        ``batch_size``
======  =====================  ===================================================================================

H, T and the gradient of a mini-batch are computed in :mod:`epls.algorithm.engine`. docs/paper.md lists how the defaults
differ from the paper, and the effect of each difference. ``epls.PAPER`` has the settings as printed. Three
differences shape this file:

*The loss.* The paper minimises the squared error ||H - T||². Its gradient has the factor f'(z), which is almost 0 for a
silent unit: once the outputs saturate, nothing brings them back. The loss that matches the activation (for the logistic
function, the cross-entropy) has the same minimum, H = T, and the derivative H - T: no factor, no collapse.

*The biases* are steered, not learned; see :mod:`epls.algorithm.steering`.

*The end.* Training runs for a given number of steps; only ``tol`` ends it early. At the end, the bias of a unit that is
active for no sample is raised until the unit is half active for one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np

from ..data.samples import Samples
from ..utils.types import Array
from .engine import BatchReport, Engine
from .optimizers import OPTIMIZERS, Optimizer
from .progress import EpochReport, Progress
from .settings import norm_limit
from .state import check_state
from .steering import bias_steps, half_active_net, wanted_activity


class Training:
    """The state of training, with its step and its epoch. ``weights`` are changed in place.

    ``n_steps`` is the planned number of batches, None if it is unknown; the weights have seen ``n_steps_done`` already.
    """

    def __init__(self, weights: Array, engine: Engine, *, n_steps: int | None = None, n_steps_done: int = 0) -> None:
        self.weights = weights
        self.engine = engine
        self.objective = engine.objective
        settings, (n_components, n_inputs) = self.objective.settings, weights.shape
        self.optimizer: Optimizer = OPTIMIZERS[settings.optimizer]()
        automatic = settings.max_norm == "auto"
        self.max_norm = norm_limit(n_components, n_inputs - 1) if automatic else settings.max_norm
        self.n_steps = n_steps
        self.n_steps_done = n_steps_done
        self.progress = Progress()
        self.optimizer.start(weights, n_steps, n_steps_done)

    def epoch(
        self,
        samples: Samples,
        batch_size: int,
        random: np.random.RandomState,
        after_batch: Callable[[], None] | None = None,
    ) -> EpochReport:
        """Learn from all samples once, or from the remaining ones if the epoch was interrupted."""
        progress, started = self.progress, perf_counter()
        if progress.n_batches == 0:
            progress.start_epoch(len(self.weights), random)
            self.engine.target.start_epoch(samples.shape[0])
        else:
            random.set_state(progress.random_state)
        batches = samples.epoch(random, batch_size, skip=progress.n_batches)
        if self.objective.settings.drop_last:
            batches = islice(batches, samples.n_batches(batch_size, drop_last=True) - progress.n_batches)
        for batch in batches:
            progress.add(self.step(batch))
            if after_batch is not None:
                after_batch()
        self.limit_norms()
        return progress.end_epoch(perf_counter() - started)

    def step(self, batch: Any) -> BatchReport:
        """Learn from a batch: compute outputs, target and gradient, then move the weights."""
        found = self.engine.gradient(self.weights, batch)
        gradient = found.gradient
        gradient /= int(found.report.wins.sum())
        if self.objective.steered:
            wanted = wanted_activity(len(self.weights), self.n_steps_done, self.n_steps)
            biases = self.weights[:, -1]
            biases += bias_steps(self.objective.activation, gradient[:, -1], found.report.wins, wanted)
            gradient[:, -1] = 0
        elif self.objective.settings.biases == "none":
            gradient[:, -1] = 0
        self.optimizer.step(self.weights, gradient, found.factors)
        self.n_steps_done += 1
        return found.report

    def limit_norms(self) -> None:
        """Shorten the components that are longer than ``max_norm``."""
        if self.max_norm is not None:
            norms = np.linalg.norm(self.weights[:, :-1], axis=1, keepdims=True)
            self.weights[:, :-1] /= np.maximum(norms / self.max_norm, 1)

    def start_biases(self, samples: Samples, batch_size: int, random: np.random.RandomState) -> None:
        """Initialise learned biases: each unit is active for its share of a batch, or biases are small random numbers.

        With biases near 0, all outputs are half active, and the squared error drives them into saturation.
        """
        objective, biases = self.objective, self.weights[:, -1]
        if objective.settings.biases == "random":
            biases[:] = random.normal(scale=samples.shape[1] ** -0.5, size=len(biases))
        elif not objective.steered and objective.settings.biases != "none":
            first = next(samples.epoch(random, batch_size))
            biases[:] = -self.engine.net_quantile(self.weights, first, 1 - 1 / len(self.weights))

    def wake(self, samples: Samples, batch_size: int, random: np.random.RandomState) -> None:
        """Raise the biases of units that are active for no sample, until they are half active for one.

        If a tight cluster of samples is worth several shares, its units split it between them, and each has a low
        output for the whole cluster.
        """
        f = self.objective.activation
        if not f.increasing:
            return
        largest_net = np.full(len(self.weights), -np.inf)
        for batch in samples.epoch(random, batch_size):
            np.maximum(largest_net, self.engine.largest_net(self.weights, batch), out=largest_net)
        self.weights[:, -1] += np.maximum(half_active_net(f) - largest_net, 0)

    def state(self) -> dict[str, Any]:
        """Return all arrays and numbers that change from step to step, including those of the parts."""
        parts = {"optimizer": self.optimizer, "target": self.engine.target}
        of_parts = {f"{part}.{name}": value for part, owner in parts.items() for name, value in owner.state().items()}
        return {"weights": self.weights, "n_steps_done": self.n_steps_done} | of_parts

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state of a training with the same settings."""
        check_state(state, self.state())
        self.weights[...] = state["weights"]
        self.n_steps_done = state["n_steps_done"]
        for part, owner in (("optimizer", self.optimizer), ("target", self.engine.target)):
            prefix = f"{part}."
            owner.restore({k.removeprefix(prefix): value for k, value in state.items() if k.startswith(prefix)})


def initial_weights(
    n_components: int, n_features: int, random: np.random.RandomState, dtype: np.dtype[np.floating]
) -> Array:
    """Return random components of norm about 1, with biases of 0."""
    weights = np.zeros((n_components, n_features + 1), dtype=dtype)
    weights[:, :-1] = random.normal(scale=n_features**-0.5, size=(n_components, n_features))
    return weights
