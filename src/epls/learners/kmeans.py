"""Cluster centres as components."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ..data.encoding import BlockEncoder
from ..data.moments import center_and_scale, check_squares
from ..data.samples import Samples
from ..encoders.triangle import TriangleEncoder
from ..utils.fields import COUNT
from ..utils.threads import threads_for
from .base import Learner

_SPREAD = 0.1  # of the initial centres, in standard deviations of the samples


class KMeansTriangle(Learner):
    """k-means with codes max(0, mean distance - distance) to its centres: the "triangle" of Coates, Ng and Lee (2011).

    Minimises the sum of squared distances from samples to their nearest centres with scikit-learn's KMeans. Whiten the
    samples first; otherwise the centres are blurred.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of centres, at most the number of samples. None uses 100, or the number of samples if that is less.
    max_iter : int, default=50
        The maximum number of iterations.
    tol : float, default=1e-4
        The tolerance of scikit-learn's KMeans.
    random_state : int, RandomState instance or None, default=None
        Determines the initial centres, which are near the mean of the samples.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The centres.
    n_iter_ : int
        The number of iterations.

    Examples
    --------
    >>> KMeansTriangle(2, random_state=0).fit([[0.0], [0.0], [4.0], [4.0]]).transform([[1.0]]).sum()
    np.float64(1.0)
    """

    whitens = True
    in_one_step = True  # KMeans does not report its progress
    own_encoder = "triangle"
    usual_patches = 400_000
    saved: ClassVar[dict[str, Any]] = Learner.saved | {"n_iter_": COUNT}

    def __init__(
        self, n_components: int | None = None, *, max_iter: int = 50, tol: float = 1e-4, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        X = samples.array()
        n_clusters = self.checked_n_components(len(X))
        check_squares(X, small=False)  # KMeans squares distances in the type of X
        # Centres that start at samples, as in scikit-learn, can get stuck at outliers: of 400 centres on whitened
        # patches, a quarter had one sample. Near the mean, where Coates and Ng start theirs, all centres get their
        # share.
        mean, scale = center_and_scale(X)
        start = mean + _SPREAD * scale * random.standard_normal((n_clusters, X.shape[1]))
        kmeans = KMeans(
            n_clusters, init=start.astype(X.dtype), n_init=1, max_iter=self.max_iter, tol=self.tol, random_state=random
        )
        with warnings.catch_warnings(), threads_for(X.size * n_clusters):
            # With fewer distinct samples than centres, some centres have no samples. The caller can count them.
            warnings.filterwarnings("ignore", "Number of distinct clusters", ConvergenceWarning)
            kmeans.fit(X)
        return {"components_": np.ascontiguousarray(kmeans.cluster_centers_), "n_iter_": int(kmeans.n_iter_)}

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        return TriangleEncoder(self.components_).block_encoders(dtype)
