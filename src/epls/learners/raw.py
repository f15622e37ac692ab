"""No learning: the baseline that every learner must beat."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .base import Learner

Array = NDArray[np.floating]


class Raw(Learner):
    """The samples themselves as codes: what a classifier gets without any learned features.

    Optimises nothing; the bases are the coordinate axes. In images these are the pixels of normalised patches, without
    sign, summed over regions.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        The identity.
    n_features_in_ : int
        The number of features.

    Examples
    --------
    >>> Raw().fit_transform([[1.0, 2.0], [3.0, 4.0]])
    array([[1., 2.],
           [3., 4.]])
    """

    complete = True
    _saved_values = ()
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def _learn(self, X: Array, random: np.random.RandomState) -> dict[str, Any]:
        for _ in self._epochs(1):
            bases = np.eye(X.shape[1], dtype=X.dtype)
        return {"components_": bases}

    def _codes(self, X: Array) -> Array:
        return X.copy()
