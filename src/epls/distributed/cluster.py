"""The shards as the training sees them: in this process, or on the workers of a dask cluster."""

from __future__ import annotations

import logging
import pickle
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

from threadpoolctl import ThreadpoolController

from ..data.blocks import Blocks
from .shard import Shard

_PATIENCE = 60.0  # seconds without any worker, after which a training gives up
_LOOK_AGAIN = 5.0  # seconds between two looks at which workers there are
_POLL = 2.0  # seconds after which an answer that has not come is asked after
_MOST_MOVES = 10  # of a shard for one answer
_log = logging.getLogger(__name__)


def connect(address: str, *, timeout: float = 10.0) -> Any:
    """Return a client of the dask scheduler at an address.

    Parameters
    ----------
    address : str
        The address that ``dask scheduler`` prints, such as ``"tcp://10.0.0.1:8786"``.
    timeout : float, default=10
        The number of seconds to wait for an answer.

    Returns
    -------
    distributed.Client
        A client. Close it after use, or use it in a ``with`` statement.

    Raises
    ------
    ConnectionError
        If no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError('several machines need dask.distributed: pip install "epls[distributed]"') from error
    try:
        return Client(address, timeout=timeout, set_as_default=False, direct_to_workers=True)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no dask scheduler answers at {address} within {timeout:g} s: start one with `dask scheduler`, and "
            f"workers with `dask worker {address}`, or check the address"
        ) from error


def direct(client: Any) -> Any:
    """A client of the same cluster that talks to workers without the scheduler between."""
    from distributed import Client

    address, security = client.scheduler.address, client.security
    return Client(address, security=security, set_as_default=False, direct_to_workers=True)


class Shards(ABC):
    """Calls the same method of every shard."""

    n_shards: int

    @abstractmethod
    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What the method of each shard returns for its arguments; an exception of a shard is raised here."""

    @abstractmethod
    def check(self, settings: Any) -> None:
        """An error if a worker cannot use what the shards will be given."""


