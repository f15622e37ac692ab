"""Random samples as components: nothing is learned, but the components look like the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.samples import Samples
from ..solvers.dictionary import random_components
from .base import Learner


class RandomPatches(Learner):
    """Random samples, scaled to unit norm, as components. Codes are products with them.

    Optimises nothing. With a good encoder, the results are surprisingly close to those of learned components (Coates
    and Ng 2011).

    Parameters
    ----------
    n_components : int or None, default=None
        The number of components, at most the number of samples. None uses 100, or the number of samples if less.
    random_state : int, RandomState instance or None, default=None
        Determines which samples become components.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components.

    Examples
    --------
    >>> RandomPatches(2, random_state=0).fit([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]]).components_
    array([[0.6, 0.8],
           [0. , 1. ]])
    """

    whitens = True
    in_one_step = True

    def __init__(self, n_components: int | None = None, *, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        X = samples.array()
        return {"components_": random_components(X, self.checked_n_components(len(X)), random)}
