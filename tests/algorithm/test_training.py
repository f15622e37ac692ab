"""Algorithm 2: a step against plain NumPy, the derivatives against finite differences, the parts of the loop."""

from copy import deepcopy

import numpy as np
import pytest
from scipy.special import expit

from epls.algorithm.activations import ABSOLUTE, ACTIVATIONS, LOGISTIC, TANH
from epls.algorithm.engine import BatchReport, Objective, new_engine
from epls.algorithm.optimizers import Adam
from epls.algorithm.progress import Progress, has_settled
from epls.algorithm.settings import TrainingSettings, batch_rows
from epls.algorithm.training import Training, initial_weights
from epls.data.samples import ArraySamples


class RecordingOptimizer:
    """Moves nothing; remembers what it was given."""

    def start(self, weights, n_steps, n_done):
        self.n_steps = n_steps

    def step(self, weights, gradient, factors):
        self.gradient = gradient.copy()
        if factors is not None:
            self.slopes, self.curvatures = factors.slopes.copy(), factors.curvatures.copy()


def recorded(training):
    """The same training with an optimiser that leaves the weights as they are."""
    training.optimizer = RecordingOptimizer()
    return training


def small_training(device=None, activation=LOGISTIC, **settings):
    weights = np.random.RandomState(0).normal(size=(4, 4))
    settings = TrainingSettings(optimizer="vsgd", **settings)  # which needs the factors of the gradient
    objective = Objective(np.array([1.0, 2.0, 3.0]), 2.0, activation, settings)
    return recorded(Training(weights, new_engine(objective, 4, device)))


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
def test_derivatives_of_the_loss_agree_with_finite_differences(name, loss, device):
    f = ACTIVATIONS[name]
    if not f.increasing:
        loss = "squared"
    training = small_training(device, f, loss=loss)
    X = np.random.RandomState(1).normal(2, 2, size=(8, 3))
    winners = training.step((X, np.arange(8))).winners
    weights = small_training().weights
    standard = np.column_stack([(X - [1, 2, 3]) / 2, np.ones(8)])
    net, step = standard @ weights.T, 1e-4
    up, here, down = (losses(loss, f, net + shift, winners) for shift in (step, 0, -step))
    np.testing.assert_allclose(training.optimizer.slopes, (up - down) / (2 * step), atol=2e-4)
    np.testing.assert_allclose(training.optimizer.curvatures, (up - 2 * here + down) / step**2, atol=2e-2)
    expected = training.optimizer.slopes.T @ standard / 8
    if training.engine.objective.steered:
        expected[:, -1] = 0  # the biases go their own way
    np.testing.assert_allclose(training.optimizer.gradient, expected, atol=1e-5)


@pytest.mark.parametrize("activation", [LOGISTIC, TANH])
def test_a_step_reports_winners_live_ones_and_the_squared_error(activation, device):
    training = small_training(device, activation)
    X = np.random.RandomState(1).normal(2, 2, size=(8, 3))
    weights = training.weights.copy()
    report = training.step((X, np.arange(8)))
    H = activation.value((X - [1, 2, 3]) / 2 @ weights[:, :-1].T + weights[:, -1])
    T = np.where(np.eye(4)[report.winners] == 1, activation.active, activation.inactive)
    np.testing.assert_allclose(report.error, ((H - T) ** 2).sum(), rtol=1e-5)
    assert report.wins.tolist() == np.bincount(report.winners).tolist() == [2, 2, 2, 2]
    alive = activation.inactive + 0.1 * (activation.active - activation.inactive)
    is_live = H[np.arange(8), report.winners] >= alive
    assert report.live.tolist() == np.bincount(report.winners[is_live], minlength=4).tolist()


def test_an_activation_without_a_matching_loss_takes_the_squared_one(device):
    training = small_training(device, ABSOLUTE, loss="matching")
    assert not training.engine.objective.matching
    assert not training.engine.objective.steered


@pytest.mark.parametrize("activation", [LOGISTIC, TANH])
def test_mean_outputs_are_steered_from_one_half_to_the_share(activation, device):
    random = np.random.RandomState(0)
    X = random.normal(size=(256, 3))
    engine = new_engine(Objective(np.zeros(3), 1.0, activation), 16, device)
    training = recorded(Training(initial_weights(16, 3, random, np.dtype(float)), engine, n_steps=400))
    mean_outputs = []
    for _ in range(400):
        training.step((X, np.arange(256)))
        H = activation.value(X @ training.weights[:, :-1].T + training.weights[:, -1])
        mean_outputs.append(((H - activation.inactive) / (activation.active - activation.inactive)).mean(axis=0))
    np.testing.assert_allclose(mean_outputs[0], 0.5, atol=0.1)
    assert (np.diff(np.mean(mean_outputs, axis=1)) < 1e-3).all()
    np.testing.assert_allclose(mean_outputs[-1], 1 / 16, rtol=0.02)


