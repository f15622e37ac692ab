"""What several workers gain: one worker with one thread against two, in the same run, and what a step costs.

The data are made up, or those of a file, on disk, and read by the workers. From the costs of a step, measured with more
and more workers, follows what 8 and 64 of them would gain on machines of their own, with a network as fast as this
machine's loopback.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import tempfile
from pathlib import Path
from time import perf_counter

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # workers set their own

import history
import numpy as np
from distributed import Client, LocalCluster

from epls import EPLS, open_shards
from epls.algorithm.engines.base import LayerSettings
from epls.distributed import fit, fitting, transform
from epls.distributed.cluster import DaskShards
from epls.distributed.shard import Place, Settings


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


def cluster(n_workers: int) -> LocalCluster:
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")


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
    """Of encoding all samples; the codes stay on the workers, which return their sums."""
    codes = transform(model, shards)
    started = perf_counter()
    client.compute(codes.sum(axis=0)).result()
    return perf_counter() - started


def waiting(model: EPLS, shards, n_workers: int, n_calls: int) -> float:
    """Milliseconds of a call that moves weights and gradients, and computes next to nothing."""
    n_components, n_features = model.components_.shape
    weights = np.zeros((n_components, n_features + 1), np.float32)
    settings = Settings(LayerSettings(model.mean_, model.scale_, model.as_layer().activation))
    counts = np.zeros(n_components, np.int64)
    seconds = []
    with cluster(n_workers) as local, Client(local) as client, fitting.direct(client) as own, own.as_current():
        workers = DaskShards(own, fitting._parts(shards, n_workers))
        for number in range(n_calls + 1):
            started = perf_counter()
            found = workers.call("gradient", [(weights, counts, Place(0, number, 1), settings)] * n_workers)
            seconds.append(perf_counter() - started - max(part.seconds for part in found))
        workers.close()
    return 1e3 * float(np.median(seconds[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a .npy file of vectors, of which the first are taken")
    parser.add_argument("--units", type=int, default=1600)
    parser.add_argument("--features", type=int, default=300)
    parser.add_argument("--batch-size", type=int, help="of a shard; as many as units if left out")
    parser.add_argument("--samples", type=int, default=64_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3, help="one worker and two by turns, so often")
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    history.add_option(parser)
    arguments = parser.parse_args()
    run = history.Run(arguments)
    if arguments.quick:
        arguments.units, arguments.features, arguments.samples, arguments.epochs = 50, 20, 2000, 2
    results: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        shape = (arguments.samples, arguments.features)
        X = np.random.default_rng(0).laplace(size=shape) if arguments.data is None else np.load(arguments.data, "r")
        X = X[: arguments.samples].astype(np.float32)
        for number, part in enumerate(np.array_split(X, 4)):
            np.save(Path(folder) / f"{number}.npy", part)
        shards = open_shards(folder)

        def new_model() -> EPLS:
            return EPLS(arguments.units, batch_size=arguments.batch_size, max_iter=arguments.epochs, random_state=0)

        alone = new_model().fit(X)
        epoch_alone = float(np.median([report.seconds for report in alone.epoch_reports_[1:]]))
        print(f"{'':12}{'epoch':>9}{'encode':>9}   a step: compute   wait   update [ms]")
        step_alone = 1e3 * epoch_alone * (arguments.batch_size or arguments.units) / len(X)
        print(f"{'no cluster':12}{epoch_alone:8.2f}s{'':9}{step_alone:18.1f}")
        epochs, encodes, costs = ({n: [] for n in (1, 2)} for _ in range(3))
        for _ in range(1 if arguments.quick else arguments.rounds):  # by turns: other work on the machine hits both
            for n_workers in (1, 2):  # a cluster at a time: workers of dask are busy a little even when idle
                with cluster(n_workers) as local, Client(local) as client:
                    epoch, cost, fitted = fit_seconds(new_model(), shards, client, n_workers)
                    epochs[n_workers].append(epoch)
                    costs[n_workers].append(cost)
                    transform_seconds(fitted, shards, client)  # the kernels are compiled
                    encodes[n_workers] += [transform_seconds(fitted, shards, client) for _ in range(2)]
        epochs, encodes = ({n: float(np.median(v)) for n, v in kind.items()} for kind in (epochs, encodes))
        costs = {n: {part: float(np.median([c[part] for c in some])) for part in some[0]} for n, some in costs.items()}
        for n_workers, c in costs.items():
            print(
                f"{f'{n_workers} x 1 thread':12}{epochs[n_workers]:8.2f}s{encodes[n_workers]:8.2f}s"
                f"{c['compute']:18.1f}{c['wait']:7.1f}{c['update']:9.1f}"
            )
        results["fit, two workers"] = epochs[1] / epochs[2]
        results["fit, two workers, against no cluster"] = epoch_alone / epochs[2]
        results["transform, two workers"] = encodes[1] / encodes[2]

        weights = np.zeros((arguments.units, X.shape[1] + 1), np.float32)
        one = fitted.winners(X[:2])
        rows = np.zeros(arguments.units, np.float32)
        out = len(pickle.dumps((weights, np.zeros(arguments.units, np.int64))))
        back = len(pickle.dumps((weights, rows, rows, rows.astype(one.dtype))))
        print(f"\nbytes of a step and worker: {out / 1e6:.2f} MB out, {back / 1e6:.2f} MB back")
        counts = (1, 2) if arguments.quick else (1, 2, 4, 8)
        waits = [waiting(fitted, shards, n, 3 if arguments.quick else 30) for n in counts]
        each, once = np.polyfit(counts, waits, 1)
        print("wait alone, at " + ", ".join(f"{n}: {w:.1f} ms" for n, w in zip(counts, waits, strict=True)))
        print(f"so {max(once, 0):.1f} ms a step, and {each:.1f} ms more for each worker")
        compute, update = costs[1]["compute"], costs[2]["update"]
        single = compute + costs[1]["wait"] + update
        results["wait, once a step [ms]"], results["wait, a worker [ms]"] = once, each
        for n_workers in (8, 64):
            for factor in (1, 4):
                step = factor * compute + update + max(once, 0) + each * n_workers
                expected = n_workers * (factor * compute + single - compute) / step
                results[f"expected at {n_workers} workers, batches of {factor} x {arguments.units}"] = expected
    for name, value in results.items():
        print(f"{name}: {value:.2f}")
    print(json.dumps(results, allow_nan=False))
    run.add(gains={name: value for name, value in results.items() if name.startswith(("fit", "transform", "expected"))})
    run.finish()


if __name__ == "__main__":
    main()
