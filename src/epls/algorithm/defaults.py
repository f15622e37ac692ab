"""What EPLS takes where nothing is given, from the sizes of the data; and what the paper takes."""

from __future__ import annotations

import math
from typing import Any

# Below this a batch costs more overhead than work, and the gradient of a few units would be needlessly noisy.
SMALLEST_BATCH = 256
# With fewer steps than this the components have not settled, however small the data; with more than enough data for
# that, so many epochs.
_FEWEST_STEPS, _FEWEST_EPOCHS = 2400, 20

#: Algorithms 1 and 2 as the paper prints them: ``EPLS(n_components, **epls.PAPER)``. docs/paper.md has what each of
#: these settings is worth. The limit on the number of epochs is ours, the default one; a warning says so if it is what
#: ended training.
PAPER: dict[str, Any] = {
    "target": "literal",
    "loss": "squared",
    "optimizer": "vsgd",
    "biases": "random",
    "batch_size": "n_components",
    "drop_last": True,
    "max_norm": 1.0,
    "max_iter": None,
    "tol": 1e-6,
    "wake": False,
}


def norm_limit(n_components: int, n_features: int) -> float:
    """The paper's limit of 1, or more where units need more room than its 1600 units of 300 features do."""
    room = math.log(n_components) / math.sqrt(n_features)
    return max(1.0, room / (math.log(1600) / math.sqrt(300)))


def batch_rows(n_components: int, n_samples: int) -> int:
    """The least multiple of the number of units that is not below 256 or, if that is less, a tenth of the samples."""
    smallest = min(SMALLEST_BATCH, max(n_samples // 10, 1))
    return n_components * -(-smallest // n_components)


def number_of_epochs(n_batches: int) -> int:
    """20, or more if that would be fewer than 2400 mini-batches."""
    return enough_epochs(None, n_batches, _FEWEST_EPOCHS, _FEWEST_STEPS)


def enough_epochs(max_iter: int | None, n_batches: int, fewest_epochs: int, fewest_steps: int) -> int:
    """``max_iter``; None is the fewest epochs that are also enough steps."""
    return int(max_iter or max(fewest_epochs, -(-fewest_steps // n_batches)))
