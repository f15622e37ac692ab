"""Adam and vSGD against their definitions; vSGD also on noisy quadratics and on logistic regression."""

import numpy as np
import pytest
from scipy.special import expit

from epls.algorithm.optimizers import OPTIMIZERS, VSGD, Adam, Factors


def test_adam_follows_its_definition():
    random = np.random.RandomState(0)
    weights = random.normal(size=(3, 4))
    expected, m, v = weights.copy(), np.zeros((3, 4)), np.zeros((3, 4))
    optimizer = Adam()
    optimizer.start(weights, n_steps=7)
    for t in range(1, 8):
        gradient = random.normal(size=(3, 4))
        optimizer.step(weights, gradient)
        rate = 1 / 6 * (1 + np.cos(np.pi * (t - 1) / 7)) / np.sqrt(4)
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        expected -= rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(weights, expected, rtol=1e-10)


def test_adam_leaves_a_column_without_gradient_alone():
    weights, gradient = np.ones((2, 3)), np.ones((2, 3))
    gradient[:, 2] = 0
    optimizer = Adam()
    optimizer.start(weights, n_steps=None)
    for _ in range(5):
        optimizer.step(weights, gradient)
    assert (weights[:, 2] == 1).all()
    assert (weights[:, :2] < 1).all()


def test_adam_in_a_stream_lowers_its_rate_after_a_while():
    optimizer = Adam()
    optimizer.start(np.ones((1, 1)), n_steps=None)
    rates = []
    for n_done in (0, 999, 4000, 100_000):
        optimizer.n_done = n_done
        rates.append(optimizer.rate())
    assert rates[0] == rates[1] > rates[2] > rates[3] > 0


def vsgd_of_the_article(blocks, batches, weights, curvature_along):
    """The weights after each batch, one block of parameters after the other, one sample after the other.

    A batch has the gradients of its samples and their second derivatives, (n, n_parameters) each. The curvature of a
    block is at least ``curvature_along(t, block, mean gradient)``.
    """
    weights, found = weights.copy(), []
    mean, memory = np.zeros(weights.size), np.full(len(blocks), 2.0)
    norms, curvatures = np.zeros(len(blocks)), np.zeros(len(blocks))
    for t, (gradients, seconds) in enumerate(batches, 1):
        n, g = len(gradients), gradients.mean(axis=0)
        for k, block in enumerate(blocks):
            norm = np.mean([sum(sample[i] ** 2 for i in block) for sample in gradients])
            largest = max(np.mean([abs(sample[i]) for sample in seconds]) for i in block)
            largest = max(largest, curvature_along(t, block, mean[block] if t > 1 else g[block]))
            if t > 10:
                noise = max(norms[k] - np.sum(mean[block] ** 2), 0) / n
                memory[k] += np.sum((g[block] - mean[block]) ** 2) > noise
            share = 1 / t if t <= 10 else 1 / memory[k]
            mean[block] = (1 - share) * mean[block] + share * g[block]
            norms[k] = (1 - share) * norms[k] + share * norm
            curvatures[k] = (1 - share) * curvatures[k] + share * largest
            if t == 10:
                norms[k] *= 2
            if t > 10:
                squared = np.sum(mean[block] ** 2)
                signal = squared / (norms[k] / n + (n - 1) / n * squared + 1e-9)
                weights[block] -= signal / (curvatures[k] + 1e-9) * g[block]
                memory[k] = (1 - signal) * memory[k] + 1
        found.append(weights.copy())
    return found


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("vsgd", [[k] for k in range(12)]),
        ("vsgd_block", [[0, 1, 2, 4, 5, 6, 8, 9, 10], [3, 7, 11]]),  # weights, biases
        ("vsgd_global", [list(range(12))]),
    ],
)
def test_vsgd_follows_its_article(name, blocks):
    random, n = np.random.RandomState(0), 5
    start = random.normal(size=(3, 4))
    factors = [Factors(*(random.normal(size=(n, k)) + 0.3 for k in (4, 3, 3))) for _ in range(40)]
    batches = [
        [np.einsum("nu,ni->nui", a, b).reshape(n, -1) for a, b in ((f.slopes, f.inputs), (f.curvatures, f.inputs**2))]
        for f in factors
    ]

    def curvature_along(t, block, way):
        """Of the loss whose second derivatives are the absolute ones, on the way; only for the block of weights."""
        if len(block) != 9:
            return 0.0
        f, way = factors[t - 1], way.reshape(3, 3) / np.linalg.norm(way)
        return np.mean(
            [sum(abs(f.curvatures[i, u]) * (f.inputs[i, :3] @ way[u]) ** 2 for u in range(3)) for i in range(n)]
        )

    expected = vsgd_of_the_article(blocks, batches, start.ravel(), curvature_along)
    weights, optimizer = start.copy(), OPTIMIZERS[name]()
    optimizer.start(weights, n_steps=None)
    for f, (gradients, _), after in zip(factors, batches, expected, strict=True):
        optimizer.step(weights, gradients.mean(axis=0).reshape(3, 4), f)
        np.testing.assert_allclose(weights.ravel(), after, rtol=1e-9, atol=1e-12)
    assert np.abs(weights - start).max() > 1e-3


