"""A sparse restricted Boltzmann machine with Gaussian visible units.

=====  =====================  ====================================================================================
here   name                   what it is
=====  =====================  ====================================================================================
v      ``inputs``             (n, n_features + 1), a centred and scaled mini-batch; the last column is 1, for b
W, b   ``weights``            (n_components, n_features + 1), a hidden unit per row; the last column is b
c      ``visible_intercept``  (n_features,)
=====  =====================  ====================================================================================

Its energy is E(v, h) = 1/2 ||v - c||² - b·h - h·W v. Given v, the hidden units are independent and active with
probability f(W v + b). Given h, the visible units are normal with mean c + W' h and variance 1.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import logit

from ..algorithm.activations import LOGISTIC
from ..algorithm.layer import activate, net_inputs, standardized_batches
from ..algorithm.settings import enough_epochs
from ..data.samples import Samples
from ..kernels.steps import momentum_step
from ..utils.fields import Floats
from ..utils.sklearn import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, SHARE, Interval
from ..utils.threads import by_rows, product
from ..utils.types import Array
from .base import UnitLearner, unit_attributes


class SparseRBM(UnitLearner):
    """A sparse restricted Boltzmann machine: each hidden unit has a fixed mean activation.

    It models centred and scaled samples as normal with variance 1 around the sum of the components of the active hidden
    units. Contrastive divergence with one step increases the likelihood: it draws the states of the hidden units,
    reconstructs the sample from them, and moves each component towards the sample and away from its reconstruction, in
    proportion to the activation of its unit for each. In addition, the biases pull the mean activation of each unit
    towards ``sparseness`` (Lee, Ekanadham and Ng 2008).

    After scaling, the mean variance of the features is 1 as well. So directions in which the samples vary less than the
    average feature are treated as noise. If a few directions have most of the variance, whiten the data.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of hidden units, at most the number of samples. None uses 100, or the number of samples if less.
    weight_decay : float, default=0.0002
        How fast the weights shrink, in units of the gradient.
    sparseness : float, default=0.02
        The desired mean activation of every hidden unit, between 0 and 1.
    sparsity_penalty : float, default=5.0
        The weight of deviations from ``sparseness`` in the gradient of a unit's bias.
    momentum : float, default=0.9
        The fraction of a step that the next step repeats.
    learning_rate : float, default=1.0
        The size of the first step per unit of gradient. The rate falls to 0 along a cosine. The biases of the hidden
        units use it directly, but at most 4 / ``sparsity_penalty``. All other parameters use it divided by n_features +
        ``sparseness`` n_components. This is the squared norm of a scaled sample plus the number of active units, and
        the effect of a step on net inputs and reconstructions grows with it. So the same rate suits all sizes.
    max_iter : int or None, default=None
        The number of epochs. None uses 30, or more if 30 epochs have fewer than 3000 batches.
    batch_size : int, default=200
        The maximum number of samples in a mini-batch.
    random_state : int, RandomState instance or None, default=None
        Determines the first weights, the order of the samples and the states of the hidden units.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components, for centred and scaled samples.
    intercept_ : ndarray of shape (n_components,)
        The biases of the hidden units.
    visible_intercept_ : ndarray of shape (n_features,)
        The expected sample, centred and scaled, when no hidden unit is active.
    mean_ : ndarray of shape (n_features,)
        The mean of the training samples. It is subtracted from each sample.
    scale_ : float
        The root of the mean variance of the features. Centred samples are divided by it.
    loss_curve_ : list of float
        The squared error of the reconstruction per centred and scaled sample, averaged over each epoch. Training does
        not minimise it, but it shows whether training goes well.
    n_iter_ : int
        The number of epochs.

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
    in_parts = True
    visible_intercept_: Array
    saved: ClassVar[dict[str, Any]] = UnitLearner.saved | {"visible_intercept_": Floats("n_features")}
    _parameter_constraints: ClassVar[dict[str, Any]] = UnitLearner._parameter_constraints | {
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
        (n_samples, n_features), dtype = samples.shape, samples.dtype
        n_components, n_batches = self.checked_n_components(n_samples), samples.n_batches(self.batch_size)
        center, scale = samples.moments.center_and_scale()
        max_iter = int(self.max_iter or enough_epochs(n_batches, 30, 3000))
        reach = n_features + self.sparseness * n_components
        weights, visible_intercept = np.empty((n_components, n_features + 1), dtype), np.zeros(n_features, dtype)
        weights[:, :-1] = random.normal(scale=reach**-0.5, size=(n_components, n_features))
        # With biases of 0, half of all units would start active, and many units would make the reconstruction far too
        # large.
        weights[:, -1] = logit(self.sparseness)
        velocity, visible_velocity = np.zeros_like(weights), np.zeros_like(visible_intercept)
        rates, decays = np.full(n_features + 1, self.learning_rate / reach), np.full(n_features + 1, self.weight_decay)
        # The pull towards the mean activation changes by at most a quarter of its weight per unit of bias.
        rates[-1], decays[-1] = min(self.learning_rate, 4 / max(self.sparsity_penalty, 1e-300)), 0
        # RandomState cannot draw 32-bit floats, and drawing 64-bit ones takes as long as a product.
        own = [] if samples.n_parts == 1 else [samples.part]  # each process draws numbers of its own
        uniform = np.random.Generator(np.random.SFC64([*random.randint(2**31, size=4), *own]))
        n_steps, n_done, loss_curve = max_iter * n_batches, 0, []
        for _ in self.epochs(max_iter):
            error = np.zeros(1)
            for inputs in standardized_batches(samples, self.batch_size, random):
                draws = uniform.random((len(inputs), n_components), dtype=dtype)
                batch = self._statistics(inputs, weights, visible_intercept, draws)
                samples.average(len(inputs), batch.weights, batch.visible, batch.activity)
                # Only the biases, as in the paper: they set how often a unit is active, and the weights set for what.
                # Without the slope of the activation, which is almost 0 for the units that are furthest off.
                batch.weights[:, -1] += self.sparsity_penalty * (self.sparseness - batch.activity)
                fall = 0.5 * (1 + math.cos(math.pi * n_done / n_steps))
                settings = (fall * rates).astype(dtype), decays.astype(dtype), dtype.type(self.momentum)
                by_rows(momentum_step, (weights, batch.weights, velocity), *settings)
                # Treated as the weights of one more hidden unit that is always active.
                visible_velocity *= self.momentum
                visible_velocity += float(fall * rates[0]) * batch.visible
                visible_intercept += visible_velocity
                error += batch.error * len(inputs)
                n_done += 1
            samples.add_up(error)
            loss_curve.append(float(error[0]) / n_samples)
        return unit_attributes(weights, center, scale) | {
            "visible_intercept_": visible_intercept,
            "loss_curve_": loss_curve,
            "n_iter_": len(loss_curve),
        }

    def _statistics(self, inputs: Array, weights: Array, visible_intercept: Array, draws: Array) -> Statistics:
        """Return the statistics of a batch, or raise an error if the weights have diverged."""
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # reported below
                batch = contrastive_divergence(inputs, weights, visible_intercept, draws)
            if math.isfinite(batch.error):
                return batch
        except ValueError:  # outputs are not finite
            pass
        raise ValueError(
            f"the weights diverged with learning_rate={self.learning_rate} and momentum={self.momentum}: lower one of "
            f"them"
        )


class Statistics(NamedTuple):
    """The statistics of a batch; v' is the reconstruction, and h' the probabilities given v'."""

    weights: Array  # the mean of h v - h' v'; the last column is the mean of h - h'
    visible: Array  # the mean of v - v'
    activity: Array  # the mean of h
    error: float  # the mean of ||v - v'||²


def contrastive_divergence(inputs: Array, weights: Array, visible_intercept: Array, draws: Array) -> Statistics:
    """Return the statistics of a batch after one step (CD-1).

    A hidden unit is active where its probability exceeds its number in ``draws``, which is uniform on [0, 1) and gets
    overwritten. States are drawn once, for the reconstruction. Elsewhere, probabilities replace them, because they have
    less noise.
    """
    n_rows, (n_components, n_inputs) = len(inputs), weights.shape
    # Samples, and below them their reconstructions: one product computes the difference of both.
    visible = np.empty((2 * n_rows, n_inputs), weights.dtype)
    hidden = np.empty((2 * n_rows, n_components), weights.dtype)
    visible[:n_rows] = inputs
    activate(LOGISTIC, net_inputs(inputs, weights, hidden[:n_rows]))
    states = np.less(draws, hidden[:n_rows], out=draws)
    rebuilt = visible[n_rows:]
    product(states, weights, rebuilt)  # includes a column for the biases, which is not used
    rebuilt[:, :-1] += visible_intercept
    rebuilt[:, -1] = 1
    activate(LOGISTIC, net_inputs(rebuilt, weights, hidden[n_rows:]))

    differences = inputs[:, :-1] - rebuilt[:, :-1]
    rebuilt *= -1
    visible /= n_rows
    return Statistics(
        weights=product(hidden.T, visible),
        visible=differences.mean(axis=0),
        activity=np.full(n_rows, 1 / n_rows, hidden.dtype) @ hidden[:n_rows],
        error=float(np.vdot(differences, differences)) / n_rows,
    )
