"""A sparse restricted Boltzmann machine with Gaussian visible units.

=====  =====================  ====================================================================================
here   name                   what it is
=====  =====================  ====================================================================================
v      ``inputs``             (n, n_features + 1), a centred and scaled mini-batch; the last column is 1, for b
W, b   ``weights``            (n_components, n_features + 1), a hidden unit per row; the last column is b
c      ``visible_intercept``  (n_features,)
=====  =====================  ====================================================================================

Its energy is E(v, h) = 1/2 ||v - c||² - b·h - h·W v: given v, the hidden units are independent and active with
probability f(W v + b); given h, the visible ones are normal around c + W' h, with variance 1.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import logit
from sklearn.utils._param_validation import Interval

from ..algorithm.activations import LOGISTIC
from ..algorithm.defaults import enough_epochs
from ..algorithm.layer import activate, net_inputs
from ..data.samples import Samples
from ..kernels.steps import momentum_step
from ..utils.constraints import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, SHARE
from ..utils.fields import Floats
from ..utils.threads import by_rows
from ..utils.types import Array
from ._layer_learner import LayerLearner, standardized_batches

_FEWEST_EPOCHS, _FEWEST_STEPS = 30, 3000


class SparseRBM(LayerLearner):
    """A restricted Boltzmann machine whose hidden units are each active at a set rate.

    The samples, centred and scaled, are taken for normal with variance 1 around a sum of the components of the active
    hidden units. The likelihood is raised by contrastive divergence with one step: the hidden units' states are drawn,
    the sample rebuilt from them, and the components move towards the sample and away from its reconstruction, as far as
    their units are active for each. Besides, the biases pull every unit's mean activation to ``sparseness`` (Lee,
    Ekanadham and Ng 2008).

    That variance of 1 is also the mean variance of the features, once scaled. So a direction in which the samples vary
    less than the average feature does is taken for noise: whiten data in which a few directions have it all.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of hidden units, at most the number of samples; None takes 100, or the number of samples if that is
        less.
    weight_decay : float, default=0.0002
        How fast the weights shrink, in the gradient's units.
    sparseness : float, default=0.02
        The mean activation that is wanted of every hidden unit, between 0 and 1.
    sparsity_penalty : float, default=5.0
        The weight of the difference from it in the gradient of a unit's bias.
    momentum : float, default=0.9
        The share of a step that the next one repeats.
    learning_rate : float, default=1.0
        How far the first step goes per unit of gradient; it falls to 0 along a cosine. Taken as it is for the biases
        of the hidden units, but at most 4 / ``sparsity_penalty``; divided by n_features + ``sparseness`` n_components
        for all else. That is the squared norm of a scaled sample plus the number of active units, and with it grows
        what a step of all weights does to net inputs and reconstructions: so the same rate suits all sizes.
    max_iter : int or None, default=None
        The number of epochs; None takes 30, or more if that would be fewer than 3000 batches.
    batch_size : int, default=200
        The most samples of a mini-batch.
    random_state : int, RandomState instance or None, default=None
        Decides the first weights, the order of the samples and the states of the hidden units.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components, for centred and scaled samples.
    intercept_ : ndarray of shape (n_components,)
        The biases of the hidden units.
    visible_intercept_ : ndarray of shape (n_features,)
        The expected sample, centred and scaled, when no hidden unit is active.
    mean_ : ndarray of shape (n_features,)
        What is subtracted from a sample.
    scale_ : float
        By what it is then divided: the root of the mean variance of the features.
    loss_curve_ : list of float
        The squared error of the reconstructions, per sample (centred and scaled), on average over each epoch. It is
        not what is minimised, but tells whether training goes well.
    n_iter_ : int
        The number of epochs.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if ``fit`` was given any.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls.learners.sparse_rbm import SparseRBM
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = SparseRBM(20, sparseness=0.1, max_iter=50, random_state=0)
    >>> model.fit_transform(X).mean().round(1)
    np.float64(0.1)
    """

    meta_parameters = ("weight_decay", "sparseness", "sparsity_penalty", "momentum")
    visible_intercept_: Array
    saved: ClassVar[dict[str, Any]] = LayerLearner.saved | {"visible_intercept_": Floats("n_features")}
    _parameter_constraints: ClassVar[dict[str, Any]] = LayerLearner._parameter_constraints | {
        "weight_decay": [NOT_NEGATIVE],
        "sparseness": [SHARE],
        "sparsity_penalty": [NOT_NEGATIVE],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "learning_rate": [POSITIVE],
        "max_iter": [AT_LEAST_ONE, None],
        "batch_size": [AT_LEAST_ONE],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        weight_decay: float = 2e-4,
        sparseness: float = 0.02,
        sparsity_penalty: float = 5.0,
        momentum: float = 0.9,
        learning_rate: float = 1.0,
        max_iter: int | None = None,
        batch_size: int = 200,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.weight_decay = weight_decay
        self.sparseness = sparseness
        self.sparsity_penalty = sparsity_penalty
        self.momentum = momentum
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.random_state = random_state

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        """Learn, and return the attributes of the fitted estimator by name."""
        n_samples, n_features = samples.shape
        n_components, n_batches = self.checked_n_components(n_samples), samples.n_batches(self.batch_size)
        center, scale = samples.moments.center_and_scale()
        max_iter = enough_epochs(self.max_iter, n_batches, _FEWEST_EPOCHS, _FEWEST_STEPS)
        machine = _Machine(self, n_components, n_features, -(-n_samples // n_batches), random, samples.dtype)
        n_steps, n_done, loss_curve = max_iter * n_batches, 0, []
        for _ in self.epochs(max_iter):
            error = 0.0
            for inputs in standardized_batches(samples, self.batch_size, random):
                fall = 0.5 * (1 + math.cos(math.pi * n_done / n_steps))
                error += machine.step(inputs, fall) * len(inputs)
                n_done += 1
            loss_curve.append(error / n_samples)
        return {
            "components_": np.ascontiguousarray(machine.weights[:, :-1]),
            "intercept_": machine.weights[:, -1].copy(),
            "visible_intercept_": machine.visible_intercept,
            "mean_": center,
            "scale_": scale,
            "loss_curve_": loss_curve,
            "n_iter_": len(loss_curve),
        }


class _Machine:
    """The state of a training, and its step."""

    def __init__(
        self,
        settings: SparseRBM,
        n_components: int,
        n_features: int,
        n_rows: int,
        random: np.random.RandomState,
        dtype: np.dtype[np.floating],
    ) -> None:
        self.settings = settings
        n_active = settings.sparseness * n_components
        reach = n_features + n_active
        self.weights = np.empty((n_components, n_features + 1), dtype)
        self.weights[:, :-1] = random.normal(scale=reach**-0.5, size=(n_components, n_features))
        # From 0, half of all units would be active for the first samples: the more units, the further beside them.
        self.weights[:, -1] = logit(settings.sparseness)
        self.visible_intercept = np.zeros(n_features, dtype)
        self.velocity, self.visible_velocity = np.zeros_like(self.weights), np.zeros_like(self.visible_intercept)
        self.rates = np.full(n_features + 1, settings.learning_rate / reach)
        self.decays = np.full(n_features + 1, settings.weight_decay, dtype)
        # The pull to the mean activation changes by a quarter of its weight per unit of bias, where it changes most.
        self.rates[-1] = min(settings.learning_rate, 4 / max(settings.sparsity_penalty, 1e-300))
        self.decays[-1] = 0
        self.room = Room(n_rows, self.weights)
        # A RandomState has no numbers of 32 bits, and to draw those of 64 takes as long as a product.
        self._uniform = np.random.Generator(np.random.SFC64(random.randint(2**31, size=4)))

    def step(self, inputs: Array, fall: float) -> float:
        """Learn from a batch, at that share of the rates; returns the error of its reconstruction."""
        settings, weights = self.settings, self.weights
        draws = self.room.draws[: len(inputs)]
        self._uniform.random(out=draws, dtype=draws.dtype)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # told of below
                batch = contrastive_divergence(inputs, weights, self.visible_intercept, draws, self.room)
            diverged = not math.isfinite(batch.error)
        except ValueError:  # outputs that are not finite
            diverged = True
        if diverged:
            raise ValueError(
                f"the weights grew beyond all bounds with learning_rate={settings.learning_rate} and "
                f"momentum={settings.momentum}: lower one of them"
            )
        # Through the biases alone, as in the paper: they say how often a unit is active, the weights for what. And
        # without the slope of the activation, which is all but 0 for the units that are furthest off.
        batch.weights[:, -1] += settings.sparsity_penalty * (settings.sparseness - batch.activity)
        rates, momentum = (fall * self.rates).astype(weights.dtype), weights.dtype.type(settings.momentum)
        by_rows(momentum_step, (weights, batch.weights, self.velocity), rates, self.decays, momentum)
        # As if they were the weights of one more hidden unit, which is always active.
        self.visible_velocity *= settings.momentum
        self.visible_velocity += float(fall * self.rates[0]) * batch.visible
        self.visible_intercept += self.visible_velocity
        return batch.error


class Room:
    """The arrays that :func:`contrastive_divergence` writes to, for batches of at most ``n_rows``."""

    def __init__(self, n_rows: int, weights: Array) -> None:
        n_components, n_inputs = weights.shape
        self.draws = np.empty((n_rows, n_components), weights.dtype)
        # Of the samples and, below them, of their reconstructions: one product gives the difference of both.
        self.visible = np.empty((2 * n_rows, n_inputs), weights.dtype)
        self.hidden = np.empty((2 * n_rows, n_components), weights.dtype)
        self.gradient = np.empty_like(weights)


class Statistics(NamedTuple):
    """What a batch says; v' and h' are the reconstruction and the probabilities given that.

    Attributes
    ----------
    weights : ndarray of shape (n_components, n_features + 1)
        The mean of h v - h' v'; in the last column that of h - h'.
    visible : ndarray of shape (n_features,)
        The mean of v - v'.
    activity : ndarray of shape (n_components,)
        The mean of h.
    error : float
        The mean of ||v - v'||².
    """

    weights: Array
    visible: Array
    activity: Array
    error: float


def contrastive_divergence(
    inputs: Array, weights: Array, visible_intercept: Array, draws: Array, room: Room
) -> Statistics:
    """The statistics of a batch by one step (CD-1); ``weights`` of the result is valid until the next.

    A hidden unit is active where its probability exceeds the number in ``draws``, uniform on [0, 1), which is
    overwritten. States are drawn once, for the reconstruction; elsewhere, probabilities stand for them, with less
    noise.
    """
    n_rows = len(inputs)
    visible, hidden = room.visible[: 2 * n_rows], room.hidden[: 2 * n_rows]
    visible[:n_rows] = inputs
    activate(LOGISTIC, net_inputs(inputs, weights, hidden[:n_rows]))
    states = np.less(draws, hidden[:n_rows], out=draws)
    rebuilt = visible[n_rows:]
    np.matmul(states, weights, out=rebuilt)  # with a column for the biases, which goes unused
    rebuilt[:, :-1] += visible_intercept
    rebuilt[:, -1] = 1
    activate(LOGISTIC, net_inputs(rebuilt, weights, hidden[n_rows:]))

    differences = inputs[:, :-1] - rebuilt[:, :-1]
    rebuilt *= -1
    visible /= n_rows
    return Statistics(
        weights=np.matmul(hidden.T, visible, out=room.gradient),
        visible=differences.mean(axis=0),
        activity=np.full(n_rows, 1 / n_rows, hidden.dtype) @ hidden[:n_rows],
        error=float(np.vdot(differences, differences)) / n_rows,
    )
