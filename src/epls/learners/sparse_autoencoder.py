"""A sparse auto-encoder: units that can reconstruct the samples, each with a fixed mean activation.

=====  ==============  ==============================================================================================
here   name            what it is
=====  ==============  ==============================================================================================
X      ``inputs``      (n, n_features + 1), a centred and scaled mini-batch; the last column is 1, for the biases
W1     ``encoder``     (n_components, n_features + 1), a unit per row; the last column is the biases
H      ``outputs``     (n, n_components), f(X W1')
W2     ``decoder``     (n_components + 1, n_features), what a unit adds to a sample; the last row is what all start from
=====  ==============  ==============================================================================================
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import logit, rel_entr

from ..algorithm.activations import LOGISTIC
from ..algorithm.layer import activate, net_inputs, standardized_batches
from ..algorithm.optimizers import Adam
from ..algorithm.settings import enough_epochs
from ..data.samples import Samples
from ..kernels.activation import through_logistic
from ..utils.fields import Floats
from ..utils.sklearn import AT_LEAST_ONE, NOT_NEGATIVE, SHARE
from ..utils.threads import by_rows, product
from ..utils.types import Array
from .base import UnitLearner, unit_attributes

# A batch must be large enough to estimate the mean activation: at the published 0.035, 35 active samples of 1,000.
_BATCH_SIZE = 1000
_LEAST_MEAN = 1e-12  # below it, and as near to 1, the divergence of a mean activation is that at this distance


class SparseAutoencoder(UnitLearner):
    """A sparse auto-encoder: logistic units with a fixed mean activation, and a linear decoder.

    Minimises, over encoder W1, b1 and decoder W2, b2 (not tied),

        1/2 mean_i ||x̂_i - x_i||² + weight_decay/2 (||W1||² + ||W2||²) + sparsity_penalty sum_j KL(sparseness || m_j)

    with h = f(W1 x + b1), x̂ = W2' h + b2, f the logistic function, m_j the mean of unit j's outputs h_j over the
    samples, and KL the divergence between Bernoulli distributions with these two means (Ranzato et al. 2007; Ng 2011).
    The defaults come from the UFLDL tutorial, for whitened patches of STL-10.

    It is trained by Adam on mini-batches, with a rate that falls to 0 along a cosine. m_j is the mean over the batch.
    If batches are too small (fewer than about 10 / ``sparseness`` samples), the penalty mostly punishes chance.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of units, at most the number of samples. None uses 100, or the number of samples if that is less.
    weight_decay : float, default=0.003
        The weight of the penalty on squared weights.
    sparseness : float, default=0.035
        The desired mean activation of every unit, between 0 and 1.
    sparsity_penalty : float, default=5.0
        The weight of the penalty on deviations from ``sparseness``.
    max_iter : int or None, default=None
        The number of epochs. None uses 30, or more if 30 epochs have fewer than 3000 batches.
    batch_size : int or None, default=None
        The maximum number of samples in a mini-batch. None uses 1000.
    random_state : int, RandomState instance or None, default=None
        Determines the first weights and the order of the samples.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The weights of the encoder, for centred and scaled samples.
    intercept_ : ndarray of shape (n_components,)
        The biases of the encoder.
    decoder_ : ndarray of shape (n_components, n_features)
        What each unit adds to the reconstruction, centred and scaled.
    decoder_intercept_ : ndarray of shape (n_features,)
        The reconstruction when no unit is active.
    mean_ : ndarray of shape (n_features,)
        The mean of the training samples. It is subtracted from each sample.
    scale_ : float
        The root of the mean variance of the features. Centred samples are divided by it.
    loss_curve_ : list of float
        The mean objective over the batches of each epoch.
    n_iter_ : int
        The number of epochs.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls.learners.sparse_autoencoder import SparseAutoencoder
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = SparseAutoencoder(20, sparseness=0.1, max_iter=200, random_state=0)
    >>> model.fit_transform(X).mean().round(1)
    np.float64(0.1)
    """

    meta_parameters = ("weight_decay", "sparseness", "sparsity_penalty")
    in_parts = True
    decoder_: Array
    decoder_intercept_: Array
    saved: ClassVar[dict[str, Any]] = UnitLearner.saved | {
        "decoder_": Floats("n_components", "n_features"),
        "decoder_intercept_": Floats("n_features"),
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = UnitLearner._parameter_constraints | {
        "weight_decay": [NOT_NEGATIVE],
        "sparseness": [SHARE],
        "sparsity_penalty": [NOT_NEGATIVE],
        "max_iter": [AT_LEAST_ONE, None],
        "batch_size": [AT_LEAST_ONE, None],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        weight_decay: float = 3e-3,
        sparseness: float = 0.035,
        sparsity_penalty: float = 5.0,
        max_iter: int | None = None,
        batch_size: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.weight_decay = weight_decay
        self.sparseness = sparseness
        self.sparsity_penalty = sparsity_penalty
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.random_state = random_state

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        n_samples, n_features = samples.shape
        n_components, batch_size = self.checked_n_components(n_samples), self.batch_size or _BATCH_SIZE
        center, scale = samples.moments.center_and_scale()
        encoder, decoder = first_weights(n_components, n_features, self.sparseness, random, samples.dtype)
        n_batches = samples.n_batches(batch_size)
        max_iter = int(self.max_iter or enough_epochs(n_batches, 30, 3000))
        optimizers = Adam(), Adam()
        for optimizer, weights in zip(optimizers, (encoder, decoder), strict=True):
            optimizer.start(weights, max_iter * n_batches)
        penalties = {
            "weight_decay": self.weight_decay,
            "sparseness": self.sparseness,
            "sparsity_penalty": self.sparsity_penalty,
        }

        loss_curve = []
        for _ in self.epochs(max_iter):
            loss = np.zeros(1)
            for inputs in standardized_batches(samples, batch_size, random):
                value, encoder_gradient, decoder_gradient = objective(inputs, encoder, decoder, **penalties)
                of_batch = np.array([value])
                samples.average(len(inputs), encoder_gradient, decoder_gradient, of_batch)
                loss += of_batch
                optimizers[0].step(encoder, encoder_gradient)
                optimizers[1].step(decoder, decoder_gradient)
            loss_curve.append(float(loss[0]) / n_batches)
        return unit_attributes(encoder, center, scale) | {
            "decoder_": decoder[:-1].copy(),
            "decoder_intercept_": decoder[-1].copy(),
            "loss_curve_": loss_curve,
            "n_iter_": len(loss_curve),
        }


def first_weights(
    n_components: int, n_features: int, sparseness: float, random: np.random.RandomState, dtype: np.dtype[np.floating]
) -> tuple[Array, Array]:
    """Return a random encoder and decoder with about the range of Glorot and Bengio (2010) for two layers.

    The biases start where the units have the desired mean activation. With biases of 0, all units would start half
    active, and their divergence would drown the reconstruction in the first epochs.
    """
    limit = math.sqrt(6 / (n_components + n_features + 1))
    encoder = np.empty((n_components, n_features + 1), dtype)
    encoder[:, :-1] = random.uniform(-limit, limit, (n_components, n_features))
    encoder[:, -1] = logit(sparseness)
    decoder = np.zeros((n_components + 1, n_features), dtype)
    decoder[:-1] = random.uniform(-limit, limit, (n_components, n_features))
    return encoder, decoder


def objective(
    inputs: Array,
    encoder: Array,
    decoder: Array,
    *,
    weight_decay: float,
    sparseness: float,
    sparsity_penalty: float,
) -> tuple[float, Array, Array]:
    """Return the objective of a batch, and its gradients by encoder and decoder: five matrix products, little else."""
    n_rows, dtype = len(inputs), inputs.dtype
    weight_decay = float(weight_decay)  # a NumPy scalar would turn the weights into float64
    outputs = np.empty((n_rows, len(encoder)), dtype)
    activate(LOGISTIC, net_inputs(inputs, encoder, outputs))
    means = (np.full(n_rows, 1 / n_rows, dtype) @ outputs).astype(np.float64)
    means = np.clip(means, _LEAST_MEAN, 1 - _LEAST_MEAN)

    residuals = product(outputs, decoder[:-1])
    residuals += decoder[-1]
    residuals -= inputs[:, :-1]
    loss = 0.5 * float(np.vdot(residuals, residuals)) / n_rows
    loss += sparsity_penalty * float(np.sum(rel_entr(sparseness, means) + rel_entr(1 - sparseness, 1 - means)))
    for weights in (encoder[:, :-1], decoder[:-1]):
        loss += 0.5 * weight_decay * float(np.einsum("ij,ij->", weights, weights))

    residuals /= n_rows
    decoder_gradient = np.empty_like(decoder)
    product(outputs.T, residuals, decoder_gradient[:-1])
    np.sum(residuals, axis=0, out=decoder_gradient[-1])
    slopes = product(residuals, decoder[:-1].T)
    by_mean = sparsity_penalty * ((1 - sparseness) / (1 - means) - sparseness / means)
    by_rows(through_logistic, (slopes, outputs), (by_mean / n_rows).astype(dtype))
    encoder_gradient = product(slopes.T, inputs)
    encoder_gradient[:, :-1] += weight_decay * encoder[:, :-1]
    decoder_gradient[:-1] += weight_decay * decoder[:-1]
    return loss, encoder_gradient, decoder_gradient
