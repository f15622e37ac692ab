"""Components that explain each sample with one or a few of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..data.encoding import BlockEncoder
from ..data.moments import center_and_scale
from ..data.samples import Samples
from ..solvers.dictionary import first_components, improve_components, learn_in_rounds
from ..solvers.pursuit import dense_coder, pursuit_codes
from ..utils.fields import ROUNDS
from ..utils.sklearn import AT_LEAST_ONE
from .base import Learner


class OMP(Learner):
    """Gain-shape vector quantisation: learn components d of unit norm, for codes with at most k nonzero entries.

    Minimises sum \\|x - D's\\|² over components D and codes s with at most ``n_nonzero_coefs`` nonzero entries, found
    by orthogonal matching pursuit. With one entry (OMP-1), this is k-means for directions: x belongs to the component
    with the largest \\|d·x\\|. Each round improves the codes, then the components. Components that no sample uses are
    counted and drawn again.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of components, at most the number of samples. None uses 100, or the number of samples if less.
    n_nonzero_coefs : int, default=1
        The k of OMP-k. This is the setting to tune.
    max_iter : int, default=30
        The maximum number of rounds over the samples.
    tol : float, default=1e-4
        Learning stops when a round reduces the squared error by no more than this fraction.
    random_state : int, RandomState instance or None, default=None
        Determines the first components, which are random samples.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components.
    loss_curve_ : list of float
        The mean squared error of a sample in each round, before the round improves the components.
    n_redrawn_ : list of int
        The number of components that no sample used, in each round except the last. They are drawn again.
    n_unused_ : int
        The number of components that no sample used in the last round.
    n_iter_ : int
        The number of rounds.

    Examples
    --------
    >>> X = [[2.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, 4.0]]
    >>> codes = OMP(2, random_state=1).fit_transform(X)
    >>> abs(codes).max(axis=1)  # one component for each axis
    array([2., 3., 1., 4.])
    """

    meta_parameters = ("n_nonzero_coefs",)
    whitens = True
    usual_patches = 400_000
    saved: ClassVar[dict[str, Any]] = Learner.saved | ROUNDS
    _parameter_constraints: ClassVar[dict[str, Any]] = Learner._parameter_constraints | {
        "n_nonzero_coefs": [AT_LEAST_ONE],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_nonzero_coefs: int = 1,
        max_iter: int = 30,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        X = samples.array()
        scale = center_and_scale(X)[1]
        rescaled = not 1e-6 < scale < 1e6
        # Components do not depend on the scale, but squares of very large or very small numbers overflow or underflow.
        if rescaled:
            X = X / X.dtype.type(scale)
        components = first_components(X, self.checked_n_components(len(X)), random)
        energy = sum(float(np.vdot(block, block)) for block in np.array_split(X, -(-len(X) // 4096)))

        def improve() -> tuple[float, NDArray[np.int64]]:
            codes = pursuit_codes(X, components, self.n_nonzero_coefs)
            products = codes.T @ X
            squares = (codes.T @ codes).toarray()
            # |X - S D|^2 = |X|^2 - 2 <S'X, D> + <S'S D, D>
            explained = 2 * np.vdot(products, components) - np.vdot(squares @ components, components)
            improve_components(components, squares, products)
            error = max(energy - float(explained), 0.0) / len(X)
            return error, np.bincount(codes.indices, minlength=len(components))

        found = learn_in_rounds(X, components, self.epochs(self.max_iter), random, improve, tol=self.tol)
        if rescaled:
            found["loss_curve_"] = [error * scale**2 for error in found["loss_curve_"]]
        return found

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        encode = dense_coder(self.components_.astype(dtype, copy=False), self.n_nonzero_coefs)
        return lambda: encode