class NoisyQuadratic:
    """Losses h/2 (w - c)² with c drawn about 0: the gradient at a sample is h (w - c), the curvature h.

    One unit with one input of 1: the optimiser's products of inputs and derivatives are then plain means.
    """

    def __init__(self, curvature, noise, start, n, seed=0):
        self.curvature, self.noise, self.n = curvature, noise, n
        self.random = np.random.RandomState(seed)
        self.weights = np.array([[start]])
        self.optimizer = VSGD()
        self.optimizer.start(self.weights, n_steps=None)

    def run(self, n_steps):
        for _ in range(n_steps):
            c = self.random.normal(scale=self.noise, size=(self.n, 1))
            slopes = self.curvature * (self.weights[0, 0] - c)
            curvatures = np.full((self.n, 1), self.curvature)
            gradient = slopes.mean(axis=0, keepdims=True)
            self.optimizer.step(self.weights, gradient, Factors(np.ones((self.n, 1)), slopes, curvatures))
        return self.weights[0, 0]


@pytest.mark.parametrize("curvature", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("n", [1, 10])
def test_vsgd_solves_a_noisy_quadratic_of_any_curvature(curvature, n):
    final = [abs(NoisyQuadratic(curvature, 1.0, 10.0, n, seed).run(2000)) for seed in range(4)]
    assert np.mean(final) < 0.15


@pytest.mark.parametrize("n", [1, 10])
def test_vsgd_comes_near_the_oracle_rate(n):
    """The best rate at an expected squared distance d² is d² / (d² + noise²/n) / h, and takes d² to the same times
    noise²/n. vSGD knows neither the distance nor the noise nor h, and pays for that by no more than a small factor.
    """
    losses = [NoisyQuadratic(2.0, 1.0, 10.0, n, seed).run(310) ** 2 for seed in range(60)]
    oracle_loss = 100.0
    for _ in range(300):
        oracle_loss = oracle_loss / (oracle_loss + 1.0 / n) * (1.0 / n)
    assert np.mean(losses) < 6 * oracle_loss


def test_vsgd_without_noise_takes_newton_steps():
    problem = NoisyQuadratic(4.0, 0.0, 3.0, 2)
    assert problem.run(200) == pytest.approx(0.0, abs=1e-3)


def test_vsgd_fits_a_logistic_regression():
    random = np.random.RandomState(0)
    inputs = random.normal(size=(4000, 5))
    truth = np.array([[1.5, -2.0, 0.0, 0.5, 1.0]])
    labels = (random.uniform(size=(4000, 1)) < expit(inputs @ truth.T)).astype(float)
    weights = np.zeros((1, 5))
    optimizer = VSGD()
    optimizer.start(weights, n_steps=None)
    for _ in range(20):
        for start in range(0, 4000, 20):
            batch, wanted = inputs[start : start + 20], labels[start : start + 20]
            h = expit(batch @ weights.T)
            gradient = (h - wanted).T @ batch / 20
            optimizer.step(weights, gradient, Factors(batch, h - wanted, h * (1 - h)))
    np.testing.assert_allclose(weights, truth, atol=0.25)


def test_vsgd_says_what_it_needs():
    optimizer = VSGD()
    optimizer.start(np.ones((1, 1)), None)
    with pytest.raises(ValueError, match="curvature"):
        optimizer.step(np.ones((1, 1)), np.ones((1, 1)))
