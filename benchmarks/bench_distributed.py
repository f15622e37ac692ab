"""What several processes gain, what an exchange costs, and what follows for many machines.

    python benchmarks/bench_distributed.py                    # on an idle machine: all three parts
    python benchmarks/bench_distributed.py --only gain        # two processes against one, and bare products beside them
    python benchmarks/bench_distributed.py --only weak        # 1, 2 and 4 processes with as many samples each
    python benchmarks/bench_distributed.py --only scale       # 10^9 samples x 768, 16,384 units, 64 processes

*Gain.* Two processes with one thread each, by turns with one process, on the same samples: seconds of an epoch and of
`transform`. In every turn, the same processes multiply matrices of the sizes of a step: what the machine allows.

*Weak.* Every process has as many samples. A step's time for the exchange is measured apart from the rest.

*Exchange.* All-reduces of 4 bytes to 64 MB. gloo's ring of n processes sends 2 (n - 1) messages one after the other and
2 (n - 1) / n of the bytes, so a step with n processes is expected to take

    compute + 2 (n - 1) latency + 2 (n - 1) / n bytes / bandwidth.

*Scale.* A few steps of one process with 16,384 units and 768 features are measured; the rest is calculated.

The processes find each other at the loopback address. They are pinned to the cores, by turns.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # a thread for each process

import history
import numpy as np

SIZES = [4, 2**10, 2**16, 2**20, 2**23, 2**26]  # bytes of an all-reduce
GIGABIT = 1.25e8  # bytes a second


def in_processes(n_processes, task, **settings):
    """What each of so many processes returns for a task."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": str(n_processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, __file__, "--work", json.dumps([task, settings])]
    started = [
        subprocess.Popen(command, env=os.environ | common | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(n_processes)
    ]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"a process failed: {[process.returncode for process in started]}")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def work(task, settings):
    """What one of the processes does."""
    rank = int(os.environ["RANK"])
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[-1 - rank % len(cores)]})
    print(json.dumps({"fit": work_fit, "reduce": work_reduce, "step": work_step}[task](rank, **settings)))


