"""Components for sparse codes: online dictionary learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..data.encoding import BlockEncoder
from ..data.samples import Samples
from ..encoders.sparse_coding import SparseCodingEncoder
from ..solvers.dictionary import CodedBatch, check_scale, first_components, learn_online
from ..solvers.lasso import sparse_codes
from ..utils.fields import ROUNDS
from ..utils.sklearn import POSITIVE
from ..utils.types import Array
from .base import Learner

_TOL = 1e-2  # of the codes during learning; the components change by more than that between batches


class SparseCoding(Learner):
    """Sparse coding: learn components d of unit norm for codes with a penalty on their absolute values.

    Minimises sum 1/2 \\|x - D's\\|² + alpha \\|s\\|₁ over components D and codes s. For each batch it finds the exact
    codes. Then it sets each component to its optimum for the codes of all batches so far, with less weight on older
    ones (Mairal et al. 2009). ``transform`` returns signed codes; see :class:`epls.SparseCodingEncoder` for images.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of components, at most the number of samples. None uses 100, or the number of samples if less.
    alpha : float, default=1.0
        The sparsity penalty, to be tuned. The default suits samples whose features have unit variance.
    max_iter : int, default=5
        The number of rounds over the samples.
    random_state : int, RandomState instance or None, default=None
        Determines the first components, which are random samples, and the order of the samples.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components.
    loss_curve_ : list of float
        The mean objective of a sample in each round.
    n_redrawn_ : list of int
        The number of components that no sample used, in each round except the last. They are drawn again.
    n_unused_ : int
        The number of components that no sample used in the last round.
    n_iter_ : int
        The number of rounds.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).laplace(size=(500, 6))
    >>> codes = SparseCoding(12, alpha=1.0, random_state=0).fit_transform(X)
    >>> bool(0.1 < np.mean(codes != 0) < 0.5)
    True
    """

    meta_parameters = ("alpha",)
    saved: ClassVar[dict[str, Any]] = Learner.saved | ROUNDS
    _parameter_constraints: ClassVar[dict[str, Any]] = Learner._parameter_constraints | {"alpha": [POSITIVE]}

    def __init__(
        self, n_components: int | None = None, *, alpha: float = 1.0, max_iter: int = 5, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.max_iter = max_iter
        self.random_state = random_state

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        X = samples.array()
        check_scale(X)
        components = first_components(X, self.checked_n_components(len(X)), random)

        def coded(batch: Array) -> CodedBatch:
            codes = sparse_codes(batch, components, self.alpha, tol=_TOL)
            residual = batch - codes @ components
            loss = 0.5 * float(np.vdot(residual, residual)) + self.alpha * float(np.abs(codes.data).sum())
            n_uses = np.bincount(codes.indices, minlength=len(components))
            return CodedBatch(loss, n_uses, (codes.T @ codes).toarray(), codes.T @ batch)

        return learn_online(X, components, self.epochs(self.max_iter), random, coded)

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        return SparseCodingEncoder(self.components_, self.alpha, split_sign=False).block_encoders(dtype)
