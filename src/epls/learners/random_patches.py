"""Samples as bases: no learning, but the bases look like the data."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from ..solvers.dictionary import random_bases
from .base import Learner

Array = NDArray[np.floating]


class RandomPatches(Learner):
    """Random samples, scaled to unit norm, as bases; codes are the products with them.

    Optimises nothing. With a good encoder it comes surprisingly near to learned bases (Coates and Ng 2011).

    Parameters
    ----------
    n_components : int or None, default=None
        The number of bases, at most the number of samples; None takes 100, or the number of samples if that is less.
    random_state : int, RandomState instance or None, default=None
        Which samples are taken.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The bases.
    n_features_in_ : int
        The number of features.

    Examples
    --------
    >>> RandomPatches(2, random_state=0).fit([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]]).components_
    array([[0.6, 0.8],
           [0. , 1. ]])
    """

    _saved_values = ()
    whitens = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(self, n_components: int | None = None, *, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def _learn(self, X: Array, random: np.random.RandomState) -> dict[str, Any]:
        n_components = self._checked_components(len(X))
        for _ in self._epochs(1):
            bases = random_bases(X, n_components, random)
        return {"components_": bases}

    def _codes(self, X: Array) -> Array:
        return X @ self.components_.T.astype(X.dtype, copy=False)