def work_fit(rank, path, cut, units, epochs, n_products):
    """Seconds of an epoch, of its exchanges and updates, of `transform`, and of bare products."""
    from epls import EPLS
    from epls.torch import Shard, distributed

    X = np.load(path, mmap_mode="r")
    size = int(os.environ["WORLD_SIZE"])
    own = np.array(X[len(X) * rank // size : len(X) * (rank + 1) // size] if cut else X)
    distributed.connect()
    waited, add_up = [], distributed.Processes.add_up

    def timed_add_up(*arguments):
        started = perf_counter()
        add_up(*arguments)
        waited.append(perf_counter() - started)

    distributed.Processes.add_up = timed_add_up
    model = EPLS(units, batch_size=units, max_iter=epochs, random_state=0).fit(Shard(own))
    n_steps = model.n_iter_ * -(-len(own) // units)
    epoch = float(np.median([report.seconds for report in model.epoch_reports_[1:]]))
    exchange = float(np.sum(waited)) / n_steps

    def together(function):
        if size > 1:
            distributed.Processes().from_first(b"")
        started = perf_counter()
        function()
        return perf_counter() - started

    inputs, outputs = np.ones((units, own.shape[1]), np.float32), np.empty((units, units), np.float32)

    def multiply():
        for _ in range(n_products):
            np.matmul(inputs, inputs.T, outputs)

    multiply()
    encoded = together(lambda: model.transform(own))
    return {"epoch": epoch, "step": epoch * model.n_iter_ / n_steps, "exchange": exchange, "transform": encoded,
            "rows": len(own), "products": together(multiply) / n_products}  # fmt: skip


def work_reduce(rank, n_times):
    """Seconds of an all-reduce by its bytes, the median of several."""
    from epls.torch.distributed import Processes, connect

    connect()
    processes, seconds = Processes(), {}
    for size in SIZES:
        array, taken = np.ones(size // 4, np.float32), []
        for _ in range(max(3, min(n_times, 2**28 // size))):
            started = perf_counter()
            processes.add_up(array)
            taken.append(perf_counter() - started)
        seconds[size] = float(np.median(taken))
    return seconds


def work_step(rank, units, features, n_steps):
    """Seconds of a step of one process and of its update, with made-up samples, and the memory that it needed."""
    from common import peak_gibibytes

    from epls.algorithm.activations import LOGISTIC
    from epls.algorithm.engine import Objective, new_engine
    from epls.algorithm.training import Training, initial_weights
    from epls.utils.threads import one_blas_thread

    random = np.random.RandomState(0)
    X = random.standard_normal((units * 2, features)).astype(np.float32)
    engine = new_engine(Objective(np.zeros(features), 1.0, LOGISTIC), units)
    training = Training(initial_weights(units, features, random, np.dtype(np.float32)), engine, n_steps=100)
    seconds = []
    with one_blas_thread():
        for _ in range(n_steps + 1):  # the first one compiles
            started = perf_counter()
            training.step((X, random.permutation(len(X))[:units]))
            seconds.append(perf_counter() - started)
    return {"step": float(np.median(seconds[1:])), "gibibytes": peak_gibibytes()}


def gain(path, options):
    """Two processes against one, by turns: how many times as fast."""
    gains = {"fit": [], "transform": [], "bare products": []}
    settings = {"path": str(path), "cut": True, "units": options.units, "epochs": options.epochs,
                "n_products": options.products}  # fmt: skip
    for _ in range(options.rounds):
        (one,), two = in_processes(1, "fit", **settings), in_processes(2, "fit", **settings)
        gains["fit"].append(one["epoch"] / max(found["epoch"] for found in two))
        gains["transform"].append(one["transform"] / max(found["transform"] for found in two))
        gains["bare products"].append(2 * one["products"] / max(found["products"] for found in two))
        print({name: round(values[-1], 2) for name, values in gains.items()}, flush=True)
    for name, values in gains.items():
        print(f"{name}: {np.median(values):.2f} times ({min(values):.2f} to {max(values):.2f})")
    return {f"gain of the second process, {name}": float(np.median(values)) for name, values in gains.items()}


def weak(path, options):
    """The time of a step and of its exchange, with 1, 2 and 4 processes."""
    found = {}
    for n in (1, 2, 4):
        of_all = in_processes(n, "fit", path=str(path), cut=False, units=options.units, epochs=options.epochs,
                              n_products=1)  # fmt: skip
        step, exchange = (1e3 * float(np.median([one[name] for one in of_all])) for name in ("step", "exchange"))
        found |= {f"step, {n} processes [ms]": step, f"exchange, {n} processes [ms]": exchange}
        print(f"{n} processes: a step {step:.1f} ms, of it exchange {exchange:.1f} ms", flush=True)
    return found


def exchange(options):
    """Seconds of a message, and bytes a second, by all-reduces of two and four processes."""
    seconds = {n: in_processes(n, "reduce", n_times=options.reduces)[0] for n in (2, 4)}
    for n, of_sizes in seconds.items():
        print(f"all-reduce of {n}: " + ", ".join(f"{int(k):,} B {1e3 * s:.2f} ms" for k, s in of_sizes.items()))
    largest = str(SIZES[-1])
    return seconds[2][str(SIZES[0])] / 2, SIZES[-1] / seconds[2][largest]


def exchanged(n, n_bytes, latency, bandwidth):
    """Seconds of an exchange between n processes on machines of their own, by the model."""
    return 2 * (n - 1) * latency + 2 * (n - 1) / n * n_bytes / bandwidth


def scale(options, latency, bandwidth):
    """10^9 samples, by steps that are measured and by the model of the exchange."""
    units, features = (256, 64) if options.quick else (16_384, 768)
    n, n_samples, epochs = 64, 10**9, 20
    (found,) = in_processes(1, "step", units=units, features=features, n_steps=options.steps)
    n_bytes, n_steps = 4 * units * (features + 1), epochs * -(-n_samples // (n * units))
    print(f"measured: a step of one process with one thread {found['step']:.2f} s, {found['gibibytes']:.2f} GiB")
    sent = 2 * (n - 1) / n * n_bytes * n_steps / 1e12
    print(f"calculated: {n_steps:,} steps in {epochs} epochs; {sent:.2f} TB sent by each process")
    for name, speed in (("this loopback", bandwidth), ("10 Gbit/s", 10 * GIGABIT), ("1 Gbit/s", GIGABIT)):
        wait = exchanged(n, n_bytes, latency, speed)
        hours = n_steps * (found["step"] + wait) / 3600
        print(f"calculated, {name}: exchange {wait:.2f} s, {hours:.1f} h with one thread for each process")
    return {"a step with 16,384 units and 768 features": found["step"]}


def main():
    if sys.argv[1:2] == ["--work"]:
        task, settings = json.loads(sys.argv[2])
        work(task, settings)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=1600)
    parser.add_argument("--features", type=int, default=300)
    parser.add_argument("--samples", type=int, default=64_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5, help="one process and two by turns, so often")
    parser.add_argument("--only", choices=("gain", "weak", "scale"))
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    history.add_option(parser)
    options = parser.parse_args()
    run = history.Run(options)
    options.products, options.reduces, options.steps = 40, 100, 3
    if options.quick:
        options.units, options.features, options.samples, options.rounds = 100, 50, 4000, 1
        options.products, options.reduces, options.steps = 5, 5, 1
    gains, seconds = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.npy")
        X = np.random.default_rng(0).laplace(size=(options.samples, options.features))
        np.save(path, X.astype(np.float32))
        if options.only in (None, "gain"):
            gains = gain(path, options)
        if options.only in (None, "weak"):
            seconds |= {name: value / 1e3 for name, value in weak(path, options).items()}
    if options.only in (None, "scale"):
        latency, bandwidth = exchange(options)
        print(f"latency of a message {1e6 * latency:.0f} µs, {bandwidth / 1e9:.2f} GB/s")
        seconds |= {"latency": latency} | scale(options, latency, bandwidth)
    run.add(gains=gains, seconds=seconds)
    run.finish()


if __name__ == "__main__":
    main()
