"""What several workers gain: one worker against two, and what is expected of more on machines of their own.

Two workers: each has one thread and a core of its own, and both take turns with one worker. In every turn, two bare
processes that only multiply matrices run side by side, and one alone: what the machine allows.

More workers share the cores of this machine, so what they take together says little. What is measured instead is one
level of the tree along which shards exchange arrays: a chain of workers passes on a single chunk, so that only one of
them works at a time; and the processor time of a further chunk. How many levels and chunks there are is known, so what
8 and 64 workers wait for follows.

The data are made up, or those of a file, on disk, and read by the workers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from logging import CRITICAL
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # workers set their own

import distributed
import history
import numpy as np
from distributed import Client, LocalCluster

from epls import EPLS, open_shards
from epls.algorithm.activations import LOGISTIC
from epls.algorithm.engine import BatchReport, Objective
from epls.algorithm.training import Training
from epls.distributed import fit, fitting, transform, tree
from epls.distributed.cluster import DaskShards, LocalShards
from epls.distributed.shard import Found, Place, Settings, Step

GIGABIT = 1.25e5  # bytes a millisecond
N_BELOW = tree._N_BELOW


class StepClock:
    """Seconds of every step's call of the shards, and of the slowest shard's work in it."""

    def __init__(self) -> None:
        self.calls: list[float] = []
        self.computed: list[float] = []
        self._gradient = fitting.ShardedEngine.gradient

    def __enter__(self) -> StepClock:
        def timed(layer, *arguments):
            started = perf_counter()
            found = self._gradient(layer, *arguments)
            self.calls.append(perf_counter() - started)
            self.computed.append(layer.compute_seconds)
            return found

        fitting.ShardedEngine.gradient = timed
        return self

    def __exit__(self, *exception: object) -> None:
        fitting.ShardedEngine.gradient = self._gradient


def pin(core: int) -> None:
    """Let all threads of this process run on one core only; those that they start do so, too."""
    if hasattr(os, "sched_setaffinity"):
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), {core})


@contextmanager
def cluster(n_workers: int, pinned: bool = False) -> Iterator[Client]:
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=CRITICAL) as local,
        Client(local) as client,
    ):
        if pinned:
            cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
            for number, worker in enumerate(sorted(client.run(os.getpid))):
                client.run(pin, cores[-1 - number % len(cores)], workers=[worker])
        yield client


def multiply(number: int, n_times: int, together: Any, seconds: Any) -> None:
    """Bare products of the size of a step's, in a process of its own: the first one alone, then both together."""
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        pin(cores[-1 - number % len(cores)])
    A, B = np.ones((1600, 300), np.float32), np.ones((300, 1600), np.float32)
    out = np.empty((1600, 1600), np.float32)
    np.matmul(A, B, out)
    for alone in (True, False):
        together.wait()
        if number == 0 or not alone:
            started = perf_counter()
            for _ in range(n_times):
                np.matmul(A, B, out)
            seconds.put((alone, perf_counter() - started))


def gain_of_bare_products(n_times: int) -> float:
    """What two processes do side by side, against one alone: 2 if they do not slow each other down."""
    context = multiprocessing.get_context("spawn")
    together, seconds = context.Barrier(2), context.Queue()
    processes = [context.Process(target=multiply, args=(number, n_times, together, seconds)) for number in range(2)]
    for process in processes:
        process.start()
    taken = [seconds.get(timeout=600) for _ in range(3)]
    for process in processes:
        process.join()
    return 2 * max(time for alone, time in taken if alone) / max(time for alone, time in taken if not alone)


def fit_seconds(model: EPLS, shards, client, n_shards: int) -> tuple[float, dict[str, float], EPLS]:
    """The median seconds of an epoch, without the first, and the milliseconds of a step's parts."""
    with StepClock() as clock:
        fitted = fit(model, shards, client, n_shards=n_shards)
    epoch = float(np.median([report.seconds for report in fitted.epoch_reports_[1:]]))
    n_steps = len(clock.calls) // fitted.n_iter_
    computed, called = np.median(clock.computed[n_steps:]), np.median(clock.calls[n_steps:])
    parts = {"compute": computed, "wait": called - computed, "update": max(epoch / n_steps - called, 0.0)}
    return epoch, {name: 1e3 * float(value) for name, value in parts.items()}, fitted


