"""Several processes that learn together: balance, the same bits, unequal parts, failures, commands."""

import json
import re
import signal
import sys
import time
from pathlib import Path
from threading import Barrier, Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from together import (
    be_refused,
    command,
    learn,
    learn_with_checkpoints,
    part_of,
    run_together,
    trained_models,
)

from epls import EPLS, load_model, open_shards
from epls.algorithm.activations import LOGISTIC
from epls.algorithm.engine import BatchGradient, BatchReport, Engine, Objective, new_engine
from epls.algorithm.target import AuctionTarget, ExactTarget
from epls.data.samples import ArraySamples
from epls.torch import Shard
from epls.torch.distributed import Processes, ShardEngine, ShardSamples, shares

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="the processes need POSIX signals"),
]


@pytest.fixture(scope="module")
def digits():
    return load_digits().data.astype(np.float32)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """What two and three processes learn: for each number of processes, the arrays of each of them."""
    folder = tmp_path_factory.mktemp("learned")
    for n_processes in (2, 3):
        assert run_together(n_processes, learn, str(folder)) == [0] * n_processes
    return {n: [dict(np.load(folder / f"{n}-{rank}.npz")) for rank in range(n)] for n in (2, 3)}


class Simulated(Processes):
    """Processes that are threads of this one, and exchange arrays through a list."""

    def __init__(self, rank, size, shared, together):
        self.rank, self.size, self._shared, self._together = rank, size, shared, together

    def _exchange(self, own):
        self._shared[self.rank] = own
        self._together.wait()
        found = list(self._shared)
        self._together.wait()
        return found

    def gather(self, content):
        return self._exchange(content)

    def from_first(self, content):
        return self._exchange(content)[0]

    def _reduce(self, array, operation):
        parts = self._exchange(array.copy())
        array[...] = np.max(parts, axis=0) if "MAX" in str(operation) else np.sum(parts, axis=0)

    def add_up(self, *arrays):
        for array in arrays:
            self._reduce(array, "SUM")


