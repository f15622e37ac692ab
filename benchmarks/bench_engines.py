"""What a step of data-parallel training costs on the engines that exist: dask's tasks, dask's actors, torch, Ray.

Every engine does the same: weights go to the workers (or are there), each computes the gradient of its batch with one
thread, and the sum of the gradients comes back. What is not installed is left out.

    python benchmarks/bench_engines.py --engines dask-tasks dask-actors gloo ray
"""

import argparse
import functools
import importlib.util
import multiprocessing
import os
import sys
from time import perf_counter

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from epls.algorithm.activations import LOGISTIC
from epls.algorithm.engine import Objective, new_engine

NEEDED = {"dask-tasks": "distributed", "dask-actors": "distributed", "gloo": "torch", "ray": "ray"}


@functools.cache
def engine_and_data(n_components, n_features, rows):
    X = np.random.RandomState(0).laplace(size=(10 * rows, n_features)).astype(np.float32)
    return new_engine(Objective(np.zeros(n_features), 1.0, LOGISTIC), n_components), X


def work(weights, rows, step):
    """The gradient of a batch, and the seconds that it took."""
    engine, X = engine_and_data(len(weights), weights.shape[1] - 1, rows)
    started = perf_counter()
    some = np.arange(step % 10 * rows, (step % 10 + 1) * rows)
    engine.start_epoch(rows)
    found = engine.gradient(weights, (X, some))
    return found.gradient, perf_counter() - started


class Worker:
    """The same, where state may be kept."""

    def work(self, weights, rows, step):
        return work(weights, rows, step)


def measure(step, options):
    """Median milliseconds of a step and of the slowest worker's part in it."""
    weights = np.zeros((options.units, options.features + 1), np.float32)
    weights[:, :-1] = np.random.RandomState(0).normal(scale=options.features**-0.5, size=weights[:, :-1].shape)
    weights[:, -1] = -np.log(options.units)
    total = np.empty_like(weights)
    seconds, computed = [], []
    for number in range(options.steps + 3):
        started = perf_counter()
        found = step(weights, number)
        total[...] = found[0][0]
        for gradient, _ in found[1:]:
            total += gradient
        seconds.append(perf_counter() - started)
        computed.append(max(each for _, each in found))
    return 1e3 * float(np.median(seconds[3:])), 1e3 * float(np.median(computed[3:]))


def on_dask(n_workers, options, actors):
    from bench_engines import Worker as ImportableWorker
    from bench_engines import work as importable_work
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, direct_to_workers=True) as client,
    ):
        homes = sorted(client.scheduler_info(n_workers=-1)["workers"])
        if actors:
            workers = [client.submit(ImportableWorker, actor=True, pure=False, workers=[home]) for home in homes]
            proxies = [worker.result() for worker in workers]
            return measure(
                lambda weights, step: [
                    call.result() for call in [proxy.work(weights, options.units, step) for proxy in proxies]
                ],
                options,
            )
        return measure(
            lambda weights, step: client.gather(
                [
                    client.submit(importable_work, weights, options.units, step, pure=False, workers=[home])
                    for home in homes
                ]
            ),
            options,
        )


def of_gloo(rank, n_workers, options, port, results):
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=n_workers)

    def step(weights, number):
        gradient, seconds = work(weights, options.units, number)
        distributed.all_reduce(torch.from_numpy(gradient))
        return [(gradient, seconds)]

    measured = measure(step, options)
    if rank == 0:
        results.put(measured)
    distributed.destroy_process_group()


def on_gloo(n_workers, options):
    context = multiprocessing.get_context("spawn")
    results, port = context.Queue(), 20_000 + os.getpid() % 10_000 + n_workers
    processes = [
        context.Process(target=of_gloo, args=(rank, n_workers, options, port, results)) for rank in range(n_workers)
    ]
    for process in processes:
        process.start()
    measured = results.get(timeout=600)
    for process in processes:
        process.join()
    return measured


def on_ray(n_workers, options):
    import ray
    from bench_engines import Worker as ImportableWorker

    ray.init(num_cpus=n_workers, include_dashboard=False, log_to_driver=False, object_store_memory=500_000_000)
    workers = [ray.remote(num_cpus=1)(ImportableWorker).remote() for _ in range(n_workers)]

    def step(weights, number):
        shared = ray.put(weights)
        return ray.get([worker.work.remote(shared, options.units, number) for worker in workers])

    measured = measure(step, options)
    ray.shutdown()
    return measured


ENGINES = {
    "dask-tasks": functools.partial(on_dask, actors=False),
    "dask-actors": functools.partial(on_dask, actors=True),
    "gloo": on_gloo,
    "ray": on_ray,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--units", type=int, default=1600)
    parser.add_argument("--features", type=int, default=300)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    # Workers find functions by name, in this file.
    here = os.path.dirname(os.path.abspath(__file__))
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    print(f"{'engine':14}{'workers':>8}{'step':>9}{'compute':>9}{'rest':>8}   [ms, medians]")
    for name in options.engines:
        if importlib.util.find_spec(NEEDED[name]) is None:
            print(f"{name:14} needs {NEEDED[name]}, which is not installed")
            continue
        for n_workers in (1, 2):
            step, computed = ENGINES[name](n_workers, options)
            print(f"{name:14}{n_workers:8}{step:9.1f}{computed:9.1f}{step - computed:8.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
