"""Components for sparse codes, with a fast prediction of the codes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..algorithm.optimizers import Adam
from ..data.samples import Samples
from ..data.shuffling import batch_cuts
from ..solvers.dictionary import SAMPLES_PER_COMPONENT, CodedBatch, check_scale, first_components, learn_online
from ..solvers.lasso import LassoSolver
from ..utils.fields import ROUNDS, Floats
from ..utils.sklearn import NOT_NEGATIVE, POSITIVE
from ..utils.threads import map_blocks, product, row_blocks
from ..utils.types import Array, Indices
from .base import Learner

_TOL = 1e-2  # of the codes during learning
_PREDICTOR_BATCH = 256  # the prediction needs many small steps; the components need few large ones
_FIRST_SAMPLES = 1000  # enough to estimate how large products with a component are


class PSD(Learner):
    """Predictive sparse decomposition: sparse codes, and a function that predicts them without solving a problem.

    Minimises sum 1/2 \\|x - D's\\|² + alpha \\|s\\|₁ + prediction_penalty / 2 \\|s - f(x)\\|² over components D of unit
    norm, codes s and the prediction f(x) = gain tanh(W x + b) (Kavukcuoglu, Ranzato, LeCun 2008). ``transform`` returns
    f(x).

    Parameters
    ----------
    n_components : int or None, default=None
        The number of components, at most the number of samples. None uses 100, or the number of samples if less.
    alpha : float, default=1.0
        The sparsity penalty, to be tuned. The default suits samples whose features have unit variance.
    prediction_penalty : float, default=1.0
        The penalty on the distance between codes and their prediction, to be tuned.
    max_iter : int, default=10
        The number of rounds over the samples.
    random_state : int, RandomState instance or None, default=None
        Determines the first components, which are random samples, and the order of the samples.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components D.
    encoder_ : ndarray of shape (n_components, n_features + 1)
        W, and b in the last column.
    gain_ : ndarray of shape (n_components,)
        The gain.
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
    >>> PSD(12, random_state=0).fit_transform(X).shape
    (500, 12)
    """

    meta_parameters = ("alpha", "prediction_penalty")
    saved: ClassVar[dict[str, Any]] = {
        **Learner.saved,
        **ROUNDS,
        "encoder_": Floats("n_components", "n_features + 1"),
        "gain_": Floats("n_components"),
    }
    encoder_: Array
    gain_: Array
    _parameter_constraints: ClassVar[dict[str, Any]] = Learner._parameter_constraints | {
        "alpha": [POSITIVE],
        "prediction_penalty": [NOT_NEGATIVE],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float = 1.0,
        prediction_penalty: float = 1.0,
        max_iter: int = 10,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.prediction_penalty = prediction_penalty
        self.max_iter = max_iter
        self.random_state = random_state

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        X = samples.array()
        check_scale(X)
        components = first_components(X, self.checked_n_components(len(X)), random)
        predictor = first_predictor(X[:_FIRST_SAMPLES], components)
        n_together = SAMPLES_PER_COMPONENT * len(components)
        cuts = batch_cuts(len(X), n_together, n_even=-(-len(X) // n_together))
        n_steps = int(np.sum(-(-np.diff(cuts) // _PREDICTOR_BATCH)))
        optimizer = Adam()
        optimizer.start(predictor, n_steps * self.max_iter)

        def coded(batch: Array) -> CodedBatch:
            predicted = _bent(batch, predictor) * predictor[:, -1]
            codes = self._sparse_codes(batch, components, predicted)
            loss = self._objective(batch, components, codes, predicted)
            for some in row_blocks(len(batch), _PREDICTOR_BATCH):
                bent = _bent(batch[some], predictor)
                optimizer.step(predictor, prediction_gradient(batch[some], bent, predictor[:, -1], codes[some]))
            return CodedBatch(loss, np.count_nonzero(codes, axis=0), codes.T @ codes, product(codes.T, batch))

        def redrawn(which: Indices) -> None:
            predictor[which] = first_predictor(X[:_FIRST_SAMPLES], components[which])
            optimizer.mean[which] = 0
            optimizer.square[which] = 0

        found = learn_online(X, components, self.epochs(self.max_iter), random, coded, redrawn)
        return found | {"encoder_": np.ascontiguousarray(predictor[:, :-1]), "gain_": predictor[:, -1].copy()}

    def _sparse_codes(self, samples: Array, components: Array, predicted: Array) -> Array:
        """Return the codes that minimise the objective: lasso problems, once the two quadratic terms are combined."""
        weight = self.prediction_penalty
        wide = components.astype(np.float64)
        gram = (wide @ wide.T + weight * np.eye(len(components))) / (1 + weight)
        products = product(samples, components.T)
        products += weight * predicted
        products /= 1 + weight
        solver = LassoSolver(gram, self.alpha / (1 + weight), tol=_TOL, dtype=samples.dtype)
        codes = np.empty_like(products)

        for _ in map_blocks(lambda: lambda rows: solver.solve(products[rows], codes[rows]), len(samples)):
            pass
        return codes

    def _objective(self, samples: Array, components: Array, codes: Array, predicted: Array) -> float:
        """Return the sum of the objective over samples."""
        residual, miss = samples - product(codes, components), codes - predicted
        squares = np.vdot(residual, residual) + self.prediction_penalty * np.vdot(miss, miss)
        return 0.5 * float(squares) + self.alpha * float(np.abs(codes).sum(dtype=np.float64))

    def encode(self, X: Array) -> Array:
        weights = self.encoder_.astype(X.dtype, copy=False)
        codes = X @ weights[:, :-1].T
        codes += weights[:, -1]
        np.tanh(codes, out=codes)
        codes *= self.gain_.astype(X.dtype, copy=False)
        return codes


def first_predictor(X: Array, components: Array) -> Array:
    """Return W, b and gain in one array, so that one optimiser can move them.

    The components are the first guess for W, scaled so that tanh is slightly nonlinear for typical products.
    """
    usual = np.sqrt(np.square(X @ components.T).mean(axis=0))[:, None]
    usual[usual == 0] = 1
    return np.hstack([components / usual, np.zeros_like(usual), usual]).astype(components.dtype)


def _bent(samples: Array, predictor: Array) -> Array:
    bent: Array = np.tanh(product(samples, predictor[:, :-2].T) + predictor[:, -2])
    return bent


def prediction_gradient(samples: Array, bent: Array, gain: Array, codes: Array) -> Array:
    """The gradient by W, b and gain, in one array, of mean 1/2 \\|s - gain bent\\|², bent = tanh(W x + b)."""
    miss = bent * gain - codes
    slopes = miss * gain * (1 - bent * bent)
    by_bias, by_gain = slopes.sum(axis=0)[:, None], (miss * bent).sum(axis=0)[:, None]
    gradient = np.hstack([product(slopes.T, samples), by_bias, by_gain]) / len(samples)
    return np.ascontiguousarray(gradient, dtype=samples.dtype)