class LocalShards(Shards):
    """All shards in this process, one after the other: what a cluster computes, bit for bit."""

    def __init__(self, parts: Sequence[Blocks]) -> None:
        self.n_shards = len(parts)
        self._shards = [Shard(blocks, number) for number, blocks in enumerate(parts)]

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What the method of each shard returns for its arguments."""
        # Each keeps its buffers, and its answers are valid until it is called again.
        return [getattr(shard, method)(*given) for shard, given in zip(self._shards, arguments, strict=True)]

    def check(self, settings: Any) -> None:
        """There is nothing that this process could not use."""


class WorkerShard:
    """A shard on a worker of a cluster."""

    def __init__(self, blocks: Blocks, number: int) -> None:
        from distributed import get_worker

        self._shard = Shard(blocks, number)
        self._n_threads = get_worker().state.nthreads
        self._libraries = ThreadpoolController()  # to look for them takes 3 ms

    def call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """What a method returns, or the exception that it raised: so that nobody takes it for one of the connection.

        With as many threads as the worker was given.
        """
        with self._libraries.limit(limits=self._n_threads, user_api="blas"):
            try:
                return getattr(self._shard, method)(*arguments)
            except Exception as error:
                return error


class DaskShards(Shards):
    """Each shard on a worker of a cluster, and on another one if that dies.

    Shards are dask's actors: a call goes to the worker directly and not through the scheduler's queue, which takes half
    of the time (docs/scale.md). dask does not revive actors; it is done here, which is easy since they keep nothing.
    """

    def __init__(self, client: Any, parts: Sequence[Blocks]) -> None:
        self.n_shards = len(parts)
        self._client = client
        self._parts = list(parts)
        self._homes: list[str] = [""] * len(parts)
        self._made: list[Any] = [None] * len(parts)  # dask drops an actor when nobody holds its future
        self._actors: list[Any] = [None] * len(parts)
        self._looked = -_LOOK_AGAIN

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What the method of each shard returns for its arguments, whatever happens to workers meanwhile."""
        if time.monotonic() - self._looked > _LOOK_AGAIN:
            self._spread()
        under_way = [self._begin(number, method, given) for number, given in enumerate(arguments)]
        results = [
            self._finish(number, future, method, given)
            for number, (future, given) in enumerate(zip(under_way, arguments, strict=True))
        ]
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    def check(self, settings: Any) -> None:
        """An error if a worker cannot use what the shards will be given: a module that it lacks, for example.

        A worker of dask that cannot unpickle what it is sent never answers; so it is sent as bytes first.
        """
        import cloudpickle

        content = cloudpickle.dumps(settings)
        tried = [self._client.submit(_unpickle, content, pure=False, workers=[home]) for home in set(self._homes)]
        for future in tried:
            try:
                future.result(timeout=_PATIENCE)
            except (OSError, TimeoutError, CancelledError):
                pass  # a worker that died is seen to elsewhere
            except Exception as error:
                raise RuntimeError(
                    f"a worker cannot use the model's settings ({error}): install the same version of epls and of what "
                    f"it needs on all of them, and keep functions of your own where they can import them"
                ) from error

    def close(self) -> None:
        """Let go of the workers."""
        self._actors = [None] * self.n_shards
        self._made = [None] * self.n_shards

    def _begin(self, number: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """A future of the answer, or None if the worker is gone."""
        try:
            return self._actors[number].call(method, arguments)
        except (OSError, RuntimeError):
            return None

    def _finish(self, number: int, future: Any, method: str, arguments: tuple[Any, ...]) -> Any:
        n_moved = 0
        while n_moved < _MOST_MOVES:
            try:
                if future is not None:
                    return future.result(timeout=_POLL)
            except TimeoutError:
                if self._made[number].status == "finished" and self._homes[number] in self._workers():
                    continue  # it only takes long
            except (OSError, RuntimeError):
                pass  # the connection broke
            lost = self._homes[number]
            self._move(number, self._emptiest(without=lost))
            _log.warning("worker %s was lost; shard %d goes on at %s", lost, number, self._homes[number])
            n_moved += 1
            future = self._begin(number, method, arguments)
        raise self._lost_again(number)

    def _spread(self) -> None:
        """Give every shard a worker, and as equally many shards to each as can be."""
        workers = self._workers() or [self._emptiest()]
        most = -(-self.n_shards // len(workers))
        load = Counter(home for home in self._homes if home in workers)
        for number, home in enumerate(self._homes):
            if home not in workers or load[home] > most:
                load[home] -= 1
                emptiest = min(workers, key=lambda worker: load[worker])
                load[emptiest] += 1
                self._move(number, emptiest)
        self._looked = time.monotonic()

    def _move(self, number: int, worker: str) -> None:
        """Open a shard at a worker; at another one if that is gone meanwhile."""
        from distributed import KilledWorker

        for _ in range(_MOST_MOVES):
            made = self._client.submit(
                WorkerShard, self._parts[number], number, actor=True, pure=False, workers=[worker],
                allow_other_workers=True,
            )  # fmt: skip
            try:
                self._actors[number] = made.result(timeout=_PATIENCE)
            except TimeoutError as error:
                raise self._nobody_left() from error
            except CancelledError as error:  # what dask says when the scheduler is gone
                raise self._scheduler_lost() from error
            except (OSError, RuntimeError, KilledWorker):  # it died just now
                worker = self._emptiest(without=worker)
                continue
            self._made[number] = made
            self._homes[number] = next(iter(self._client.who_has([made]).get(made.key, ())), worker)
            return
        raise self._lost_again(number)

    def _emptiest(self, without: str = "") -> str:
        """The worker with the fewest shards, once there is one; ``without`` only if it stays the only one."""
        began = time.monotonic()
        while True:
            waited = time.monotonic() - began
            workers = [worker for worker in self._workers() if worker != without or waited > _LOOK_AGAIN]
            if workers:
                load = Counter(self._homes)
                return min(workers, key=lambda worker: load[worker])
            if waited > _PATIENCE:
                raise self._nobody_left()
            time.sleep(0.2)

    def _workers(self) -> list[str]:
        try:
            return sorted(self._client.run_on_scheduler(_addresses))
        except (OSError, RuntimeError) as error:
            raise self._scheduler_lost() from error

    def _scheduler_lost(self) -> ConnectionError:
        return ConnectionError(
            "the dask scheduler no longer answers: start it and its workers again, and the same fit; with a Checkpoint "
            "it goes on where it was"
        )

    def _lost_again(self, number: int) -> ConnectionError:
        return ConnectionError(
            f"{_MOST_MOVES} workers in a row were lost, or could not be reached, while they computed with shard "
            f"{number}, at last {self._homes[number]}: see their logs (memory?), and whether this machine can connect "
            f"to them"
        )

    def _nobody_left(self) -> ConnectionError:
        return ConnectionError(
            f"the dask cluster has had no worker that answers for {_PATIENCE:g} s: start workers and the same fit "
            f"again; with a Checkpoint it goes on where it was"
        )


def _unpickle(content: bytes) -> None:
    """Try it; runs on a worker."""
    pickle.loads(content)


def _addresses(dask_scheduler: Any) -> list[str]:
    """The workers that a scheduler has; runs there."""
    return list(dask_scheduler.workers)
