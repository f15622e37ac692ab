"""Training by several processes, each with its own part of the samples, with ``torch.distributed``.

Every process runs the same program, started by ``torchrun``, Slurm or Kubernetes, and gives its samples as a
:class:`Shard`. In each step, every process takes a mini-batch of its own samples, finds the winners in it, and computes
the gradient; one all-reduce adds up the gradients. All processes then take the same step. So their weights stay equal
and are never sent.

*Balance.* All processes know the sizes of all mini-batches, so each of them knows which wins the others will assign.
Over all processes, the wins of any two units differ by at most one after every step, see :func:`shares`.

*The same bits.* Sums over processes are those of gloo's ring, and moments are merged in the order of the processes. So
a seed fixes the result for a number of processes, and one process learns what ``fit`` without shards learns.

*Failures.* If a process dies, its connections close, and the others raise a ``ConnectionError``. The first process
writes checkpoints; after a restart, it sends the newest one to the others, which check it as if it were a file.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from ..algorithm.engine import BatchGradient, BatchReport, Engine
from ..algorithm.target import BalancedTarget
from ..data.moments import Moments
from ..data.samples import Array as Stored
from ..data.samples import PartOfSamples, Samples
from ..data.shuffling import batch_cuts
from ..utils.types import Array, Indices

ShardBatch = tuple[Stored, Indices, NDArray[np.int64]]  # a batch, and the number of rows of each process
_Counts = NDArray[np.int64]

#: After this time without a message, a process is considered lost. One that dies is noticed at once.
PATIENCE = timedelta(minutes=10)


class Shard(PartOfSamples):
    """The samples of this process, in a program that several processes run at the same time.

    Give it to ``fit`` of :class:`epls.EPLS`, :class:`epls.Prototypes`, :class:`epls.SparseAutoencoder` or
    :class:`epls.SparseRBM`. All processes must call ``fit`` with the same settings. The model is then the same in all
    of them, so let one of them save it. A step uses a mini-batch of each process; parts may have different sizes.

    The processes are those of the default group of ``torch.distributed``. If there is none, it is created from the
    environment that ``torchrun`` sets (``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR``, ``MASTER_PORT``). A program that runs
    in a single process learns from its part alone.

    Parameters
    ----------
    X : array-like, zarr array, dask array or Blocks of shape (n_own_samples, n_features)
        The samples of this process; see ``fit``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS
    >>> from epls.torch import Shard
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = EPLS(10, max_iter=3, random_state=0).fit(Shard(X))
    """

    def __init__(self, X: Any) -> None:
        self.X = X

    def __array__(self, *arguments: Any, **settings: Any) -> Any:
        """Refuse to be used as an array."""
        raise TypeError("a Shard is only for fit of a learner that several processes can train: give its X instead")

    def samples(self, own: Callable[[], Samples], learner: str) -> Samples:
        connect()
        return own() if n_processes() == 1 else ShardSamples(Processes(), own, learner)


def n_processes() -> int:
    """Return the number of processes that learn together."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def connect(device: str | None = None) -> None:
    """Create the default group of processes from the environment, if several were started and there is none.

    Without ``torchrun``, the first process listens only at ``MASTER_ADDR``. If this is the loopback address, the
    processes connect to each other only through it.
    """
    if distributed.is_initialized() or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return
    try:
        rank, size, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
        address = os.environ["MASTER_ADDR"]
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"WORLD_SIZE={os.environ['WORLD_SIZE']} says that there are several processes, but RANK, MASTER_ADDR and "
            f"MASTER_PORT do not say how they find each other ({error}): start them with torchrun"
        ) from error
    if address in ("localhost", "127.0.0.1", "::1"):
        loopback = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), None)
        if loopback is not None:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    backend = "nccl" if device is not None and device.startswith("cuda") else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    with _told("did not start, or cannot be reached"):
        if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun listens there
            store = distributed.TCPStore(address, port, timeout=PATIENCE, wait_for_workers=False)
        else:
            listening = socket.create_server((address, port)).detach() if rank == 0 else None
            store = distributed.TCPStore(
                address, port, size, rank == 0, PATIENCE, master_listen_fd=listening, use_libuv=listening is None
            )
        # torchrun keeps its store when it restarts the processes: they must not find the addresses of earlier ones.
        attempt = distributed.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        distributed.init_process_group(backend, store=attempt, rank=rank, world_size=size, timeout=PATIENCE)
    atexit.register(_disconnect)  # its threads would abort a process that ends without it


def _disconnect() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