def transform_seconds(model: EPLS, shards, client) -> float:
    """Of encoding all samples, twice; the codes stay on the workers, which return their sums."""
    client.compute(transform(model, shards)[:5000].sum(axis=0)).result()  # kernels and model are there
    codes = [transform(model, shards) for _ in range(2)]
    started = perf_counter()
    client.gather(client.compute([code.sum(axis=0) for code in codes]))
    return (perf_counter() - started) / len(codes)


def two_workers(shards, new_model, n_rounds: int, n_products: int) -> dict[str, Any]:
    """Medians of as many rounds, one worker and two by turns: other work on the machine hits both."""
    epochs, encodes, costs = ({n: [] for n in (1, 2)} for _ in range(3))
    bare = []
    for _ in range(n_rounds):
        bare.append(gain_of_bare_products(n_products))
        for n_workers in (1, 2):  # a cluster at a time: workers of dask are busy a little even when idle
            with cluster(n_workers, pinned=True) as client:
                epoch, cost, fitted = fit_seconds(new_model(), shards, client, n_workers)
                epochs[n_workers].append(epoch)
                costs[n_workers].append(cost)
                encodes[n_workers].append(transform_seconds(fitted, shards, client))
    costs = {n: {part: float(np.median([c[part] for c in some])) for part in some[0]} for n, some in costs.items()}
    for n_workers, c in costs.items():
        print(
            f"{f'{n_workers} x 1 thread':12}{np.median(epochs[n_workers]):8.2f}s{np.median(encodes[n_workers]):8.2f}s"
            f"{c['compute']:18.1f}{c['wait']:7.1f}{c['update']:9.1f}"
        )
    gains = {
        "fit, two workers": np.divide(epochs[1], epochs[2]),
        "transform, two workers": np.divide(encodes[1], encodes[2]),
        "bare products, two processes": np.array(bare),
    }
    for name, values in gains.items():
        print(f"{name}: median {np.median(values):.2f} of {', '.join(f'{value:.2f}' for value in sorted(values))}")
    return {"costs": costs, "gains": {name: float(np.median(values)) for name, values in gains.items()}}


def set_tree(n_below: int) -> None:
    """Runs on workers, too."""
    tree._N_BELOW = n_below


def exchange_milliseconds(client: Client, shards, n_below: int, shapes, n_calls: int) -> list[tuple[float, float]]:
    """Of a step with weights of a shape, less the little that is computed: a shard for every worker.

    And of the processor, for all messages of shard 0.
    """
    n_workers = len(client.run(set_tree, n_below))
    set_tree(n_below)
    measured = []
    with fitting.direct(client) as own, own.as_current():
        for shape in shapes:
            workers = DaskShards(own, fitting._parts(shards, n_workers))
            weights = np.zeros(shape, np.float32)
            settings = Settings(Objective(np.zeros(shape[1] - 1), 1.0, LOGISTIC))
            seconds, before = [], 0.0
            for number in range(n_calls + 3):
                if number == 3:
                    before = client.run(thread_time)[workers._homes[0]]  # of the thread that handles messages
                step = Step("gradient", Place(0, number, 1), settings)
                started = perf_counter()
                _, found = workers.combine(step, weights, [np.zeros(shape[0], np.uint8)] * n_workers)
                seconds.append(perf_counter() - started - max(part.seconds for part in found.values()))
            busy = client.run(thread_time)[workers._homes[0]] - before
            workers.close()
            measured.append((1e3 * float(np.median(seconds[3:])), 1e3 * busy / n_calls))
    set_tree(N_BELOW)
    return measured


class CannedShards(LocalShards):
    """Any number of shards that have found something already: what is left is the calling process's own work."""

    def __init__(self, n_shards: int, shape: tuple[int, int], batch_size: int) -> None:
        self.n_shards = n_shards
        self._gradient = np.zeros(shape, np.float32)
        winners = np.random.default_rng(0).permutation(np.arange(batch_size) % shape[0])
        rows = np.zeros(batch_size, np.float32)
        report = BatchReport(winners.astype(np.min_scalar_type(shape[0] - 1)), rows, rows)
        self.content = pickle.dumps(Found(0.0, report))

    def combine(self, step, weights, own=None):
        for given in own:
            pickle.dumps(given)
        self._gradient[...] = 1e-3
        return self._gradient, {number: pickle.loads(self.content) for number in range(self.n_shards)}


