"""Algorithm 2: the training loop.

======  =====================  ===================================================================================
paper   here                   what it is
======  =====================  ===================================================================================
D       ``inputs``             (N_b, N_d + 1), a centred and scaled mini-batch; the last column is 1, for the bias
W, b    ``weights``            (N_h, N_d + 1), a unit per row; the last column is the bias
H       ``outputs``            (N_b, N_h), f(D W + b)
T       ``winners``            (N_b,), the one active unit of each sample
N, N_b  ``n_samples``, rows    samples in an epoch and in a mini-batch
======  =====================  ===================================================================================

Besides the target (see :mod:`epls.algorithm.target`) and the optimiser, three things differ from the paper by default.
The first two are as in the paper with ``loss="squared"``.

*The loss.* The paper descends the squared error ||H - T||². Its gradient has the factor f'(z), which is all but 0 for
a unit that is silent: once the outputs saturate, nothing brings them back. The loss that matches the activation (for
the logistic function, the cross-entropy) has the same minimum, H = T, and the derivative H - T: no factor, no collapse.

*The biases.* A unit's mean output ought to be its share, 1 / N_h, as in the target. From the start on that would let
the first, random winners keep what they won, and the filters stay blurred. So the biases are steered: the mean output
of every unit goes from one half, where the logistic function is linear, to the share, in equal ratios over the first
quarter of the training, and stays there. At first all units answer to everything and are pressed apart; winners settle
as the outputs become sparse.

*The end.* A unit that is active for no sample is woken: its bias is raised until it is half active for one.

docs/training.md tells what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.samples import Batches
from ..utils.threads import RowThreads
from .activations import Activation
from .engines.numpy import BatchGradient, BatchReport, LayerGradient
from .optimizers import Optimizer
from .target import Target

Array = NDArray[np.floating]

_STEERING_GAIN = 0.2  # of the way to the wanted mean output per batch: an average over the last few batches
_LONGEST_BIAS_STEP = 0.5
_STREAM_PATH = 1000  # steps from dense to sparse outputs in a stream, where the number of steps is not known


@dataclass(frozen=True)
class EpochReport:
    """What one pass over the data gave.

    Attributes
    ----------
    epoch : int
        From 1.
    error : float
        ||h - t||² on average over the samples.
    win_spread : int
        Most minus fewest wins of a unit.
    n_dead : int
        Units whose output was below a tenth of the active value at each of their wins.
    seconds : float
        Time taken.
    is_last : bool
        Whether training ends with this epoch.
    """

    epoch: int
    error: float
    win_spread: int
    n_dead: int
    seconds: float
    is_last: bool


def initial_weights(
    n_components: int, n_features: int, random: np.random.RandomState, dtype: np.dtype[np.floating]
) -> Array:
    """Random bases of norm about 1 and biases of 0."""
    weights = np.zeros((n_components, n_features + 1), dtype=dtype)
    weights[:, :-1] = random.normal(scale=n_features**-0.5, size=(n_components, n_features))
    return weights


class Trainer:
    """The state of a training, and its step: what ``fit`` and ``partial_fit`` have in common.

    Parameters
    ----------
    weights : ndarray of shape (n_components, n_features + 1)
        Changed in place.
    layer : LayerGradient
        Computes outputs and gradients.
    target, optimizer
        The other parts.
    max_norm : float or None
        To what the norm of every basis is limited at the end of an epoch.
    n_steps : int or None
        How many batches there will be; None if nobody knows.
    """

    def __init__(
        self,
        weights: Array,
        layer: LayerGradient,
        *,
        target: Target,
        optimizer: Optimizer,
        max_norm: float | None = None,
        n_steps: int | None = None,
    ) -> None:
        self.weights = weights
        self.layer = layer
        self.target = target
        self.optimizer = optimizer
        self.steered = layer.matching and layer.activation.inverse is not None
        self.max_norm = max_norm
        self.n_steps = n_steps
        self.n_steps_done = 0
        self.optimizer.start(weights, n_steps)

    def step(self, batch: Any, threads: RowThreads) -> BatchReport:
        """Learn from a batch."""
        return self.apply(self.layer.gradient(self.weights, batch, self.target, threads), threads)

    def apply(self, found: BatchGradient, threads: RowThreads) -> BatchReport:
        """Move weights and biases by what was found in a batch."""
        gradient = found.gradient
        gradient /= len(found.report.winners)
        if self.steered:
            wanted = wanted_activity(len(self.weights), self.n_steps_done, self.n_steps)
            biases = self.weights[:, -1]
            biases += bias_steps(self.layer.activation, gradient[:, -1], found.report.winners, wanted)
            gradient[:, -1] = 0
        self.optimizer.step(self.weights, gradient, found.inputs, found.slopes, found.curvatures, threads)
        self.n_steps_done += 1
        return found.report

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """All arrays and all plain values that change from step to step, of the parts too."""
        arrays: dict[str, Any] = {"weights": self.weights}
        plain: dict[str, Any] = {"n_steps_done": self.n_steps_done}
        for part in ("optimizer", "target"):
            for name, value in vars(getattr(self, part)).items():
                (arrays if isinstance(value, np.ndarray) else plain)[f"{part}.{name}"] = value
        return arrays, plain

    def restore(self, arrays: dict[str, Array], plain: dict[str, Any]) -> None:
        """Go back to a state of a trainer that was made in the same way."""
        own_arrays, own_plain = self.state()
        if arrays.keys() != own_arrays.keys() or plain.keys() != own_plain.keys():
            raise ValueError("the state is that of a training with other parts")
        for name, array in own_arrays.items():
            if arrays[name].shape != array.shape:
                raise ValueError(f"{name} has shape {arrays[name].shape}, where {array.shape} is needed")
        self.weights[...] = arrays["weights"]
        self.n_steps_done = plain["n_steps_done"]
        for values in (arrays, plain):
            for name, value in values.items():
                part, dot, attribute = name.partition(".")
                if dot:
                    setattr(getattr(self, part), attribute, value)

    def start_biases(self, batches: Batches, random: np.random.RandomState) -> None:
        """Where biases are not steered, begin with each unit active for its share of a batch.

        With biases of 0 all outputs would be half active, and a squared error would throw them into saturation.
        """
        if self.steered:
            return
        first = next(batches.epoch(random))
        self.weights[:, -1] = -self.layer.net_quantile(self.weights, first, 1 - 1 / len(self.weights))

    def resume(self, components: Array, intercept: Array) -> None:
        """Go on, in a stream, from weights that are already sparse."""
        self.weights[:, :-1] = components
        self.weights[:, -1] = intercept
        self.n_steps_done = _STREAM_PATH
        self.optimizer.start(self.weights, None, n_done=_STREAM_PATH)

    def limit_norms(self) -> None:
        """Shorten the bases that are longer than ``max_norm``."""
        if self.max_norm is not None:
            norms = np.linalg.norm(self.weights[:, :-1], axis=1, keepdims=True)
            self.weights[:, :-1] /= np.maximum(norms / self.max_norm, 1)

    def wake(self, batches: Batches, random: np.random.RandomState) -> None:
        """Raise the biases of the units that are active for no sample, until they are half active for one.

        Where a tight cluster of samples is worth many shares, its units divide it between them, and each of them has a
        low output for all of it.
        """
        f = self.layer.activation
        if not f.increasing:
            return
        largest_net = np.full(len(self.weights), -np.inf)
        for batch in batches.epoch(random):
            np.maximum(largest_net, self.layer.largest_net(self.weights, batch), out=largest_net)
        self.weights[:, -1] += np.maximum(half_active_net(f) - largest_net, 0)


def wanted_activity(n_components: int, n_steps_done: int, n_steps: int | None) -> float:
    """What share of the way from inactive to active the mean output of a unit ought to be by now.

    From one half to 1 / n_components in equal ratios over the first quarter of the training.
    """
    share = 1 / max(n_components, 2)
    path = _STREAM_PATH if n_steps is None else max(n_steps // 4, 1)
    return float(0.5 * (2 * share) ** min(n_steps_done / path, 1.0))


def bias_steps(
    activation: Activation, mean_difference: Array, winners: NDArray[np.intp], wanted_activity: float
) -> Array:
    """By how much to move the biases so that every unit's mean output comes nearer to what it ought to be by now.

    ``mean_difference``, the mean of output - target over a batch, is the gradient of the bias, and the target's mean
    follows from the wins: so the mean outputs need no pass of their own.
    """
    f, n_components = activation, len(mean_difference)
    assert f.inverse is not None
    wins = np.bincount(winners, minlength=n_components) / len(winners)
    means = mean_difference + f.inactive + wins * (f.active - f.inactive)
    # Outputs so low or high that their inverse is not finite are far off: any number far off will do.
    tiny = np.finfo(mean_difference.dtype).eps * (f.active - f.inactive)
    wanted = f.inactive + wanted_activity * (f.active - f.inactive)
    away = f.inverse(np.array([wanted])) - f.inverse(np.clip(means, f.inactive + tiny, f.active - tiny))
    # A batch with less than a sample per unit says as much less about the mean outputs.
    trust = min(1.0, len(winners) / n_components)
    steps: Array = trust * np.clip(_STEERING_GAIN * away, -_LONGEST_BIAS_STEP, _LONGEST_BIAS_STEP)
    return steps


@dataclass
class Progress:
    """How far a training has come: with the trainer's state, all that is needed to go on from there.

    Attributes
    ----------
    epoch : int
        The epoch under way, from 1.
    n_batches : int
        Batches of it that are done.
    random_state : tuple or None
        The state of the random numbers when it began; None before the first.
    error, wins, largest
        Of these batches: the sum of squared errors, each unit's wins, and its largest output at them.
    reports : list of EpochReport
        Of the epochs before.
    """

    epoch: int = 1
    n_batches: int = 0
    random_state: Any = None
    error: float = 0.0
    wins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    largest: Array = field(default_factory=lambda: np.zeros(0))
    reports: list[EpochReport] = field(default_factory=list)

    def start_epoch(self, n_components: int, random: np.random.RandomState) -> None:
        self.epoch, self.n_batches = len(self.reports) + 1, 0
        self.random_state = random.get_state()
        self.error = 0.0
        self.wins, self.largest = np.zeros(n_components, np.int64), np.full(n_components, -np.inf)

    def add(self, seen: BatchReport) -> None:
        self.n_batches += 1
        self.error += float(seen.errors.sum(dtype=np.float64))
        self.wins += np.bincount(seen.winners, minlength=len(self.wins))
        np.maximum.at(self.largest, seen.winners, seen.at_winner)


def train(
    trainer: Trainer,
    batches: Batches,
    max_iter: int,
    tol: float,
    random: np.random.RandomState,
    progress: Progress | None = None,
    after_batch: Callable[[Progress], None] | None = None,
) -> Generator[EpochReport]:
    """Train epoch by epoch; ends by itself.

    It ends after ``max_iter`` epochs, or before, once the error changes by no more than a share of ``tol``. Given the
    ``progress`` of a training that was stopped, and a trainer as it was then, it goes on there.
    """
    n_components, f = len(trainer.weights), trainer.layer.activation
    alive = f.inactive + 0.1 * (f.active - f.inactive)
    progress = progress or Progress()
    with RowThreads() as threads:
        while len(progress.reports) < max_iter:
            started = perf_counter()
            if progress.n_batches == 0:
                progress.start_epoch(n_components, random)
                trainer.target.start_epoch(batches.n_samples)
            else:
                random.set_state(progress.random_state)
            for batch in batches.epoch(random, progress.n_batches):
                progress.add(trainer.step(batch, threads))
                if after_batch is not None:
                    after_batch(progress)
            if progress.wins.sum() != batches.n_samples:
                raise ValueError(
                    f"epoch {progress.epoch} had {progress.wins.sum()} samples, and the first pass over the data "
                    f"{batches.n_samples}: every pass must give all of them, so give a function that makes a new "
                    f"iterator each time"
                )
            trainer.limit_norms()
            error = progress.error / batches.n_samples
            error_before = progress.reports[-1].error if progress.reports else np.inf
            report = EpochReport(
                progress.epoch,
                error,
                win_spread=int(progress.wins.max() - progress.wins.min()),
                n_dead=int(np.count_nonzero((progress.largest < alive) & (progress.wins > 0))),
                seconds=perf_counter() - started,
                is_last=bool(progress.epoch == max_iter or abs(error_before - error) <= tol * error),
            )
            progress.reports.append(report)
            progress.n_batches = 0
            yield report
            if report.is_last:
                return


def half_active_net(activation: Activation) -> float:
    """The net input at which an increasing activation is half way from inactive to active, by bisection."""
    half = (activation.inactive + activation.active) / 2
    low, high = np.array([-100.0]), np.array([100.0])
    for _ in range(60):
        middle = (low + high) / 2
        if activation.value(middle)[0] < half:
            low = middle
        else:
            high = middle
    return float(high[0])
