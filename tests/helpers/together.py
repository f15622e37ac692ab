"""Processes that learn together on this machine, and what they do in the tests of :mod:`epls.torch.distributed`.

They find each other at the loopback address, and listen nowhere else.
"""

import faulthandler
import json
import multiprocessing
import os
import socket
from pathlib import Path

import numpy as np
from killed_process import kill_at_call
from sklearn.datasets import load_digits

UNEQUAL = (0.2, 0.45)  # where the samples are cut into parts
SETTINGS = {"max_iter": 4, "random_state": 0}


def run_together(n_processes, function, *arguments, environment=None):
    """The exit codes of processes that call ``function(rank, n_processes, *arguments)`` at the same time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["epls.torch.distributed", "epls.learners.epls", "epls.cli.main"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": str(n_processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        context.Process(target=_child, args=(function, arguments, common | {"RANK": str(rank)} | (environment or {})))
        for rank in range(n_processes)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        if process.is_alive():
            process.kill()
            process.join()
    return [process.exitcode for process in processes]


def _child(function, arguments, environment):
    from threadpoolctl import threadpool_limits

    os.environ.update(environment)
    faulthandler.dump_traceback_later(50, exit=True)  # tells where it hangs
    with threadpool_limits(1):
        function(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), *arguments)


def part_of(X, rank, n_processes):
    """Parts of unequal size: 20, 25 and 55 % for three processes, 20 and 80 % for two."""
    cuts = [0, *(int(share * len(X)) for share in UNEQUAL[: n_processes - 1]), len(X)]
    return X[cuts[rank] : cuts[rank + 1]]


def trained_models():
    from epls import EPLS, Prototypes, SparseAutoencoder, SparseRBM
    from epls.algorithm.settings import TrainingSettings

    exact = TrainingSettings(target="exact", loss="squared", biases="quantile")
    return {
        "epls": EPLS(20, **SETTINGS),
        "again": EPLS(20, **SETTINGS),
        "odd batches": EPLS(20, batch_size=33, **SETTINGS),
        "exact": EPLS(20, settings=exact, **SETTINGS),
        "torch": EPLS(20, device="cpu", **SETTINGS),
        "no seed": EPLS(20, max_iter=2),
        "prototypes": Prototypes(20, **SETTINGS),
        "autoencoder": SparseAutoencoder(10, **SETTINGS),
        "rbm": SparseRBM(10, **SETTINGS),
    }


def learn(rank, n_processes, folder):
    """Fit every kind of model, and keep what each process has learned."""
    from epls.torch import Shard

    X = load_digits().data.astype(np.float32)
    learned = {}
    for name, model in trained_models().items():
        model.fit(Shard(part_of(X, rank, n_processes)))
        assert model.n_features_in_ == 64
        learned[name] = model.components_
        learned[f"{name}: loss"] = np.array(model.loss_curve_)
        if hasattr(model, "epoch_reports_"):
            learned[f"{name}: spread"] = np.array([report.win_spread for report in model.epoch_reports_])
    np.savez(Path(folder, f"{n_processes}-{rank}.npz"), **learned)


def be_refused(rank, n_processes, folder):
    """Give samples and settings that cannot be learned from together, and keep what each process is told."""
    from epls import EPLS, OMP, SparseRBM
    from epls.algorithm.settings import TrainingSettings
    from epls.torch import Shard

    X = np.random.RandomState(rank).normal(size=(60, 5))
    with_nan = np.where(np.arange(300).reshape(60, 5) == 7, np.nan, X) if rank == 1 else X
    cases = {
        "nan": lambda: EPLS(4).fit(Shard(with_nan)),
        "width": lambda: EPLS(4).fit(Shard(X[:, : 5 - rank])),
        "settings": lambda: EPLS(4 + rank).fit(Shard(X)),
        "few": lambda: SparseRBM(4, batch_size=1).fit(Shard(X[: 1 + 50 * rank])),
        "vsgd": lambda: EPLS(4, settings=TrainingSettings(optimizer="vsgd")).fit(Shard(X)),
        "target": lambda: EPLS(4, settings=TrainingSettings(target="largest")).fit(Shard(X)),
        "omp": lambda: OMP(4).fit(Shard(X)),
        "stream": lambda: EPLS(4).partial_fit(Shard(X)),
    }
    told = {}
    for name, case in cases.items():
        try:
            case()
        except (ValueError, TypeError) as error:
            told[name] = f"{type(error).__name__}: {error}"
    Path(folder, f"told-{rank}.json").write_text(json.dumps(told))


def learn_with_checkpoints(rank, n_processes, folder, kill_at=None):
    """Train with a checkpoint after every batch; one process may kill itself, and the others keep what they hear."""
    from epls import EPLS, Checkpoint
    from epls.torch import Shard

    X = load_digits().data.astype(np.float32)
    if kill_at is not None and rank == kill_at[0]:
        kill_at_call("epls.algorithm.target:AuctionTarget", "fill", kill_at[1])
    model = EPLS(20, **SETTINGS).set_callbacks(Checkpoint(Path(folder, "kept"), seconds=0))
    try:
        model.fit(Shard(part_of(X, rank, n_processes)))
    except ConnectionError as error:
        Path(folder, f"lost-{rank}.txt").write_text(str(error))
        raise SystemExit(3) from error
    np.save(Path(folder, f"resumed-{rank}.npy"), model.components_)


def command(rank, n_processes, folder, *arguments):
    """Run a command, and keep what it prints."""
    from epls.cli.main import run

    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(folder, f"{name}-{rank}.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    raise SystemExit(run(list(arguments)))
