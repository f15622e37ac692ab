"""Prototypes of the units of EPLS: the mean of the samples that each unit is active for."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..data.samples import Samples
from ..utils.fields import COUNT, CURVE
from ..utils.sklearn import AT_LEAST_ONE
from .base import Learner
from .epls import EPLS


class Prototypes(Learner):
    """Components that are the means of the samples of each unit of EPLS. Codes are products with them.

    Optimises the same objective as :class:`EPLS`. The weights of EPLS separate the samples of a unit from those of its
    neighbours, which suits codes as sparse as its own. For dense codes, such as those of a soft threshold, similarity
    to the samples of a unit matters more, and their mean is a better template. All means are over the same number of
    samples.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of units, at most the number of samples. None uses 100, or the number of samples if that is less.
    max_iter : int or None, default=None
        The number of epochs; see :class:`EPLS`.
    random_state : int, RandomState instance or None, default=None
        Determines the first weights of EPLS and the order of its samples.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The means.
    loss_curve_ : list of float
        The error of EPLS after each epoch.
    n_iter_ : int
        The number of epochs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[3.0, 0.0], [0.0, 1.0]], 50, axis=0)
    >>> means = Prototypes(2, random_state=0).fit(X).components_
    >>> means[np.argsort(means[:, 0])]
    array([[0., 1.],
           [3., 0.]])
    """

    whitens = True
    own_encoder = "soft_threshold"
    in_parts = True
    usual_patches = EPLS.usual_patches
    saved: ClassVar[dict[str, Any]] = Learner.saved | {"loss_curve_": CURVE, "n_iter_": COUNT}
    _parameter_constraints: ClassVar[dict[str, Any]] = Learner._parameter_constraints | {
        "max_iter": [AT_LEAST_ONE, None],
    }

    def __init__(
        self, n_components: int | None = None, *, max_iter: int | None = None, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.random_state = random_state

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        n_components = self.checked_n_components(samples.shape[0])
        model = EPLS(n_components, max_iter=self.max_iter, random_state=random)
        model.set_callbacks(*self.callbacks).fit(samples)
        X = samples.array()
        winners = model.winners(X)
        order = np.argsort(winners, kind="stable")
        units, cuts = np.unique(winners[order], return_index=True)  # those of a part may not be all
        sums, counts = np.zeros((n_components, X.shape[1])), np.bincount(winners, minlength=n_components).astype(float)
        sums[units] = np.add.reduceat(X[order], cuts, axis=0, dtype=np.float64)
        samples.add_up(sums, counts)
        means = sums / np.maximum(counts, 1)[:, None]
        return {"components_": means.astype(X.dtype), "loss_curve_": model.loss_curve_, "n_iter_": model.n_iter_}