@contextmanager
def _told(what: str = "was lost") -> Iterator[None]:
    """Turn a failed exchange with another process into an error that says what to do."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise ConnectionError(
            f"another of the processes that learn together {what}: look at its messages, then start all of them again; "
            f"with a checkpoint, they continue"
        ) from error


class Processes:
    """The processes of the default group. All of them must call the same methods in the same order."""

    def __init__(self) -> None:
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
        self._device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        self._buffer = np.empty(0)

    def add_up(self, *arrays: NDArray[Any]) -> None:
        """Replace arrays by their sums over the processes, in one exchange and in the type of the first."""
        n_values = sum(array.size for array in arrays)
        if len(self._buffer) != n_values or self._buffer.dtype != arrays[0].dtype:
            self._buffer = np.empty(n_values, arrays[0].dtype)
        cuts = np.cumsum([0, *(array.size for array in arrays)])
        for array, (start, stop) in zip(arrays, pairwise(cuts), strict=True):
            self._buffer[start:stop] = array.reshape(-1)
        self._reduce(self._buffer, distributed.ReduceOp.SUM)
        for array, (start, stop) in zip(arrays, pairwise(cuts), strict=True):
            array[...] = self._buffer[start:stop].reshape(array.shape)

    def largest(self, array: NDArray[Any]) -> None:
        """Replace an array by the largest values of all processes."""
        self._reduce(array, distributed.ReduceOp.MAX)

    def _reduce(self, array: NDArray[Any], operation: Any) -> None:
        tensor = torch.from_numpy(array).to(self._device)
        with _told():
            distributed.all_reduce(tensor, operation)
        if self._device != "cpu":
            array[...] = tensor.cpu().numpy()

    def gather(self, content: bytes) -> list[bytes]:
        """Return the bytes of each process, in the order of the processes."""
        own = torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)
        sizes = torch.zeros(self.size, dtype=torch.int64, device=self._device)
        sizes[self.rank] = len(content)
        with _told():
            distributed.all_reduce(sizes)
            buffer = torch.zeros(max(int(sizes.max()), 1), dtype=torch.uint8, device=self._device)
            buffer[: len(own)] = own.to(self._device)
            found = [torch.empty_like(buffer) for _ in range(self.size)]
            distributed.all_gather(found, buffer)
        return [part[:n].cpu().numpy().tobytes() for part, n in zip(found, sizes.tolist(), strict=True)]

    def from_first(self, content: bytes) -> bytes:
        """Return the bytes of the first process."""
        with _told():
            size = torch.tensor([len(content)], device=self._device)
            distributed.broadcast(size, 0)
            buffer = torch.zeros(int(size), dtype=torch.uint8)
            if self.rank == 0 and content:
                buffer = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            if len(buffer) > 0:
                buffer = buffer.to(self._device)
                distributed.broadcast(buffer, 0)
        return buffer.cpu().numpy().tobytes()

    def gather_values(self, find: Callable[[], Any]) -> list[Any]:
        """Return the plain values that a function returns in each process. If it fails in one, all raise an error."""
        try:
            own: dict[str, Any] = {"found": find()}
        except (ValueError, TypeError, OSError, MemoryError) as error:
            self.gather(json.dumps({"error": str(error)}, allow_nan=False).encode())
            raise
        found = [json.loads(content) for content in self.gather(json.dumps(own, allow_nan=False).encode())]
        for rank, of_process in enumerate(found):
            if "error" in of_process:
                raise ValueError(f"process {rank} of {self.size} failed: {of_process['error']}")
        return [of_process["found"] for of_process in found]


class ShardSamples(Samples):
    """The samples of all processes. A batch is that of this process, with the number of rows in each process.

    Batches have ``batch_size`` samples in every process, or a multiple of it if a part is larger than others, so that
    every unit can win in each of them. A process that has used all its samples waits for the others with empty batches.
    """

    def __init__(self, processes: Processes, own: Callable[[], Samples], learner: str) -> None:
        self._processes, self.n_parts, self.part = processes, processes.size, processes.rank

        def open_own() -> dict[str, Any]:
            self._own = own()
            (n_samples, n_features), dtype = self._own.shape, self._own.dtype.name
            same = {"n_features": n_features, "type": dtype, "learner": learner}
            return {"n_samples": n_samples, "rows": self._own.some_rows(), "same": same}

        found = processes.gather_values(open_own)
        for rank, of_process in enumerate(found):
            if of_process["same"] != found[0]["same"]:
                raise ValueError(
                    f"process 0 has {found[0]['same']}, but process {rank} has {of_process['same']}: all must have the "
                    f"same settings and samples of the same kind"
                )
        self.sizes = np.array([of_process["n_samples"] for of_process in found], np.int64)
        self.shape = (int(self.sizes.sum()), self._own.shape[1])
        self.dtype = self._own.dtype
        self._some_rows = "".join(of_process["rows"] for of_process in found)
        self._moments: Moments | None = None

    @property
    def moments(self) -> Moments:
        if self._moments is None:
            self._moments = Moments()
            for numbers in self._processes.gather_values(lambda: self._own.moments.numbers().tobytes().hex()):
                self._moments.merge(Moments.from_numbers(np.frombuffer(bytes.fromhex(numbers))))
        return self._moments

    def n_batches(self, batch_size: int, *, drop_last: bool = False) -> int:
        return int(np.max(-(-self.sizes // self._batch_sizes(batch_size))))

    def _batch_sizes(self, batch_size: int) -> _Counts:
        """Return the size of the batches of each process: larger by a whole factor if its part is."""
        n_batches = -(-self.shape[0] // (self.n_parts * batch_size))
        return batch_size * -(-self.sizes // (n_batches * batch_size))

    def epoch(
        self, random: np.random.RandomState, batch_size: int, *, skip: int = 0, n_even: int | None = None
    ) -> Iterator[ShardBatch]:
        own = np.random.RandomState([random.randint(2**31 - 1), self.part])  # each process shuffles in its own way
        n_batches, batch_sizes = self.n_batches(batch_size), self._batch_sizes(batch_size)
        if n_even is not None and self.sizes.min() < n_batches:
            raise ValueError(
                f"process {self.sizes.argmin()} has {self.sizes.min()} of {self.shape[0]} samples, too few for "
                f"{n_batches} mini-batches: give parts of about the same size"
            )
        n_rows = np.zeros((n_batches, self.n_parts), np.int64)
        for of_process, n_samples, size in zip(n_rows.T, self.sizes.tolist(), batch_sizes.tolist(), strict=True):
            sizes = np.diff(batch_cuts(n_samples, size, n_even=n_even))
            of_process[: len(sizes)] = sizes
        batches = self._own.epoch(own, int(batch_sizes[self.part]), skip=skip, n_even=n_even)
        none = np.empty((0, self.shape[1]), self.dtype), np.empty(0, np.intp)
        return ((*next(batches, none), sizes) for sizes in n_rows[skip:])

    def array(self) -> Stored:
        """Return the samples of this process."""
        return self._own.array()

    def shared_engine(self, engine: Engine) -> Engine:
        return ShardEngine(engine, self._processes)

    def add_up(self, *arrays: NDArray[Any]) -> None:
        self._processes.add_up(*arrays)

    def average(self, n_rows: int, *arrays: NDArray[Any]) -> None:
        n_total = np.array([n_rows], arrays[0].dtype)
        for array in arrays:
            array *= n_rows
        self._processes.add_up(*arrays, n_total)
        for array in arrays:
            array /= n_total[0]

    def from_first(self, content: bytes) -> bytes:
        return self._processes.from_first(content)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"samples of each process": self.sizes.tolist()}

    def some_rows(self) -> str:
        return sha256(self._some_rows.encode()).hexdigest()


def shares(counts: _Counts, n_rows: _Counts) -> _Counts:
    """Return how often each unit wins in the batch of each process, given its wins so far and the sizes of batches.

    A process with n rows gives every unit n // n_units wins. The remaining ones go to one unit each: the processes
    take turns with the units in the order of their wins so far, and each begins where the one before ended. So if the
    wins of any two units differed by at most one, they still do.

    Examples
    --------
    >>> shares(np.array([1, 0, 0]), np.array([4, 1]))
    array([[1, 2, 1],
           [0, 0, 1]])
    """
    n_units, order = len(counts), np.argsort(counts, kind="stable")
    wins = np.repeat(n_rows[:, None] // n_units, n_units, axis=1)
    ends = np.cumsum(n_rows % n_units)
    for of_process, start, stop in zip(wins, [0, *ends], ends, strict=False):
        of_process[order[np.arange(start, stop) % n_units]] += 1
    return wins


class ShardEngine(Engine):
    """Adds up what the engines of all processes find."""

    def __init__(self, own: Engine, processes: Processes) -> None:
        settings = own.objective.settings
        if own.objective.needs_factors or settings.drop_last or not isinstance(own.target, BalancedTarget):
            raise ValueError(
                f"several processes can learn together with optimizer='adam', target='auction' or 'exact', and "
                f"drop_last=False, but the settings are {settings!r}"
            )
        self.objective, self.device = own.objective, own.device
        self.target = type(own.target)(own.target.n_components)  # counts the wins in all processes
        self._own, self._processes = own, processes

    def gradient(self, weights: Array, batch: ShardBatch) -> BatchGradient:
        X, rows, n_rows = batch
        wins = shares(self.target.counts, n_rows)
        self.target.counts += wins.sum(axis=0)
        if len(rows) > 0:
            mine = wins[self._processes.rank]
            self._own.target.counts = mine.max() - mine  # so that these wins complete a round
            found = self._own.gradient(weights, (X, rows))
            gradient, winners, live, error = found.gradient, found.report.winners, found.report.live, found.report.error
        else:
            gradient, winners, live, error = np.zeros_like(weights), rows, np.zeros(len(weights), np.int64), 0.0
        counted = np.array([*live, error], weights.dtype)
        self._processes.add_up(gradient, counted)
        report = BatchReport(winners, wins.sum(axis=0), counted[:-1].astype(np.int64), float(counted[-1]))
        return BatchGradient(gradient, report)

    def largest_net(self, weights: Array, batch: ShardBatch) -> Array:
        largest = np.full(len(weights), -np.inf, weights.dtype)
        if len(batch[1]) > 0:
            largest[:] = self._own.largest_net(weights, batch[:2])
        self._processes.largest(largest)
        return largest

    def net_quantile(self, weights: Array, batch: ShardBatch, share: float) -> Array:
        """Return a quantile of each unit's net inputs in a batch: the mean of those of the processes."""
        quantile = np.ascontiguousarray(self._own.net_quantile(weights, batch[:2], share))
        self._processes.add_up(quantile)
        return quantile / self._processes.size
