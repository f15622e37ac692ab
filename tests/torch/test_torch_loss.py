"""The criterion: against NumPy's step and finite differences; networks of several kinds learn by it."""

import io
import pickle
from copy import deepcopy

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_sample_images
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from torch import nn

from epls import EPLS
from epls.algorithm.activations import ACTIVATIONS
from epls.algorithm.engine import Objective, new_engine
from epls.algorithm.target import AuctionTarget
from epls.algorithm.training import Training
from epls.torch import EPLSLoss

STEERED = [name for name, f in ACTIVATIONS.items() if f.increasing]


class NoOptimizer:
    def start(self, weights, n_steps, n_done):
        pass

    def step(self, weights, gradient, factors):
        self.gradient = gradient.copy()


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def random_net(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def sparse_by_now(n_components, **settings):
    """A criterion whose biases have come to the end of their way."""
    loss = EPLSLoss(n_components, n_steps=4, **settings).double()
    loss.n_steps_done += 4
    return loss


def train(network, batches, n_components, n_steps, rate=1e-2, limit=None):
    """Adam with a rate that falls to 0; the criterion, and the mean loss of the last tenth of the steps."""
    loss = EPLSLoss(n_components, n_steps=n_steps)
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    values = []
    for _, batch in zip(range(n_steps), batches, strict=False):
        optimizer.zero_grad()
        value = loss(network(batch))
        value.backward()
        optimizer.step()
        schedule.step()
        if limit is not None:
            with torch.no_grad():
                network.weight.renorm_(2, 0, limit)
        values.append(value.item())
    return loss, values[0], float(np.mean(values[-n_steps // 10 :]))


def shuffled(data, size):
    while True:
        order = torch.randperm(len(data))
        yield from (data[order[k : k + size]] for k in range(0, len(data) - size + 1, size))


class TestAsInNumpy:
    """A linear layer and the criterion are what EPLS trains."""

    @pytest.mark.parametrize("name", STEERED)
    def test_gradients_winners_and_biases(self, name):
        random = np.random.RandomState(0)
        X, weights = random.normal(size=(30, 5)), random.normal(size=(6, 6))
        weights[:, -1] = 0
        engine = new_engine(Objective(np.zeros(5), 1.0, ACTIVATIONS[name]), 6)
        training = Training(weights.copy(), engine, n_steps=4, n_steps_done=4)
        training.optimizer = NoOptimizer()
        loss = sparse_by_now(6, activation=name)
        linear = nn.Linear(5, 6, bias=False, dtype=torch.float64)
        linear.weight.data = torch.tensor(weights[:, :-1])
        for n_rows in (30, 17, 5):  # counts are carried from one batch to the next
            report = training.step((X, np.arange(n_rows)))
            linear.zero_grad()
            loss(linear(torch.tensor(X[:n_rows]))).backward()
            assert loss.winners.tolist() == report.winners.tolist()
            np.testing.assert_allclose(linear.weight.grad, training.optimizer.gradient[:, :-1], atol=1e-6)
            np.testing.assert_allclose(loss.bias, training.weights[:, -1], atol=1e-6)
        assert loss.counts.tolist() == engine.target.counts.tolist()

    def test_on_centred_inputs_the_way_to_sparse_outputs_is_the_same(self):
        """While biases are under way, targets are raised; inputs that are 0 on average do not see it."""
        X = np.random.RandomState(0).normal(size=(40, 5))
        X -= X.mean(axis=0)
        engine = new_engine(Objective(np.zeros(5), 1.0, ACTIVATIONS["logistic"]), 8)
        training = Training(np.random.RandomState(1).normal(size=(8, 6)), engine)
        training.optimizer = NoOptimizer()
        training.weights[:, -1] = 0
        loss, linear = EPLSLoss(8).double(), nn.Linear(5, 8, bias=False, dtype=torch.float64)
        linear.weight.data = torch.tensor(training.weights[:, :-1])
        for _ in range(20):
            training.step((X, np.arange(40)))
            linear.zero_grad()
            loss(linear(torch.tensor(X))).backward()
        np.testing.assert_allclose(linear.weight.grad, training.optimizer.gradient[:, :-1], atol=1e-5)
        np.testing.assert_allclose(loss.bias, training.weights[:, -1], atol=1e-5)

    @pytest.mark.slow
    def test_a_linear_layer_on_digits_is_as_good_as_epls(self):
        X, y = load_digits(return_X_y=True)
        model = EPLS(50, max_iter=150, random_state=0).fit(X)
        data = torch.tensor((X - model.mean_) / model.scale_, dtype=torch.float32)
        limit = float(np.linalg.norm(model.components_, axis=1).max())
        linear = nn.Linear(64, 50)
        loss, *_ = train(linear, shuffled(data, 250), 50, n_steps=1050, rate=0.04, limit=limit)
        codes = loss.activate(linear(data)).detach().numpy()
        assert loss.counts.max() == loss.counts.min() == 1050 * 5
        ours, other = (
            cross_val_score(LogisticRegression(C=10, max_iter=2000), c, y, cv=3).mean()
            for c in (model.transform(X), codes)
        )
        assert other > ours - 0.015


@pytest.mark.parametrize("activation", STEERED)
@pytest.mark.parametrize("n_done", [0, 4])
def test_the_value_is_the_integral_of_output_less_target(activation, n_done):
    """By the trapezoid rule from one set of net inputs to another, with the winners as they are."""
    f = ACTIVATIONS[activation]
    loss = EPLSLoss(4, activation=activation, n_steps=4).double().eval()
    loss.n_steps_done += n_done
    start, end = random_net(8, 4), 3 * random_net(8, 4)
    end[torch.arange(8), torch.arange(8) % 4] += 20  # both have these winners
    start[torch.arange(8), torch.arange(8) % 4] += 20
    values = [loss(net).item() for net in (start, end)]
    assert loss.winners.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    raised = (0.5 - 1 / 4) * (f.active - f.inactive) if n_done == 0 else 0
    T = np.where(np.tile(np.eye(4), (2, 1)) == 1, f.active, f.inactive) + raised
    way = np.linspace(start.numpy(), end.numpy(), 20_001)
    integral = np.trapezoid(f.value(way) - T, way, axis=0).sum() / 8
    assert values[1] - values[0] == pytest.approx(integral, rel=1e-5, abs=1e-5)


def test_the_logistic_loss_is_the_cross_entropy():
    loss, net = sparse_by_now(6), random_net(12, 6)
    value = loss(net)
    target = nn.functional.one_hot(loss.winners, 6).double()
    expected = nn.functional.binary_cross_entropy_with_logits(net, target, reduction="sum") / 12
    assert value.item() == pytest.approx(expected.item())


@pytest.mark.parametrize("activation", STEERED)
@pytest.mark.parametrize("shape", [(8, 4), (2, 4, 5), (2, 4, 3, 2)])
def test_gradients_agree_with_finite_differences(activation, shape):
    loss = EPLSLoss(4, activation=activation).double().eval()  # nothing is carried from call to call
    assert torch.autograd.gradcheck(loss, random_net(*shape).requires_grad_())


def test_every_position_of_a_feature_map_is_a_sample():
    maps = random_net(3, 6, 4, 5).requires_grad_()
    rows = maps.detach().permute(0, 2, 3, 1).reshape(60, 6).requires_grad_()
    of_maps, of_rows = sparse_by_now(6), sparse_by_now(6)
    values = [of_maps(maps), of_rows(rows)]
    for value in values:
        value.backward()
    assert values[0] == values[1]
    assert of_maps.winners.shape == (3, 4, 5)
    assert of_maps.winners.flatten().tolist() == of_rows.winners.tolist()
    np.testing.assert_array_equal(maps.grad.permute(0, 2, 3, 1).reshape(60, 6), rows.grad)
    outputs = of_rows.activate(rows)
    np.testing.assert_array_equal(of_maps.activate(maps).permute(0, 2, 3, 1).reshape(60, 6).detach(), outputs.detach())
    np.testing.assert_allclose(outputs.detach(), torch.sigmoid(rows + of_rows.bias).detach())


def test_winners_are_those_of_the_target():
    loss, net = EPLSLoss(5).double(), random_net(23, 5)
    loss(net)
    assert loss.winners.tolist() == AuctionTarget(5).assign(torch.sigmoid(net).numpy()).tolist()


def test_a_checkpoint_goes_on_exactly():
    def steps(network, loss, optimizer, batches):
        for batch in batches:
            optimizer.zero_grad()
            loss(network(batch)).backward()
            optimizer.step()

    def new():
        network = nn.Linear(4, 6)
        return network, EPLSLoss(6, n_steps=20), torch.optim.Adam(network.parameters())

    batches = [torch.randn(16, 4) for _ in range(20)]  # not a multiple of 6: counts differ from batch to batch
    one, other = new(), new()
    steps(*one, batches[:9])
    for part, saved in zip(other, one, strict=True):
        file = io.BytesIO()
        torch.save(saved.state_dict(), file)
        file.seek(0)
        part.load_state_dict(torch.load(file, weights_only=True))
    steps(*one, batches[9:])
    steps(*other, batches[9:])
    for part, same in zip(one[:2], other[:2], strict=True):
        assert all((a == b).all() for a, b in zip(part.state_dict().values(), same.state_dict().values(), strict=True))
    assert set(one[1].state_dict()) == {"bias", "counts", "n_steps_done"}
    assert one[1].n_steps_done == 20


@pytest.mark.parametrize("activation", STEERED)
def test_a_criterion_is_pickled_and_copied(activation):
    loss, net = EPLSLoss(4, activation=activation), torch.randn(10, 4)
    loss(net)
    for copy in (pickle.loads(pickle.dumps(loss)), deepcopy(loss)):
        assert (copy.bias == loss.bias).all()
        assert copy.eval()(net) == loss.eval()(net)


def test_nothing_moves_in_evaluation():
    loss = EPLSLoss(4)
    loss(torch.randn(6, 4))
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    assert before["bias"].abs().max() > 0
    loss.eval()
    values = {loss(torch.ones(6, 4)).item() for _ in range(3)}
    assert len(values) == 1
    assert all((value == before[name]).all() for name, value in loss.state_dict().items())


@pytest.mark.parametrize("activation", STEERED)
def test_units_are_woken_however_deep_they_sleep(activation):
    f, maps = ACTIVATIONS[activation], random_net(10, 4, 3, 3)
    loss = EPLSLoss(4, activation=activation).double()
    loss.bias += torch.tensor([-30, -5, 5, 10])
    before, largest = loss.bias.clone(), loss.activate(maps).amax(dim=(0, 2, 3))
    with pytest.warns(UserWarning, match="wake raised the biases of 2 of 4 units"):
        loss.wake(maps.split(3))
    half = (f.inactive + f.active) / 2
    np.testing.assert_allclose(loss.activate(maps).amax(dim=(0, 2, 3)), largest.clamp(min=half), atol=1e-6)
    assert ((loss.bias > before) == torch.tensor([True, True, False, False])).all()


class TestWarnings:
    """``filterwarnings = error``: without ``pytest.warns`` a warning is a failure."""

    def trained(self, n_steps, n_done, n_components=12):
        loss = EPLSLoss(n_components, n_steps=n_steps)
        for _ in range(n_done):
            loss(torch.randn(24, n_components))
        return loss

    def test_outputs_that_are_still_dense(self):
        loss, net = self.trained(n_steps=None, n_done=60), torch.randn(24, 12)
        loss.activate(net)  # in training mode, whoever looks knows that it is under way
        told = (
            r"still dense: .* from 1/2 to 1/12 over the first 1000 steps \(n_steps=None\), and after 60 .* about 0.45"
        )
        with pytest.warns(UserWarning, match=told):
            outputs = loss.eval().activate(net)
        assert 0.35 < outputs.mean() < 0.55
        with pytest.warns(UserWarning, match="still dense"):
            loss.train().wake([net])

    def test_outputs_that_are_sparse_or_not_begun(self):
        self.trained(n_steps=60, n_done=60).eval().activate(torch.randn(24, 12))
        self.trained(n_steps=60, n_done=0).eval().activate(torch.randn(24, 12))
        self.trained(n_steps=None, n_done=5, n_components=2).eval().activate(torch.randn(24, 2))

    def test_many_units_that_are_woken(self):
        """A short training: outputs are low everywhere, and waking undoes the sparsity."""
        images = photograph_patches(40, 20)
        network = nn.Sequential(nn.Conv2d(1, 8, 5, stride=2), nn.Tanh(), nn.Conv2d(8, 12, 3))
        loss, *_ = train(network, shuffled(images, 1), 12, n_steps=20)
        net = network(images).detach()
        before = loss.activate(net).mean()
        with pytest.warns(
            UserWarning,
            match=r"raised the biases of \d+ of 12 units, .* 20 steps of training were too few: train longer",
        ):
            loss.wake([net])
        assert loss.activate(net).mean() > 1.2 * before

    def test_few_units_that_are_woken(self):
        loss, net = EPLSLoss(8), torch.eye(8) * 20 - 10
        loss.bias[0] = -15
        loss.wake([net])
        assert loss.bias[0] == pytest.approx(-10)


def test_half_precision_is_computed_in_single():
    net = torch.randn(8, 4).to(torch.bfloat16).requires_grad_()
    value = EPLSLoss(4)(net)
    value.backward()
    assert value.dtype == torch.float32
    assert net.grad.dtype == torch.bfloat16


def photograph_patches(n_patches, size):
    image = torch.tensor(load_sample_images().images[0], dtype=torch.float32).mean(dim=2) / 64
    return image.unfold(0, size, size).unfold(1, size, size).reshape(-1, 1, size, size)[:n_patches]


class TestAnySystem:
    """Wins are balanced, the loss falls, and every unit is active for some sample and silent for most."""

    def check(self, loss, first, last, net):
        outputs = loss.activate(net.detach()).movedim(1, -1).reshape(-1, loss.n_components)
        assert loss.counts.max() - loss.counts.min() <= 1
        assert last < 0.7 * first
        assert outputs.amax(dim=0).min() > 0.1  # what EpochReport counts as dead is below it
        np.testing.assert_allclose(outputs.mean(dim=0), 1 / loss.n_components, atol=0.5 / loss.n_components)

    @pytest.mark.slow
    @pytest.mark.parametrize("bias", [True, False])
    def test_two_layers(self, bias):
        data = torch.tensor(load_digits().data / 16, dtype=torch.float32)
        network = nn.Sequential(nn.Linear(64, 60), nn.ReLU(), nn.Linear(60, 20, bias=bias))
        loss, first, last = train(network, shuffled(data, 100), 20, n_steps=400)
        self.check(loss, first, last, network(data))

    @pytest.mark.slow
    def test_a_convolutional_network_and_its_feature_map(self):
        images = photograph_patches(300, 16)
        network = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 12, 3))
        loss, first, last = train(network, shuffled(images, 20), 12, n_steps=400)
        assert loss.winners.shape == (20, 5, 5)
        self.check(loss, first, last, network(images))

    @pytest.mark.slow
    def test_a_batch_that_is_one_image_cut_in_patches(self):
        images = photograph_patches(200, 20)

        def patches():
            for image in shuffled(images, 1):
                cut = nn.functional.unfold(image, 5, stride=3)[0].T
                yield cut - cut.mean(dim=1, keepdim=True)

        network = nn.Linear(25, 9)
        loss, first, last = train(network, patches(), 9, n_steps=500)
        rows = torch.cat([batch for _, batch in zip(range(200), patches(), strict=False)])
        self.check(loss, first, last, network(rows))


class TestErrors:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"n_components": 0}, "n_components=0: give a whole number of at least 1"),
            ({"n_components": 2.5}, "n_components=2.5"),
            ({"n_components": 4, "n_steps": 0}, "n_steps=0"),
            ({"n_components": 4, "activation": "absolute"}, "activation='absolute' is not increasing"),
            ({"n_components": 4, "activation": "sigmoid"}, "activation='sigmoid' is unknown"),
        ],
    )
    def test_settings(self, settings, message):
        with pytest.raises(ValueError, match=message):
            EPLSLoss(**settings)

    @pytest.mark.parametrize("shape", [(4,), (8, 3), (0, 4), (8, 3, 4), ()])
    def test_shapes(self, shape):
        for method in (EPLSLoss(4), EPLSLoss(4).activate):
            with pytest.raises(ValueError, match=r"needs \(N, 4\), or \(N, 4, ...\) for feature maps"):
                method(torch.zeros(shape))

    @pytest.mark.parametrize(("net", "kind"), [(np.zeros((3, 4)), "ndarray"), (torch.zeros(3, 4).int(), "torch.int32")])
    def test_types(self, net, kind):
        with pytest.raises(TypeError, match=f"tensor of floating-point numbers, got {kind}"):
            EPLSLoss(4)(net)

    def test_another_device(self):
        with pytest.raises(
            ValueError, match=r"net inputs are on meta, but EPLSLoss is on cpu: .*criterion.to\('meta'\)"
        ):
            EPLSLoss(4)(torch.zeros(8, 4, device="meta"))

    def test_waking_without_samples(self):
        with pytest.raises(ValueError, match="wake needs the net inputs of at least one batch, got none"):
            EPLSLoss(4).wake([])

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_outputs_that_are_not_finite(self, value):
        loss = EPLSLoss(4, activation="identity")
        with pytest.raises(ValueError, match="outputs of 'identity' are not finite"):
            loss(torch.full((8, 4), value))
        assert loss.counts.sum() == loss.n_steps_done == 0
