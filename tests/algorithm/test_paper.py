"""``EPLS(settings=PAPER)`` against a transcription of the paper's two listings, bit by bit."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from epls import EPLS, PAPER
from epls.algorithm.training import Training
from epls.data.moments import moments_of
from epls.metrics import never_active

N_H, SEED = 20, 3
EPS = np.finfo(np.float32).eps


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


def algorithm_1(H, a, N):
    """The ideal target of a mini-batch; the inhibitor is changed in place."""
    T = np.zeros_like(H)
    for n in range(len(H)):
        k = np.argmax(H[n] - a)
        T[n, k] = 1
        a[k] += H.shape[1] / N + EPS
    return T


class VSGD:
    """Schaul, Zhang and LeCun's rate of a block of parameters, for mini-batches, with the constants of their code."""

    def __init__(self):
        self.g, self.v, self.h = 0.0, 0.0, 0.0  # mean gradient, its mean squared norm, the largest curvature
        self.tau = 2.0
        self.t = 0

    def average(self, g, v, h, memory):
        self.g = self.g + (g - self.g) / memory
        self.v = self.v + (v - self.v) / memory
        self.h = self.h + (h - self.h) / memory

    def change(self, g, v, h, n):
        self.t += 1
        if self.t <= 10:
            self.average(g, v, h, self.t)
            if self.t == 10:
                self.v *= 2
            return np.zeros_like(g)
        if ((g - self.g) ** 2).sum() > max(self.v - (self.g**2).sum(), 0) / n:
            self.tau += 1
        self.average(g, v, h, self.tau)
        squared_norm = (self.g**2).sum()
        signal = squared_norm / (self.v / n + (n - 1) / n * squared_norm + 1e-9)
        self.tau = (1 - signal) * self.tau + 1
        return signal / (self.h + 1e-9) * g


def algorithm_2(D, n_epochs, random):
    """The weights after every step, biases in the last column, and the error of every epoch.

    D has a last column of 1. The derivative is that of half the squared error; vSGD's steps do not depend on the
    factor.
    """
    N, N_d = len(D), D.shape[1] - 1
    W = np.empty((N_H, N_d + 1))
    W[:, :-1] = random.normal(scale=N_d**-0.5, size=(N_H, N_d))
    W[:, -1] = random.normal(scale=N_d**-0.5, size=N_H)
    of_weights, of_biases, steps, errors = VSGD(), VSGD(), [], []
    for _ in range(n_epochs):
        order, a, error = random.permutation(N), np.zeros(N_H), 0.0
        for start in range(0, N - N_H + 1, N_H):  # N_b = N_h; what is left at the end is dropped
            batch = D[order[start : start + N_H]]
            H = expit(batch @ W.T)
            T = algorithm_1(H, a, N)
            slope = H * (1 - H)
            curvature = slope * slope + (H - T) * (slope * (1 - 2 * H))
            delta = (H - T) * slope
            gradient = delta.T @ batch / N_H
            squares, curvatures = (delta * delta).T @ (batch * batch) / N_H, abs(curvature).T @ (batch * batch) / N_H
            weights, biases = np.s_[:, :-1], np.s_[:, -1]
            way = of_weights.g if of_weights.t else gradient[weights]
            along = (abs(curvature) * (batch[weights] @ way.T) ** 2).sum() / N_H / (way**2).sum()
            W[weights] -= of_weights.change(
                gradient[weights], squares[weights].sum(), max(curvatures[weights].max(), along), N_H
            )
            W[biases] -= of_biases.change(gradient[biases], squares[biases].sum(), curvatures[biases].max(), N_H)
            steps.append(W.copy())
            error += ((H - T) ** 2).sum()
        W[:, :-1] /= np.maximum(np.linalg.norm(W[:, :-1], axis=1, keepdims=True), 1)
        errors.append(error / (N // N_H * N_H))
    return steps, W, errors


def test_the_printed_algorithm_has_the_bits_of_its_listings(digits, monkeypatch):
    X = digits
    center, scale = moments_of([X]).center_and_scale()
    D = np.ones((len(X), X.shape[1] + 1))
    D[:, :-1] = np.rint((X - center) * (1 / scale * 2.0**20)) / 2.0**20  # inputs are rounded to a grid
    expected, W, errors = algorithm_2(D, 2, np.random.RandomState(SEED))

    seen = []
    step = Training.step

    def recorded(self, batch):
        found = step(self, batch)
        seen.append(self.weights.copy())
        return found

    monkeypatch.setattr(Training, "step", recorded)
    model = EPLS(N_H, max_iter=2, settings=replace(PAPER, tol=None), random_state=SEED).fit(X)
    assert len(X) % N_H != 0
    assert len(seen) == len(expected) == 2 * (len(X) // N_H)
    for ours, theirs in zip(seen, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(np.column_stack([model.components_, model.intercept_]), W)
    np.testing.assert_allclose(model.loss_curve_, errors, rtol=1e-12)


def test_the_printed_stop_rule_ends_training_once_the_error_does_not_fall(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curve = EPLS(N_H, settings=PAPER, random_state=0).fit(digits).loss_curve_
    decreases = -np.diff(curve) / curve[:-1]
    assert len(curve) < 100
    assert decreases[-1] < 1e-6
    assert (decreases[:-1] >= 1e-6).all()


def test_a_warning_says_that_the_limit_ended_training(digits):
    with pytest.warns(ConvergenceWarning, match="max_iter=2 epochs"):
        EPLS(N_H, max_iter=2, settings=PAPER, random_state=0).fit(digits)


def test_few_rates_learn_and_a_rate_for_each_parameter_does_not(digits):
    """docs/paper.md says so. A mend that is missing there would show here first."""
    dead = {}
    for optimizer in ("vsgd_block", "vsgd_global", "vsgd"):
        model = EPLS(N_H, settings=replace(PAPER, optimizer=optimizer), random_state=0).fit(digits)
        dead[optimizer] = len(never_active(model.transform(digits), "logistic"))
    assert dead["vsgd_block"] == dead["vsgd_global"] == 0
    assert dead["vsgd"] > N_H / 2