def simulate(function, size):
    """What a function of simulated processes returns in each of them."""
    shared, together, found = [None] * size, Barrier(size, timeout=20), [None] * size

    def run(rank):
        found[rank] = function(Simulated(rank, size, shared, together))

    threads = [Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


class GivenOutputs(Engine):
    """A batch is its outputs."""

    largest_net = net_quantile = None

    def __init__(self, target):
        self.objective, self.target = Objective(np.zeros(1), 1.0, LOGISTIC), target

    def gradient(self, weights, batch):
        winners = self.target.assign(batch[0])
        return BatchGradient(np.zeros_like(weights), BatchReport(winners, None, np.zeros(len(weights)), 0.0))


class Alone:
    """A process that hears nothing from the others."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def add_up(self, *arrays):
        pass


@given(
    st.integers(1, 9),
    st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(st.integers(1, 30), min_size=n, max_size=n), min_size=1)),
    st.sampled_from([AuctionTarget, ExactTarget]),
    st.integers(0, 99),
)
def test_wins_of_all_processes_differ_by_at_most_one(n_units, batches, kind, seed):
    """After every step, and no process has to know the outputs of another."""
    random, size = np.random.RandomState(seed), len(batches[0])
    engines = [ShardEngine(GivenOutputs(kind(n_units)), Alone(rank, size)) for rank in range(size)]
    total, weights = np.zeros(n_units, int), np.zeros((n_units, 2))
    for n_rows in batches:
        for engine, n in zip(engines, n_rows, strict=True):
            outputs = random.uniform(size=(n, n_units)).astype(np.float32)
            report = engine.gradient(weights, (outputs, np.arange(n), np.array(n_rows))).report
            total += np.bincount(report.winners, minlength=n_units)
        assert np.ptp(total) <= 1
        for engine in engines:
            assert_array_equal(engine.target.counts, total)


def test_extra_wins_go_round():
    assert_array_equal(shares(np.array([1, 1, 0, 1]), np.array([2, 1, 5])), [[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 2]])


def test_gradients_add_up(digits):
    """With the winners that the processes found, the sum is the gradient of all their samples."""
    objective = Objective(digits.mean(axis=0), 6.0, LOGISTIC)
    weights = np.random.RandomState(0).normal(scale=0.1, size=(8, 65)).astype(np.float32)

    def step(processes):
        part = part_of(digits, processes.rank, 3)
        samples = ShardSamples(processes, lambda: ArraySamples(part), "any")
        X, rows, n_rows = batch = next(samples.epoch(np.random.RandomState(5), 100))
        found = samples.shared_engine(new_engine(objective, 8)).gradient(weights, batch)
        return X[rows], n_rows, found.gradient.copy(), found.report, samples.moments.center_and_scale()

    inputs, n_rows, gradients, reports, moments = zip(*simulate(step, 3), strict=True)
    assert n_rows[0].tolist() == [len(part) for part in inputs]
    assert n_rows[0].tolist() == [100, 100, 200]  # the last part is larger
    X = (np.concatenate(inputs) - objective.center) / 6
    H = 1 / (1 + np.exp(-(X @ weights[:, :-1].T + weights[:, -1])))
    T = np.eye(8)[np.concatenate([report.winners for report in reports])]
    for gradient, report, (center, scale) in zip(gradients, reports, moments, strict=True):
        assert_allclose(gradient, (H - T).T @ np.column_stack([X, np.ones(400)]), atol=1e-3)
        assert_allclose(report.error, ((H - T) ** 2).sum(), rtol=1e-5)
        assert_array_equal(report.wins, T.sum(axis=0))
        assert report.live.tolist() == [int((H[:, k][T[:, k] == 1] >= 0.1).sum()) for k in range(8)]
        assert_allclose(center, digits.mean(axis=0), atol=1e-5)
        assert scale == pytest.approx(np.sqrt(digits.var(axis=0).mean()), rel=1e-5)


def test_every_sample_once_in_an_epoch():
    X = np.arange(1000.0)[:, None]

    def epoch(processes):
        samples = ShardSamples(processes, lambda: ArraySamples(part_of(X, processes.rank, 3)), "any")
        batches = [X[rows] for X, rows, _ in samples.epoch(np.random.RandomState(0), 70)]
        rest = [X[rows] for X, rows, _ in samples.epoch(np.random.RandomState(0), 70, skip=2)]
        assert [part.tolist() for part in rest] == [part.tolist() for part in batches[2:]]
        assert len(batches) == samples.n_batches(70) == 4
        return np.concatenate(batches)

    assert_array_equal(np.sort(np.concatenate(simulate(epoch, 3)), axis=0), X)


def test_one_process_learns_what_fit_learns(digits, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")  # as `torchrun --nproc-per-node 1` sets it
    for model in trained_models().values():
        if model.random_state is not None:
            alone = clone(model).fit(digits)
            assert_array_equal(model.fit(Shard(digits)).components_, alone.components_)


@pytest.mark.parametrize("n_processes", [2, 3])
def test_all_processes_learn_the_same_bits(learned, n_processes):
    for name, array in learned[n_processes][0].items():
        for other in learned[n_processes][1:]:
            assert_array_equal(other[name], array, err_msg=name)
    first = learned[n_processes][0]
    assert_array_equal(first["again"], first["epls"])
    for name in ("epls", "odd batches", "exact", "torch"):
        assert first[f"{name}: spread"].max() <= 1, name
        assert first[f"{name}: loss"][-1] < first[f"{name}: loss"][0]


def test_run_after_run_the_same_bits(learned, tmp_path):
    assert run_together(2, learn, str(tmp_path)) == [0, 0]
    again = dict(np.load(tmp_path / "2-1.npz"))
    for name, array in learned[2][1].items():
        if not name.startswith("no seed"):
            assert_array_equal(again[name], array, err_msg=name)


@pytest.mark.parametrize(("name", "batch_size"), [("autoencoder", 1000), ("rbm", 200)])
def test_several_processes_learn_like_one_with_their_batches_together(digits, learned, name, batch_size):
    """Not EPLS, whose error is lower the more samples an auction has: each process holds its own."""
    for n_processes in (2, 3):
        alone = trained_models()[name].set_params(batch_size=n_processes * batch_size).fit(digits)
        assert learned[n_processes][0][f"{name}: loss"] == pytest.approx(alone.loss_curve_, rel=0.1)


def test_prototypes_are_means_of_equally_many(digits, learned):
    for n_processes in (2, 3):
        assert_allclose(learned[n_processes][0]["prototypes"].mean(axis=0), digits.mean(axis=0), atol=0.3)


def test_what_cannot_be_learned_together(tmp_path):
    """All processes are told, whichever of them has the wrong samples."""
    assert run_together(2, be_refused, str(tmp_path)) == [0, 0]
    told = [json.loads((tmp_path / f"told-{rank}.json").read_text()) for rank in range(2)]
    assert told[0]["nan"].startswith("ValueError: process 1 of 2 failed: Input X contains NaN")
    assert told[1]["nan"].startswith("ValueError: Input X contains NaN")
    for name, message in {
        "width": "'n_features': 5, .* but process 1 has {'n_features': 4",
        "settings": r"EPLS\(n_components=4\).* but process 1 has .*EPLS\(n_components=5\)",
        "few": "process 0 has 1 of 52 samples, too few for ",
        "vsgd": "optimizer='adam', .* but the settings are .*vsgd",
        "target": "target='auction' or 'exact', .* but the settings are .*largest",
        "omp": "OMP needs all samples in one process: .* EPLS, Prototypes, SparseAutoencoder or SparseRBM",
        "stream": "a Shard is only for fit",
    }.items():
        for of_process in told:
            assert re.search(message, of_process[name])


@pytest.mark.parametrize("victim", [0, 1])
def test_kill_9_of_a_process_then_the_same_training(learned, tmp_path, victim):
    """The other one says so at once; started again, both continue from what the first one wrote."""
    began = time.monotonic()
    codes = run_together(2, learn_with_checkpoints, str(tmp_path), (victim, 9))
    assert time.monotonic() - began < 30
    assert sorted(codes) == [-signal.SIGKILL, 3]
    assert "another of the processes" in (tmp_path / f"lost-{1 - victim}.txt").read_text()
    assert len(list((tmp_path / "kept").glob("checkpoint-*"))) == 2
    assert run_together(2, learn_with_checkpoints, str(tmp_path)) == [0, 0]
    for rank in range(2):
        assert_array_equal(np.load(tmp_path / f"resumed-{rank}.npy"), learned[2][rank]["epls"])
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [".lock"]


@pytest.fixture(scope="module")
def commanded(tmp_path_factory, digits):
    """A model and features of it, which two processes wrote with commands."""
    folder = tmp_path_factory.mktemp("commanded")
    for number, rows in enumerate(np.array_split(digits, 3)):
        (folder / "x").mkdir(exist_ok=True)
        np.save(folder / "x" / f"{number}.npy", rows)
    model, data = str(folder / "model.epls"), str(folder / "x")
    learning = ["--learner", "epls", "--units", "20", "--set", "max_iter=4"]
    fit = ["fit", data, "-o", model, *learning, "--checkpoint", str(folder / "kept")]
    assert run_together(2, command, str(folder), *fit) == [0, 0], (folder / "err-0.txt").read_text()
    printed = [(folder / f"out-{rank}.txt").read_text() + (folder / f"err-{rank}.txt").read_text() for rank in range(2)]
    assert "20 features learned from 1,797 vectors" in printed[0]
    assert printed[1] == ""
    assert run_together(2, command, str(folder), "transform", model, data, "-o", str(folder / "f.npy")) == [0, 0]
    return folder, fit


def test_commands_in_two_processes(commanded, digits):
    folder, _ = commanded
    names = {path.name for path in folder.iterdir() if path.suffix != ".txt"}
    assert names == {"x", "kept", "model.epls", "f.part0.npy", "f.part1.npy"}
    assert [path.name for path in (folder / "kept").iterdir()] == [".lock"]
    model = load_model(folder / "model.epls")
    features = open_shards(str(folder / "f.part*.npy"))
    assert features.shape == (1797, 20)
    codes = np.concatenate([features.read(k) for k in range(len(features.sizes))])
    assert_allclose(codes, model.transform(digits), atol=1e-6)


def test_a_restart_after_the_end_finds_all_done(commanded):
    """torchrun starts all processes again if one is killed after the model was written."""
    folder, fit = commanded
    before = Path(folder, "model.epls").read_bytes()
    restarted = {"TORCHELASTIC_RESTART_COUNT": "1"}
    assert run_together(2, command, str(folder), *fit, environment=restarted) == [0, 0]
    assert Path(folder, "model.epls").read_bytes() == before
    codes = run_together(2, command, str(folder), *fit)
    assert codes == [1, 1]
    assert "already exists" in Path(folder, "err-0.txt").read_text()
    assert "another of the processes" in Path(folder, "err-1.txt").read_text()


def test_commands_for_one_process(monkeypatch, capsys, tmp_path):
    from epls.cli.main import run

    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run(["inspect", str(tmp_path / "model.epls")]) == 2
    assert "inspect runs in one process, but 2 were started" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "two")
    assert run(["fit", str(tmp_path), "-o", str(tmp_path / "m")]) == 1
    assert "WORLD_SIZE='two' in the environment is not a number" in capsys.readouterr().err


def test_an_incomplete_environment(digits, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match="start them with torchrun"):
        EPLS(4).fit(Shard(digits))
