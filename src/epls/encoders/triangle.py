"""Codes that measure how much nearer than average each component is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..data.encoding import BlockEncoder
from ..kernels.codes import distances, triangle
from ..utils.types import Array
from .base import Encoder


class TriangleEncoder(Encoder):
    """Codes max(0, mean distance - distance) to the components: the "triangle" k-means of Coates, Ng and Lee.

    Parameters
    ----------
    dictionary : fitted learner or array-like of shape (n_components, n_features)
        The components, or scikit-learn's ``KMeans`` with its ``cluster_centers_``. ``ImageFeatures`` sets it.
    split_sign : bool, default=False
        Whether to add the mirrored components. This doubles the codes; the mean distance is then over all of them.

    Examples
    --------
    >>> TriangleEncoder([[0.0], [4.0]]).transform([[1.0]])
    array([[1., 0.]])
    """

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        """Return a function that creates encoders for samples of a type."""
        units = np.ascontiguousarray(self.components(), dtype)
        unit_squares = np.square(units).sum(axis=1)

        def to_codes(samples: Array, products: Array, codes: Array) -> None:
            squares = np.einsum("ij,ij->i", samples, samples)
            for start, sign in ((0, 1), (len(units), -1))[: 1 + self.split_sign]:
                part = codes[:, start : start + len(units)]
                distances(products, dtype.type(sign), samples, units, squares, unit_squares, part)
            triangle(codes)

        return self.product_encoders(np.ascontiguousarray(units.T), to_codes)