@cache
def update_milliseconds(n_shards: int, shape: tuple[int, int], batch_size: int) -> tuple[float, int]:
    """Of the calling process's own work in a step; and the bytes of what a shard found besides the gradient."""
    shards = CannedShards(n_shards, shape, batch_size)
    settings = Settings(Objective(np.zeros(shape[1] - 1), 1.0, LOGISTIC))
    training = Training(np.zeros(shape, np.float32), fitting.ShardedEngine(shards, settings, shape[0]), n_steps=50)
    training.progress.start_epoch(shape[0], np.random.RandomState(0))
    seconds = []
    for number in range(20):
        started = perf_counter()
        training.progress.add(training.step(Place(0, number, batch_size)))
        seconds.append(perf_counter() - started)
    return 1e3 * float(np.median(seconds[3:])), len(shards.content)


class Model:
    """What a step costs with any number of workers on machines of their own, in milliseconds.

    The first chunk of an array comes through the levels of the tree, down and up again, one after the other. In a chain
    a shard sends it to one below, and in the tree to two: half as much again. The other chunks follow, as fast as a
    shard with two below can handle them.

    Attributes
    ----------
    once : float
        For what every exchange needs.
    level : float
        For a chunk to pass a level of a chain, down and up again.
    chunk : float
        The processor time of a shard, with two below, for a further chunk, down and up again.
    byte : float
        For a byte more to pass a level.
    whole : dict
        Of an exchange here, by number of workers.
    """

    def __init__(self, compute: float, shape: tuple[int, int], shards, counts: list[int], n_calls: int) -> None:
        self.compute, self.shape = compute, shape
        pieces = tree.chunks(shape, np.dtype(np.float32))
        self.n_chunks, n_rows = len(pieces), min(pieces[0].stop, shape[0])
        self.chunk_bytes = 4 * n_rows * shape[1]
        chains, self.whole = [], {}
        for n_workers in counts:
            with cluster(n_workers) as client:
                shapes = [(n_rows, shape[1]), (1, shape[1])]
                chains.append([time for time, _ in exchange_milliseconds(client, shards, 1, shapes, n_calls)])
                all_weights, a_chunk = exchange_milliseconds(client, shards, N_BELOW, [shape, shapes[0]], n_calls)
                self.whole[n_workers] = all_weights[0]
                self.chunk = (all_weights[1] - a_chunk[1]) / max(self.n_chunks - 1, 1)
        (self.level, once), (small, _) = (np.polyfit(counts, times, 1) for times in np.transpose(chains))
        self.once = max(float(once), 0.0)
        self.byte = max(self.level - small, 0.0) / (2 * self.chunk_bytes)
        for name, times in zip(("a chunk", "a row"), np.transpose(chains), strict=True):
            print(f"a chain and {name}: " + ", ".join(f"{n}: {t:.1f} ms" for n, t in zip(counts, times, strict=True)))
        print("the tree and all weights: " + ", ".join(f"{n}: {t:.1f} ms" for n, t in self.whole.items()))
        print(
            f"{self.n_chunks} chunks of {self.chunk_bytes / 1e3:.0f} kB; {self.once:.2f} ms once, {self.level:.2f} ms "
            f"a level of a chain ({small:.2f} ms for a row), {self.chunk:.2f} ms for a further chunk"
        )

    def wait(self, n_workers: int, report_bytes: int = 0, network: float | None = None) -> float:
        """For the exchange; ``network`` is its bytes in a millisecond, if it is slower than this machine's loopback."""
        on_the_wire = 0.0 if network is None else 2 * self.chunk_bytes / network  # down and up
        byte = self.byte + (0.0 if network is None else 1 / network)
        if n_workers == 1:
            return self.whole[1] + self.n_chunks * on_the_wire + report_bytes * byte
        n_levels = n_workers.bit_length()  # that of the calling process among them
        first = n_levels * (1.5 * self.level + 2 * on_the_wire)
        others = (self.n_chunks - 1) * max(self.chunk, 2 * on_the_wire)
        # Reports of all shards come to the calling process, those of half of them to shard 0 from below, and so on.
        return self.once + first + others + 2 * n_workers * report_bytes * byte

    def step(self, n_workers: int, factor: int, network: float | None = None) -> float:
        """With batches of ``factor`` times as many samples as were computed with."""
        update, report_bytes = update_milliseconds(n_workers, self.shape, factor * self.shape[0])
        return factor * self.compute + update + self.wait(n_workers, report_bytes, network)

    def gain(self, n_workers: int, factor: int, network: float | None = None) -> float:
        """Against one worker."""
        return n_workers * self.step(1, factor, network) / self.step(n_workers, factor, network)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a .npy file of vectors, of which the first are taken")
    parser.add_argument("--units", type=int, default=1600)
    parser.add_argument("--features", type=int, default=300)
    parser.add_argument("--samples", type=int, default=64_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5, help="one worker and two by turns, so often")
    parser.add_argument("--only", choices=("workers", "model"), help="one of the two parts; the model needs a fit, too")
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    history.add_option(parser)
    arguments = parser.parse_args()
    run = history.Run(arguments)
    if arguments.quick:
        arguments.units, arguments.features, arguments.samples, arguments.epochs = 50, 20, 2000, 2
        arguments.rounds = 1
    results: dict[str, Any] = {
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "libraries": f"numpy {np.__version__}, distributed {distributed.__version__}",
        "load before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }
    with tempfile.TemporaryDirectory() as folder:
        shape = (arguments.samples, arguments.features)
        X = np.random.default_rng(0).laplace(size=shape) if arguments.data is None else np.load(arguments.data, "r")
        X = X[: arguments.samples].astype(np.float32)
        for number, part in enumerate(np.array_split(X, 4)):
            np.save(Path(folder) / f"{number}.npy", part)
        shards = open_shards(folder)

        def new_model() -> EPLS:
            return EPLS(arguments.units, max_iter=arguments.epochs, random_state=0)

        print(f"{'':12}{'epoch':>9}{'encode':>9}   a step: compute   wait   update [ms]")
        alone = new_model().fit(X)
        epoch = float(np.median([report.seconds for report in alone.epoch_reports_[1:]]))
        step_alone = 1e3 * epoch * arguments.units / len(X)
        print(f"{'no cluster':12}{epoch:8.2f}s{'':9}{step_alone:18.1f}", flush=True)
        compute = step_alone
        if arguments.only != "model":
            found = two_workers(shards, new_model, arguments.rounds, 5 if arguments.quick else 100)
            compute = found["costs"][1]["compute"]
            results |= found["gains"]
        if arguments.only != "workers":
            counts = [1, 2] if arguments.quick else [1, 2, 4, 8]
            model = Model(compute, (arguments.units, X.shape[1] + 1), shards, counts, 3 if arguments.quick else 40)
            results |= {"once a step [ms]": model.once, "a level [ms]": model.level, "a chunk [ms]": model.chunk}
            for n_workers, measured in model.whole.items():
                results[f"wait, {n_workers} workers, measured here [ms]"] = measured
                results[f"wait, {n_workers} workers, by the model [ms]"] = model.wait(n_workers)
            for n_workers in (8, 64):
                for factor in (1, 4):
                    name = f"{n_workers} workers, batches of {factor * arguments.units}"
                    results[f"expected, {name}"] = model.gain(n_workers, factor)
                    against = n_workers * factor * step_alone / model.step(n_workers, factor)
                    results[f"expected against no cluster, {name}"] = against
                    results[f"expected with 1 Gbit/s, {name}"] = model.gain(n_workers, factor, GIGABIT)
    for name, value in results.items():
        print(f"{name}: {value:.2f}" if isinstance(value, float) else f"{name}: {value}")
    print(json.dumps(results, allow_nan=False))
    run.add(gains={name: value for name, value in results.items() if name.startswith(("fit", "transform", "expected"))})
    run.finish()


if __name__ == "__main__":
    main()
