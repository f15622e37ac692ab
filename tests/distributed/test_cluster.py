"""Training and encoding with real worker processes, some of which die."""

import dataclasses
import logging
import os
import signal
import sys
import threading
import types
from contextlib import contextmanager

import dask
import dask.array as da
import distributed
import numpy as np
import pytest
from distributed import Client, Future, LocalCluster
from killed_process import kill_at_call
from numpy.testing import assert_array_equal
from sklearn.base import clone

from epls import EPLS, open_shards
from epls.algorithm.activations import LOGISTIC
from epls.callbacks import OnEpoch
from epls.distributed import cluster as cluster_module
from epls.distributed import fit, transform
from epls.distributed.exchange import Link

pytestmark = pytest.mark.slow


@contextmanager
def two_workers():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL) as local,
        Client(local) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


@pytest.fixture
def mortal_client():
    """Of workers that may die: a cluster for one test, as nobody knows how long a new worker takes to start."""
    with two_workers() as client:
        yield client


@pytest.fixture
def shards(tmp_path):
    """Three files on a disk that all workers share."""
    X = np.random.RandomState(0).normal(size=(3000, 20)).astype(np.float32)
    X[:1500] *= 2
    for number, part in enumerate(np.split(X, [500, 1750])):
        np.save(tmp_path / f"{number}.npy", part)
    return open_shards(tmp_path)


def new_model():
    return EPLS(40, max_iter=5, random_state=0)


def assert_same(model, other):
    assert_array_equal(model.components_, other.components_)
    assert_array_equal(model.intercept_, other.intercept_)
    assert model.loss_curve_ == other.loss_curve_


@pytest.fixture
def expected(shards, one_thread):
    """Computed in this process, without a cluster."""
    return fit(new_model(), shards, n_shards=3)


@pytest.fixture
def one_thread():
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


def test_a_cluster_gives_the_bits_of_one_process(client, shards, expected):
    assert_same(fit(new_model(), shards, client, n_shards=3), expected)
    assert_same(fit(new_model(), shards, client.scheduler.address, n_shards=3), expected)
    with_a_shard_for_each = fit(new_model(), shards, client)
    assert_same(with_a_shard_for_each, fit(new_model(), shards, n_shards=2))


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("method", "n_calls"), [("moments", 1), ("gradient", 7), ("largest_net", 1)])
def test_a_worker_killed_in_any_phase(mortal_client, shards, expected, method, n_calls):
    """It dies while a shard computes; whoever takes over gives the same bits."""
    (address, pid), *_ = mortal_client.run(os.getpid).items()
    mortal_client.run(kill_at_call, "epls.distributed.shard:Shard", method, n_calls, workers=[address])
    model = fit(new_model(), shards, mortal_client, n_shards=3)
    assert not is_alive(pid)
    assert_same(model, expected)
    assert all(report.win_spread <= 3 for report in model.epoch_reports_)


@pytest.mark.parametrize(
    ("owner", "method", "n_calls", "sent"),
    [
        ("_Joining", "join", 2, signal.SIGKILL),
        ("Link", "send", 9, signal.SIGKILL),
        ("Link", "receive", 12, signal.SIGKILL),
        ("_Node", "_combine", 9, signal.SIGSTOP),
    ],
    ids=["joining", "weights", "gradients", "stopped"],
)
def test_a_worker_lost_in_the_exchange(shards, one_thread, owner, method, n_calls, sent):
    """Among seven shards, while arrays pass through it; also one that stops and does not answer any more."""
    # dask gives up a process that stops after this time; on a busy machine it might be wrong about one that is well.
    patience = {"distributed.scheduler.worker-ttl": "5s"} if sent == signal.SIGSTOP else {}
    with dask.config.set(patience), two_workers() as client:
        victim, pid = max(client.run(os.getpid).items())
        client.run(kill_at_call, f"epls.distributed.exchange:{owner}", method, n_calls, sent, workers=[victim])
        model = fit(new_model(), shards, client, n_shards=7)
        assert victim not in client.run(os.getpid)
        if sent == signal.SIGSTOP and is_alive(pid):
            os.kill(pid, signal.SIGKILL)
    assert_same(model, fit(new_model(), shards, n_shards=7))


