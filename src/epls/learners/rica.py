"""ICA with a reconstruction cost, which allows more components than features."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..data.moments import second_moments
from ..data.samples import Samples
from ..kernels.sparsity import soft_absolute_derivatives
from ..solvers.lbfgs import minimize_over_epochs, sums_over_blocks
from ..utils.fields import COUNT, CURVE
from ..utils.sklearn import POSITIVE
from ..utils.threads import product
from ..utils.types import Array, Float64
from .base import Learner

_EPSILON = 1e-8  # smooths the absolute value at 0, where it has no derivative


class RICA(Learner):
    """Reconstruction ICA: sparse codes that can reconstruct the samples, with any number of components.

    Minimises the mean over the samples of sum_j \\|w_j·x\\| + penalty \\|W'W x - x\\|² over components w_j of unit norm
    (Le et al. 2011). It runs L-BFGS on all samples. The second term replaces the orthogonality of ICA, which is
    impossible with more components than features. The absolute value is computed as sqrt(z^2 + 1e-8).

    The authors of RICA whiten the samples first; the paper's result on STL-10 does not. The samples are not centred.
    Their unit matters: for a * X, divide the penalty by a to get the same components.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of components, at most the number of samples. None uses 100, or the number of samples if less.
    reconstruction_penalty : float, default=0.5
        The weight of the reconstruction relative to sparsity, to be tuned. Published code uses values from 0.05 to 3.6,
        for samples in different units. Large values make the components a tight frame; small values make them alike.
    max_iter : int, default=300
        The maximum number of iterations.
    tol : float, default=1e-7
        Learning stops early when an iteration reduces the objective by no more than this fraction of its first value.
    random_state : int, RandomState instance or None, default=None
        Determines the initial components, which point in random directions.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components W, with unit norm.
    loss_curve_ : list of float
        The objective after each iteration.
    n_iter_ : int
        The number of iterations.

    Examples
    --------
    >>> X = np.random.default_rng(0).laplace(size=(1000, 2)) @ [[0.6, 0.8], [-0.8, 0.6]]
    >>> abs(RICA(2, random_state=0).fit(X).components_).round(1)
    array([[0.8, 0.6],
           [0.6, 0.8]])
    """

    meta_parameters = ("reconstruction_penalty",)
    saved: ClassVar[dict[str, Any]] = Learner.saved | {"n_iter_": COUNT, "loss_curve_": CURVE}
    _parameter_constraints: ClassVar[dict[str, Any]] = Learner._parameter_constraints | {
        "reconstruction_penalty": [POSITIVE],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        reconstruction_penalty: float = 0.5,
        max_iter: int = 300,
        tol: float = 1e-7,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.reconstruction_penalty = reconstruction_penalty
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        X = samples.array()
        start = random.standard_normal((self.checked_n_components(len(X)), X.shape[1]))
        start /= _norms(start)
        covariance = second_moments(X) / len(X)
        of_rows = partial(objective_of_directions, X=X, covariance=covariance, penalty=self.reconstruction_penalty)
        rows, curve = minimize_over_epochs(of_rows, start, self.epochs(self.max_iter), self.tol)
        return {
            "components_": (rows / _norms(rows)).astype(X.dtype),
            "loss_curve_": curve,
            "n_iter_": max(len(curve), 1),
        }


def objective(
    components: Float64, X: Array, covariance: Float64, penalty: float, epsilon: float = _EPSILON
) -> tuple[float, Float64]:
    """Return the mean of sparsity plus weighted reconstruction error, and its gradient with respect to the components.

    ``covariance`` is X'X / n_samples. With E = W'W - I, the mean error is the trace of E X'X E / n_samples, which needs
    no pass over the samples. The products with the samples, for the sparsity, are computed in the type of the samples.
    """

    def derivatives(products: Array) -> Float64:
        return np.array(soft_absolute_derivatives(products, X.dtype.type(epsilon)))

    sparsity, gradient = sums_over_blocks(X, components.astype(X.dtype), derivatives)
    error = components.T @ components
    error.flat[:: len(error) + 1] -= 1
    weighted = covariance @ error
    reconstruction = float(np.vdot(error, weighted))
    gradient /= len(X)
    gradient += 2 * penalty * product(components, weighted + weighted.T)
    return float(sparsity) / len(X) + penalty * reconstruction, gradient


def objective_of_directions(
    rows: Float64, X: Array, covariance: Float64, penalty: float, epsilon: float = _EPSILON
) -> tuple[float, Float64]:
    """Return the objective for components in the directions of ``rows``, and its gradient with respect to the rows."""
    norms = _norms(rows)
    components = rows / norms
    value, gradient = objective(components, X, covariance, penalty, epsilon)
    along = np.einsum("ij,ij->i", gradient, components)[:, None]  # changing a row's length has no effect
    return value, (gradient - along * components) / norms


def _norms(rows: Float64) -> Float64:
    norms: Float64 = np.linalg.norm(rows, axis=1, keepdims=True)
    return norms
