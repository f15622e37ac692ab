"""The defaults of EPLS, which depend on the size of the data, and the settings of the paper."""

from __future__ import annotations

import math
from typing import Any

# Smaller batches cost more overhead than work, and with few units their gradients would be needlessly noisy.
SMALLEST_BATCH = 256
# With fewer steps, the components have not settled, however small the data. With plenty of data, this many epochs
# suffice.
_FEWEST_STEPS, _FEWEST_EPOCHS = 2400, 20

#: Algorithms 1 and 2 as printed in the paper: ``EPLS(n_components, **epls.PAPER)``. docs/paper.md reports the effect
#: of each setting. The limit on the number of epochs is our default; a warning says so if it ends training.
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
    """Return the paper's limit of 1, or more if units need more room than its 1600 units with 300 features."""
    room = math.log(n_components) / math.sqrt(n_features)
    return max(1.0, room / (math.log(1600) / math.sqrt(300)))


def batch_rows(n_components: int, n_samples: int) -> int:
    """Return the smallest multiple of the number of units that is not below min(256, n_samples / 10)."""
    smallest = min(SMALLEST_BATCH, max(n_samples // 10, 1))
    return n_components * -(-smallest // n_components)


def number_of_epochs(n_batches: int) -> int:
    """Return 20, or more if 20 epochs have fewer than 2400 mini-batches."""
    return enough_epochs(None, n_batches, _FEWEST_EPOCHS, _FEWEST_STEPS)


def enough_epochs(max_iter: int | None, n_batches: int, fewest_epochs: int, fewest_steps: int) -> int:
    """Return ``max_iter``, or for None the fewest epochs that have enough steps."""
    return int(max_iter or max(fewest_epochs, -(-fewest_steps // n_batches)))
