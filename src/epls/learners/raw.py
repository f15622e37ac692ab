"""No learning: a baseline that every learner should beat."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..data.samples import Samples
from ..utils.fields import Floats
from ..utils.types import Array
from .base import Learner


class Raw(Learner):
    """Use the samples themselves as codes: what a classifier sees without learned features.

    Optimises nothing; the components are the coordinate axes. For images, the codes are the absolute values of the
    pixels of normalised patches, summed over regions.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_features)
        The identity matrix.

    Examples
    --------
    >>> Raw().fit_transform([[1.0, 2.0], [3.0, 4.0]])
    array([[1., 2.],
           [3., 4.]])
    """

    complete = True
    in_one_step = True
    saved: ClassVar[dict[str, Any]] = {"components_": Floats("n_features", "n_features")}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        return {"components_": np.eye(samples.shape[1], dtype=samples.dtype)}

    def encode(self, X: Array) -> Array:
        return X.copy()