@pytest.mark.parametrize("bias", [0.0, -5.0, -30.0, -80.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_units_are_woken_however_deep_they_sleep(bias, dtype, device):
    random = np.random.RandomState(0)
    X = random.normal(size=(100, 3)).astype(dtype)
    weights = initial_weights(5, 3, random, np.dtype(dtype))
    weights[:, -1] = [bias, 1, 2, 3, 4]
    engine = new_engine(Objective(np.zeros(3), 1.0, LOGISTIC), 5, device)
    training = Training(weights, engine)
    awake = weights[1:].copy()
    training.wake(ArraySamples(X), 30, random)
    H = expit(X @ weights[:, :-1].T + weights[:, -1])
    assert H.max(axis=0).min() >= 0.5 - 1e-3
    assert (weights[1:] == awake).all()


def test_norms_are_limited_only_where_they_are_larger():
    training = small_training(max_norm=1.0)
    training.weights[:, :-1] *= np.array([[0.01], [1], [10], [100]])
    before = training.weights.copy()
    training.limit_norms()
    norms = np.linalg.norm(training.weights[:, :-1], axis=1)
    assert norms.max() <= 1 + 1e-12
    assert (training.weights[0] == before[0]).all()
    assert (training.weights[:, -1] == before[:, -1]).all()


def run(device, X, target="auction", max_iter=5, tol=0.0, batch_size=40):
    random, samples = np.random.RandomState(0), ArraySamples(X)
    settings = TrainingSettings(target=target, max_norm=None)
    objective = Objective(X.mean(axis=0), float(X.std()) or 1.0, LOGISTIC, settings)
    training = Training(
        initial_weights(20, X.shape[1], random, np.dtype(float)),
        new_engine(objective, 20, device),
        n_steps=max_iter * samples.n_batches(batch_size),
    )
    for _ in range(max_iter):
        training.epoch(samples, batch_size, random)
        if has_settled([report.error for report in training.progress.reports], tol):
            break
    return training.progress.reports


def test_reports_tell_of_every_epoch(blobs, device):
    reports = run(device, blobs)
    assert [r.epoch for r in reports] == [1, 2, 3, 4, 5]
    assert all(r.win_spread == 0 for r in reports)
    assert all(r.seconds > 0 for r in reports)
    assert reports[-1].error < reports[0].error


def test_reports_show_that_the_literal_rule_does_not_balance(blobs, device):
    assert max(r.win_spread for r in run(device, blobs, "literal")) > 1


def test_training_ends_when_the_error_no_longer_changes(device):
    reports = run(device, np.ones((40, 3)), max_iter=50, tol=0.9)
    assert len(reports) < 50
    assert abs(reports[-2].error - reports[-1].error) <= 0.9 * reports[-1].error


def test_a_state_goes_back_only_into_the_same_parts(blobs):
    training = small_training()
    training.optimizer = Adam()
    training.optimizer.start(training.weights, 10)
    training.step((blobs[:, :3], np.arange(8)))
    state = deepcopy(training.state())
    training.step((blobs[:, :3], np.arange(8, 16)))
    moved = training.weights.copy()
    training.restore(state)
    assert (training.weights == state["weights"]).all()
    training.step((blobs[:, :3], np.arange(8, 16)))
    np.testing.assert_array_equal(training.weights, moved)
    for name, value in (("weights", state["weights"][:, 1:]), ("optimizer.n_done", "3"), ("target.counts", [1, 2])):
        with pytest.raises(ValueError, match=name):
            training.restore(state | {name: value})
    with pytest.raises(ValueError, match="other parts"):
        training.restore({name: value for name, value in state.items() if name != "target.counts"})


def test_an_epoch_is_reported_by_what_its_batches_counted():
    """A unit that is active at a single win is active; only one that is active at none is never active."""
    progress = Progress()
    progress.start_epoch(3, np.random.RandomState(0))
    for winners, outputs in (([0, 1, 2], [0.05, 0.9, 0.3]), ([0, 1, 2], [0.01, 0.02, 0.4])):
        progress.add(BatchReport.of(np.array(winners), np.array(outputs), np.array([0.5, 1.0, 1.5]), LOGISTIC, 3))
    report = progress.end_epoch(2.0)
    assert (report.epoch, report.error, report.win_spread, report.n_never_active) == (1, 1.0, 0, 1)


@pytest.mark.parametrize(
    ("n_components", "n_samples", "expected"), [(100, 10_000, 300), (256, 10_000, 256), (100, 1500, 200), (7, 20, 7)]
)
def test_a_batch_is_the_smallest_multiple_of_the_units_that_is_large_enough(n_components, n_samples, expected):
    assert batch_rows(n_components, n_samples) == expected
