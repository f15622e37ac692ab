"""Prototypes: the means of the samples that each unit of EPLS wins, with a dense code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin_min

from ..algorithm.settings import batch_rows, enough_epochs
from ..data.encoding import BlockEncoder
from ..data.samples import Samples
from ..encoders.triangle import TriangleEncoder
from ..utils.fields import COUNT, CURVE
from ..utils.sklearn import AT_LEAST_ONE
from ..utils.threads import threads_for
from ..utils.types import Array
from .base import Learner
from .epls import EPLS

# Winners settle long before the weights of EPLS do: what a classifier makes of the codes hardly changes with more
# epochs or prototypes. docs/guide/vectors.md has the figures.
_FEWEST_EPOCHS = 5
_FEWEST_STEPS = 300
_FEWEST_PROTOTYPES, _MOST_PROTOTYPES = 10, 400
_SAMPLES_PER_PROTOTYPE = 10


class Prototypes(Learner):
    """Features for vectors such as embeddings: how much nearer than average each of a set of typical samples is.

    The units of :class:`EPLS` compete for the samples, and each wins equally many. A prototype is the mean of the
    samples that a unit wins, so dense regions of the data get many prototypes and no prototype is left to a few
    outliers. The code of a sample x is max(0, mean distance - distance) to the prototypes: dense, not negative, a
    column for each prototype.

    For vectors, this code serves better than the natural code of EPLS, which keeps little more than the winner. Only
    the winners are needed here, and they settle early: training takes a fraction of the time of :class:`EPLS`.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of prototypes, at most the number of samples. None uses a tenth of the number of samples, but at
        least 10 and at most 400. More rarely help.
    max_iter : int or None, default=None
        The number of epochs. None uses 5, or more if 5 epochs have fewer than 300 mini-batches.
    random_state : int, RandomState instance or None, default=None
        Determines the first weights of EPLS and the order of its samples.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The prototypes.
    prototype_indices_ : ndarray of int of shape (n_components,)
        For each prototype, the row of the nearest training sample: an example of what the prototype stands for. Not
        saved in model files, and not set if several processes learn together.
    loss_curve_ : list of float
        The error of EPLS after each epoch.
    n_iter_ : int
        The number of epochs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[3.0, 0.0], [0.0, 1.0]], 50, axis=0)
    >>> prototypes = Prototypes(2, random_state=0).fit(X)
    >>> means = prototypes.components_
    >>> means[np.argsort(means[:, 0])]
    array([[0., 1.],
           [3., 0.]])
    >>> prototypes.transform(X[:1]).max()  # half the distance between the two
    np.float64(1.58...)
    """

    whitens = True
    own_encoder = "triangle"
    in_parts = True
    usual_patches = EPLS.usual_patches
    saved: ClassVar[dict[str, Any]] = Learner.saved | {"loss_curve_": CURVE, "n_iter_": COUNT}
    _parameter_constraints: ClassVar[dict[str, Any]] = Learner._parameter_constraints | {
        "max_iter": [AT_LEAST_ONE, None],
    }

    prototype_indices_: NDArray[np.intp]

    def __init__(
        self, n_components: int | None = None, *, max_iter: int | None = None, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.random_state = random_state

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        n_components = self.checked_n_components(samples.shape[0])
        n_batches = samples.n_batches(batch_rows(n_components, samples.shape[0] // samples.n_parts))
        max_iter = self.max_iter or enough_epochs(n_batches, _FEWEST_EPOCHS, _FEWEST_STEPS)
        model = EPLS(n_components, max_iter=max_iter, random_state=random)
        model.set_callbacks(*self.callbacks).fit(samples)
        means = _means_of_wins(model, samples, random).astype(samples.dtype)
        found = {"components_": means, "loss_curve_": model.loss_curve_, "n_iter_": model.n_iter_}
        return found if samples.n_parts > 1 else found | {"prototype_indices_": _nearest_samples(means, samples)}

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        return TriangleEncoder(self.components_).block_encoders(dtype)

    def default_n_components(self, n_samples: int) -> int:
        return max(_FEWEST_PROTOTYPES, min(n_samples // _SAMPLES_PER_PROTOTYPE, _MOST_PROTOTYPES))


def _means_of_wins(model: EPLS, samples: Samples, random: np.random.RandomState) -> Array:
    """Return the mean of the samples that each unit wins in one more epoch, whose batches are large."""
    n_components, n_features = model.components_.shape
    sums, counts = np.zeros((n_components, n_features)), np.zeros(n_components)
    for array, rows, *_ in samples.epoch(random, model.winners_at_a_time()):
        X = array[rows]
        winners = model.winners(X)
        order = np.argsort(winners, kind="stable")
        units, cuts = np.unique(winners[order], return_index=True)  # those of the last batch may not be all
        sums[units] += np.add.reduceat(X[order], cuts, axis=0, dtype=np.float64)
        counts += np.bincount(winners, minlength=n_components)
    samples.add_up(sums, counts)
    return sums / np.maximum(counts, 1)[:, None]


def _nearest_samples(prototypes: Array, samples: Samples) -> NDArray[np.intp]:
    """Return the row of the sample that is nearest to each prototype."""
    nearest, shortest, n_before = np.zeros(len(prototypes), np.intp), np.full(len(prototypes), np.inf), 0
    for block in samples.blocks_in_order():
        with threads_for(block.size * len(prototypes)):
            found, distances = pairwise_distances_argmin_min(prototypes, block.astype(samples.dtype, copy=False))
        nearer = distances < shortest
        nearest[nearer], shortest[nearer] = n_before + found[nearer], distances[nearer]
        n_before += len(block)
    return nearest
