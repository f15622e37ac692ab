"""How EPLS trains: settings that only comparisons change, those of the paper, and sizes that follow from the data."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from .optimizers import OPTIMIZERS
from .target import TARGETS

# In smaller batches, overhead takes most of the time, and with few units gradients are needlessly noisy.
SMALLEST_BATCH = 256


_CHOICES: dict[str, Collection[str | bool | None]] = {
    "target": TARGETS,
    "loss": ("matching", "squared"),
    "optimizer": OPTIMIZERS,
    "biases": ("auto", "steered", "quantile", "random", "none"),
    "batch_size": ("n_components", None),
    "drop_last": (False, True),
    "wake": (False, True),
}


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def _listed(values: Collection[object]) -> str:
    *others, last = map(repr, values)
    return f"{', '.join(others)} or {last}"


@dataclass(frozen=True, repr=False)
class TrainingSettings:
    """How :class:`epls.EPLS` trains. The defaults need no tuning; ``epls.PAPER`` is the algorithm as printed.

    Parameters
    ----------
    target : {"auction", "literal", "literal_scaled", "exact", "largest"}, default="auction"
        How the winning units are found; see :mod:`epls.algorithm.target`. "literal" is the paper's rule,
        "literal_scaled" that rule with the outputs of each mini-batch scaled to 0..1, "exact" is slow, and "largest"
        picks the largest output without balancing.
    loss : {"matching", "squared"}, default="matching"
        How outputs are compared with the target; see :mod:`epls.algorithm.training`. "squared" is the paper's loss,
        with which "relu" units can become never active.
    optimizer : {"adam", "vsgd", "vsgd_block", "vsgd_global"}, default="adam"
        How the weights are updated. "vsgd" has a rate for each parameter, "vsgd_block" one for the weights
        and one for the biases, and "vsgd_global" a single rate.
    biases : {"auto", "steered", "quantile", "random", "none"}, default="auto"
        How the biases start and change. "steered": the mean output of each unit moves from one half to its share; see
        :mod:`epls.algorithm.steering`. "quantile": they start where each unit is active for its share of a batch, and
        are learned. "random": they start as small random numbers, as in the paper, and are learned. "none": they stay 0
        unless ``wake`` raises them. "auto" is "steered" for the matching loss and an invertible activation, else
        "quantile".
    batch_size : "n_components" or None, default=None
        The size of a mini-batch if ``EPLS(batch_size=None)``. "n_components" is the paper's choice. None uses the
        smallest multiple of ``n_components`` that is not below min(256, n_samples / 10).
    drop_last : bool, default=False
        Whether to leave out the last samples of an epoch if they do not fill a mini-batch, as the paper does.
    max_norm : float, "auto" or None, default="auto"
        The limit for the norm of each component after each epoch; None sets no limit. The limit keeps outputs graded:
        without it, long training on few samples makes units all-or-nothing. The paper uses 1, for 1600 units and 300
        features. "auto" uses 1, or more in proportion to log(n_components) / sqrt(n_features): the range from a unit's
        share of 1 / n_components to active, divided by the norm of a sample.
    tol : float or None, default=None
        The tolerance if ``EPLS(tol=None)``. The paper uses 1e-6.
    wake : bool, default=True
        Whether to raise, at the end, the biases of units that are active for no sample until they are half active for
        one. The paper does not do this.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from epls import EPLS, PAPER
    >>> EPLS(20, settings=TrainingSettings(loss="squared"))
    EPLS(n_components=20, settings=TrainingSettings(loss='squared'))
    >>> with_adam = EPLS(20, settings=replace(PAPER, optimizer="adam"))
    """

    target: str = "auction"
    loss: str = "matching"
    optimizer: str = "adam"
    biases: str = "auto"
    batch_size: str | None = None
    drop_last: bool = False
    max_norm: float | str | None = "auto"
    tol: float | None = None
    wake: bool = True

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if not (isinstance(value, str | bool | None) and value in allowed):
                raise ValueError(f"{name}={value!r}: give {_listed(allowed)}")
        if self.max_norm not in ("auto", None) and not (_is_number(self.max_norm) and self.max_norm > 0):  # type: ignore[operator]
            raise ValueError(f"max_norm={self.max_norm!r}: give a number above 0, 'auto' or None")
        if self.tol is not None and not (_is_number(self.tol) and self.tol >= 0):
            raise ValueError(f"tol={self.tol!r}: give a number of at least 0 or None")

    def __repr__(self) -> str:
        """Show the settings that differ from the defaults, as scikit-learn does for estimators."""
        changed = [f for f in fields(self) if getattr(self, f.name) != f.default]
        return f"TrainingSettings({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in changed)})"


#: Algorithms 1 and 2 as printed in the paper, with a learning rate for weights and one for biases:
#: ``EPLS(n_components, settings=epls.PAPER)``. docs/paper.md reports the effect of each setting. The limit on the
#: number of epochs is ours; a warning says so if it ends training.
PAPER = TrainingSettings(
    target="literal",
    loss="squared",
    optimizer="vsgd_block",
    biases="random",
    batch_size="n_components",
    drop_last=True,
    max_norm=1.0,
    tol=1e-6,
    wake=False,
)


def norm_limit(n_components: int, n_features: int) -> float:
    """Return the paper's limit of 1, or more if units need more room than its 1600 units with 300 features."""
    room = math.log(n_components) / math.sqrt(n_features)
    return max(1.0, room / (math.log(1600) / math.sqrt(300)))


def batch_rows(n_components: int, n_samples: int) -> int:
    """Return the smallest multiple of the number of units that is not below min(256, n_samples / 10)."""
    smallest = min(SMALLEST_BATCH, max(n_samples // 10, 1))
    return n_components * -(-smallest // n_components)


def enough_epochs(n_batches: int, fewest_epochs: int, fewest_steps: int) -> int:
    """Return the fewest epochs, or more if these have fewer than the fewest steps.

    With fewer steps, components have not settled, however small the data. With plenty of data, the epochs suffice.
    """
    return max(fewest_epochs, -(-fewest_steps // n_batches))


def usual_epochs(
    n_batches: int, n_components: int, fewest_steps: int = 960, most_steps: int = 2400, most_epochs: int = 20
) -> int:
    """Return the number of epochs of EPLS: 5, or as many as have the steps that its units need to become filters.

    These are 96 * sqrt(n_components), or 4.8 * n_components from 400 on: no fewer than 960, and no more than 2400 or
    those of 20 epochs, whichever is more. docs/paper.md has the figures.
    """
    needed = math.ceil(max(96 * math.sqrt(n_components), 4.8 * n_components))
    return enough_epochs(n_batches, 5, max(fewest_steps, min(needed, max(most_steps, most_epochs * n_batches))))