def test_the_calling_process_talks_to_one_shard_only(client, tmp_path, one_thread, monkeypatch):
    """However many there are, it sends each chunk of the weights once; here there are four."""
    X = np.random.RandomState(0).normal(size=(700, 400)).astype(np.float32)
    np.save(tmp_path / "a.npy", X)
    opened, sent, open_link, send = [], [], Link.open, Link.send

    async def note_and_open(number, tree, connection_args):
        opened.append(number)
        return await open_link(number, tree, connection_args)

    async def note_and_send(link, rows):
        sent.append(len(rows))
        await send(link, rows)

    monkeypatch.setattr(Link, "open", note_and_open)
    monkeypatch.setattr(Link, "send", note_and_send)
    blocks, model = open_shards(tmp_path), EPLS(300, max_iter=3, batch_size=100, random_state=0)
    fitted = fit(model, blocks, client, n_shards=7)
    assert opened == [0]
    assert sent == [81, 81, 81, 57] * 4  # three epochs of one step, and the pass that wakes
    assert_same(fitted, fit(clone(model), blocks, n_shards=7))


def test_a_worker_killed_when_it_has_just_got_a_shard(mortal_client, shards, expected, monkeypatch):
    pid = next(iter(mortal_client.run(os.getpid).values()))
    killed = []
    wait_for_result = Future.result

    def kill_and_wait(future, timeout=None):
        if "WorkerShard" in future.key and not killed:
            distributed.wait(future)
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)
        return wait_for_result(future, timeout=timeout)

    monkeypatch.setattr(Future, "result", kill_and_wait)
    assert_same(fit(new_model(), shards, mortal_client, n_shards=3), expected)
    assert killed


def test_settings_that_a_worker_cannot_use(client, shards):
    """A module that only this process has."""
    module = types.ModuleType("only_here")
    exec("def value(net):\n    return 1 / (1 + __import__('numpy').exp(-net))", module.__dict__)
    sys.modules["only_here"] = module
    module.value.__module__ = "only_here"
    with pytest.raises(RuntimeError, match="cannot use the model's settings"):
        fit(EPLS(8, activation=dataclasses.replace(LOGISTIC, name="mine", value=module.value)), shards, client)
    del sys.modules["only_here"]


def test_a_function_that_workers_cannot_import_travels(client, shards, one_thread):
    mine = dataclasses.replace(LOGISTIC, name="mine", value=lambda net: LOGISTIC.value(net))
    model = EPLS(8, activation=mine, batch_size=500, max_iter=2, random_state=0)
    assert_same(fit(model, shards, client, n_shards=3), fit(clone(model), shards, n_shards=3))


def test_a_persisted_array(client):
    X = da.random.normal(size=(100, 4), chunks=(50, 4))
    with pytest.raises(TypeError, match="is persisted"):
        fit(EPLS(4), client.persist(X), client)
    model = fit(
        EPLS(4, max_iter=2, random_state=0), da.ones((100, 4), chunks=(50, 4)) * np.arange(100)[:, None], client
    )
    assert model.mean_.tolist() == [49.5] * 4


def test_codes_are_computed_by_the_workers(client, shards, expected):
    codes = transform(expected, shards)
    total = client.compute(codes.sum(axis=0)).result()
    here = np.concatenate(list(expected.iter_transform(shards)))
    np.testing.assert_allclose(total, here.sum(axis=0), rtol=1e-4)
    assert_array_equal(client.compute(codes[2990:]).result(), here[2990:])


def test_an_error_in_a_shard_is_told_once_and_as_it_is(client, tmp_path):
    X = np.zeros((50, 4), np.float32)
    X[::2] = 1
    X[33, 2] = np.nan
    np.save(tmp_path / "a.npy", X)
    blocks = open_shards(tmp_path)
    with pytest.raises(ValueError, match="NaN or infinite"):
        fit(EPLS(4), blocks, client, n_shards=2)
    (tmp_path / "a.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.npy"):
        fit(EPLS(4), blocks, client, n_shards=2)


def test_without_workers_it_says_so(shards, monkeypatch):
    monkeypatch.setattr(cluster_module, "_PATIENCE", 0.5)
    with (
        LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=logging.CRITICAL) as local,
        Client(local) as empty,
        pytest.raises(ConnectionError, match=r"no worker that answers for 0.5 s.*Checkpoint"),
    ):
        fit(new_model(), shards, empty)


def test_a_scheduler_that_is_lost_meanwhile(shards):
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        local = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL)
        closing = threading.Thread(target=local.close)

        def close(epoch, total):
            if epoch == 2:
                closing.start()

        with Client(local) as client, pytest.raises(ConnectionError, match=r"no longer answers|no worker"):
            fit(EPLS(40, max_iter=200, random_state=0).set_callbacks(OnEpoch(close)), shards, client)
    closing.join()
