"""Codes that explain a sample best with few components: a lasso problem for each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..data.blocks import as_blocks, is_dask
from ..data.encoding import BlockEncoder
from ..data.moments import unit_rows
from ..kernels.codes import shrink
from ..solvers.lasso import LassoSolver
from ..utils.sklearn import POSITIVE
from ..utils.types import Array
from .base import Encoder


class SparseCodingEncoder(Encoder):
    """Codes s that minimise 1/2 \\|x - D's\\|² + alpha \\|s\\|₁, with the components D scaled to unit norm.

    Unlike in feed-forward encoders, components compete: once one component explains a part of the sample, no other
    needs to. The paper's best result uses this encoder. It takes about ten times as long as the others.

    Codes are exact. With the slopes g = D (x - D's), a minimum has g = alpha sign(s) where s is not 0, and \\|g\\| <=
    alpha elsewhere. These conditions hold within ``tol * alpha``, so the objective exceeds its minimum by at most 2
    ``tol`` of itself. In practice, the excess is about the square of that. Float32 samples are solved in float32,
    except where that is not exact enough.

    Parameters
    ----------
    dictionary : fitted learner or array-like of shape (n_components, n_features)
        The components. ``ImageFeatures`` sets it.
    alpha : float, default=1.0
        The penalty on the sum of absolute codes. The larger it is, the more codes are 0. If it exceeds all products of
        a sample with the components, all codes of the sample are 0. The default suits patches that are normalised to
        unit variance.
    split_sign : bool, default=True
        Whether to return the positive parts of the codes, followed by their negative parts, so that no code is
        negative. It has no effect if ``positive`` is set.
    positive : bool, default=False
        Whether to require codes that are not negative.
    tol : float, default=1e-3
        The tolerance of the codes, as described above.
    sparse_output : bool, default=False
        Whether ``transform`` returns a ``scipy.sparse.csr_array``, which stores only the few percent that are not 0.

    Examples
    --------
    >>> SparseCodingEncoder([[1.0, 0.0], [0.0, 1.0]], alpha=0.5).transform([[2.0, -1.0]])
    array([[1.5, 0. , 0. , 0.5]])
    >>> SparseCodingEncoder([[1.0, 0.0], [0.6, 0.8]], alpha=0.1, split_sign=False).transform([[3.0, 4.0]])
    array([[0. , 4.9]])
    """

    meta_parameters = ("alpha",)
    _parameter_constraints: ClassVar[dict[str, Any]] = Encoder._parameter_constraints | {
        "alpha": [POSITIVE],
        "positive": ["boolean"],
        "tol": [POSITIVE],
        "sparse_output": ["boolean"],
    }

    def __init__(
        self,
        dictionary: Any = None,
        alpha: float = 1.0,
        *,
        split_sign: bool = True,
        positive: bool = False,
        tol: float = 1e-3,
        sparse_output: bool = False,
    ) -> None:
        super().__init__(dictionary, split_sign=split_sign)
        self.alpha = alpha
        self.positive = positive
        self.tol = tol
        self.sparse_output = sparse_output

    @property
    def n_codes(self) -> int:
        """The number of codes of a sample."""
        return len(self.components()) * (2 if self._splits else 1)

    def transform(self, X: ArrayLike) -> Any:
        """Encode samples as :meth:`Encoder.transform` does, to a csr_array if ``sparse_output`` is set."""
        if not self.sparse_output:
            return super().transform(X)
        if is_dask(X):
            raise TypeError("sparse_output=True cannot be used with a dask array: set it to False")
        if as_blocks(X) is not None:
            parts: Iterator[Any] = self.iter_transform(X)
        else:
            parts = self._map_codes(self._checked(X), lambda rows, codes: sparse.csr_array(codes))
        return sparse.vstack(list(parts), format="csr")

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        """Return a function that creates encoders for samples of a type."""
        components = unit_rows(self.components().astype(np.float64))
        columns = np.ascontiguousarray(components.T, dtype)
        solver = LassoSolver(components @ components.T, self.alpha, positive=self.positive, tol=self.tol, dtype=dtype)

        def to_codes(samples: Array, products: Array, codes: Array) -> None:
            if not self._splits:
                solver.solve(products, codes)
                return
            signed = np.empty_like(products)
            solver.solve(products, signed)
            shrink(signed, dtype.type(0), codes)

        return self.product_encoders(columns, to_codes)

    @property
    def _splits(self) -> bool:
        return self.split_sign and not self.positive
