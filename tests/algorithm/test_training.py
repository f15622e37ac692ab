"""Algorithm 2: a step against plain NumPy, the derivatives against finite differences, the parts of the loop."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.special import expit

from epls.algorithm.activations import ABSOLUTE, ACTIVATIONS, LOGISTIC, TANH
from epls.algorithm.engines.numpy import NumpyGradient
from epls.algorithm.optimizers import Adam
from epls.algorithm.target import AuctionTarget, LiteralTarget
from epls.algorithm.training import Trainer, initial_weights, train
from epls.data.samples import ArrayBatches, StreamBatches
from epls.utils.threads import RowThreads


class RecordingOptimizer:
    """Moves nothing; remembers what it was given."""

    def __init__(self, needs_curvature=True):
        self.needs_curvature = needs_curvature

    def start(self, weights, n_steps):
        self.n_steps = n_steps

    def step(self, weights, gradient, inputs, slopes, curvatures, threads):
        self.gradient = gradient.copy()
        if self.needs_curvature:
            self.inputs, self.slopes, self.curvatures = inputs.copy(), slopes.copy(), curvatures.copy()


@pytest.fixture
def new_layer(device):
    """What makes the part that looks at samples, by either engine."""
    if device is None:
        return NumpyGradient
    from epls.algorithm.engines.torch.engine import TorchGradient

    return partial(TorchGradient, device)


def small_trainer(new_layer=NumpyGradient, activation=LOGISTIC, loss="matching", **settings):
    weights = np.random.RandomState(0).normal(size=(4, 4))
    layer = new_layer(np.array([1.0, 2.0, 3.0]), 2.0, activation, loss, needs_curvature=True)
    return Trainer(weights, layer, target=AuctionTarget(4), optimizer=RecordingOptimizer(), **settings)


def losses(name, f, net, winners):
    """The loss of each sample and unit: squared, or the integral of f - t from far below."""
    T = np.full(net.shape, f.inactive)
    T[np.arange(len(net)), winners] = f.active
    if name == "squared":
        return 0.5 * (f.value(net) - T) ** 2
    grid = np.linspace(0, 1, 20_001)[:, None, None]
    steps = net * grid  # from 0 to the net input
    return np.trapezoid(f.value(steps) - T, grid, axis=0) * net


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("loss", ["squared", "matching"])
def test_derivatives_of_the_loss_agree_with_finite_differences(name, loss, new_layer):
    f = ACTIVATIONS[name]
    if not f.increasing:
        loss = "squared"
    trainer = small_trainer(new_layer, f, loss=loss)
    X = np.random.RandomState(1).normal(2, 2, size=(8, 3))
    with RowThreads() as threads:
        winners = trainer.step((X, np.arange(8)), threads).winners
    weights = small_trainer().weights
    standard = np.column_stack([(X - [1, 2, 3]) / 2, np.ones(8)])
    net, step = standard @ weights.T, 1e-4
    up, here, down = (losses(loss, f, net + shift, winners) for shift in (step, 0, -step))
    np.testing.assert_allclose(trainer.optimizer.slopes, (up - down) / (2 * step), atol=2e-4)
    np.testing.assert_allclose(trainer.optimizer.curvatures, (up - 2 * here + down) / step**2, atol=2e-2)
    expected = trainer.optimizer.slopes.T @ standard / 8
    if trainer.steered:
        expected[:, -1] = 0  # the biases go their own way
    np.testing.assert_allclose(trainer.optimizer.gradient, expected, atol=1e-5)


@pytest.mark.parametrize("activation", [LOGISTIC, TANH])
def test_a_step_reports_winners_their_outputs_and_the_squared_error(activation, new_layer):
    trainer = small_trainer(new_layer, activation)
    X = np.random.RandomState(1).normal(2, 2, size=(8, 3))
    weights = trainer.weights.copy()
    with RowThreads() as threads:
        report = trainer.step((X, np.arange(8)), threads)
    H = activation.value((X - [1, 2, 3]) / 2 @ weights[:, :-1].T + weights[:, -1])
    T = np.where(np.eye(4)[report.winners] == 1, activation.active, activation.inactive)
    np.testing.assert_allclose(report.at_winner, H[np.arange(8), report.winners], rtol=1e-5)
    np.testing.assert_allclose(report.errors, ((H - T) ** 2).sum(axis=1), rtol=1e-5)
    assert np.bincount(report.winners).tolist() == [2, 2, 2, 2]


def test_an_activation_without_a_matching_loss_takes_the_squared_one(new_layer):
    trainer = small_trainer(new_layer, ABSOLUTE, loss="matching")
    assert not trainer.layer.matching
    assert not trainer.steered


@pytest.mark.parametrize("activation", [LOGISTIC, TANH])
def test_mean_outputs_are_steered_from_one_half_to_the_share(activation, new_layer):
    random = np.random.RandomState(0)
    X = random.normal(size=(256, 3))
    trainer = Trainer(
        initial_weights(16, 3, random, np.dtype(float)),
        new_layer(np.zeros(3), 1.0, activation),
        target=AuctionTarget(16),
        optimizer=RecordingOptimizer(needs_curvature=False),
        n_steps=400,
    )
    mean_outputs = []
    with RowThreads() as threads:
        for _ in range(400):
            trainer.step((X, np.arange(256)), threads)
            H = activation.value(X @ trainer.weights[:, :-1].T + trainer.weights[:, -1])
            mean_outputs.append(((H - activation.inactive) / (activation.active - activation.inactive)).mean(axis=0))
    np.testing.assert_allclose(mean_outputs[0], 0.5, atol=0.1)
    assert (np.diff(np.mean(mean_outputs, axis=1)) < 1e-3).all()
    np.testing.assert_allclose(mean_outputs[-1], 1 / 16, rtol=0.02)


@pytest.mark.parametrize("bias", [0.0, -5.0, -30.0, -80.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_units_are_woken_however_deep_they_sleep(bias, dtype, new_layer):
    random = np.random.RandomState(0)
    X = random.normal(size=(100, 3)).astype(dtype)
    weights = initial_weights(5, 3, random, np.dtype(dtype))
    weights[:, -1] = [bias, 1, 2, 3, 4]
    target, optimizer = AuctionTarget(5), RecordingOptimizer(needs_curvature=False)
    trainer = Trainer(weights, new_layer(np.zeros(3), 1.0, LOGISTIC), target=target, optimizer=optimizer)
    awake = weights[1:].copy()
    trainer.wake(ArrayBatches(X, 30), random)
    H = expit(X @ weights[:, :-1].T + weights[:, -1])
    assert H.max(axis=0).min() >= 0.5 - 1e-3
    assert (weights[1:] == awake).all()


def test_norms_are_limited_only_where_they_are_larger():
    trainer = small_trainer(max_norm=1.0)
    trainer.weights[:, :-1] *= np.array([[0.01], [1], [10], [100]])
    before = trainer.weights.copy()
    trainer.limit_norms()
    norms = np.linalg.norm(trainer.weights[:, :-1], axis=1)
    assert norms.max() <= 1 + 1e-12
    assert (trainer.weights[0] == before[0]).all()
    assert (trainer.weights[:, -1] == before[:, -1]).all()


def test_array_batches_give_every_sample_once_in_a_new_order():
    batches, random = ArrayBatches(np.zeros((23, 2)), 5), np.random.RandomState(0)
    first, second = ([i for _, i in batches.epoch(random)] for _ in range(2))
    assert [len(i) for i in first] == [5, 5, 5, 5, 3]
    assert sorted(np.concatenate(first)) == list(range(23))
    assert np.concatenate(first).tolist() != np.concatenate(second).tolist()
    assert np.concatenate([i for _, i in batches.in_order()]).tolist() == list(range(23))


@pytest.mark.parametrize("sizes", [[23], [1] * 23, [4, 0, 11, 8], [5, 5, 5, 5, 3]])
def test_stream_batches_recut_arrays_of_any_sizes(sizes):
    X = np.arange(46).reshape(23, 2)
    cuts = np.cumsum([0, *sizes])
    batches = StreamBatches(lambda: (X[a:b] for a, b in itertools.pairwise(cuts)), 23, 5)
    parts = [array[indices] for array, indices in batches.epoch(np.random.RandomState(0))]
    assert [len(part) for part in parts] == [5, 5, 5, 5, 3]
    assert (np.sort(np.concatenate(parts), axis=0) == X).all()


def run(new_layer, X, target, max_iter=5, tol=0.0, batch_size=40):
    random = np.random.RandomState(0)
    trainer = Trainer(
        initial_weights(20, X.shape[1], random, np.dtype(float)),
        new_layer(X.mean(axis=0), float(X.std()) or 1.0, LOGISTIC),
        target=target,
        optimizer=Adam(),
        n_steps=max_iter * -(-len(X) // batch_size),
    )
    return list(train(trainer, ArrayBatches(X, batch_size), max_iter, tol, random))


def test_reports_tell_of_every_epoch(blobs, new_layer):
    reports = run(new_layer, blobs, AuctionTarget(20))
    assert [r.epoch for r in reports] == [1, 2, 3, 4, 5]
    assert [r.is_last for r in reports] == [False] * 4 + [True]
    assert all(r.win_spread == 0 for r in reports)
    assert all(r.seconds > 0 for r in reports)
    assert reports[-1].error < reports[0].error


def test_reports_show_that_the_literal_rule_does_not_balance(blobs, new_layer):
    assert max(r.win_spread for r in run(new_layer, blobs, LiteralTarget(20))) > 1


def test_training_ends_when_the_error_no_longer_changes(new_layer):
    reports = run(new_layer, np.ones((40, 3)), AuctionTarget(20), max_iter=50, tol=0.9)
    assert len(reports) < 50
    assert reports[-1].is_last
