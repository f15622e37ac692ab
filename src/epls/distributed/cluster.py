"""The shards as the training sees them: in this process, or on the workers of a dask cluster."""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from ..data.blocks import Blocks
from ..utils.types import Array
from .exchange import Link, LostShardError, WorkerShard, ask
from .shard import Found, Shard, Step
from .tree import combine_along_tree

_PATIENCE = 60.0  # seconds without any worker, after which a training gives up
_LOOK_AGAIN = 5.0  # seconds between two looks at which workers there are
_POLL = 2.0  # seconds after which an answer that has not come is asked after
_MOST_MOVES = 10  # of a shard for one answer
_FORGIVE = 300.0  # seconds after which a worker that was lost is tried again: dask gives it up by then
_T = TypeVar("_T")
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
    """All shards of the data."""

    n_shards: int

    @abstractmethod
    def call(self, method: str) -> list[Any]:
        """What the method of each shard returns; an exception of a shard is raised here."""

    @abstractmethod
    def combine(self, step: Step, weights: Array, own: Sequence[Any] | None = None) -> tuple[Array, dict[int, Found]]:
        """What the shards find in a step: their arrays, combined along the tree, and the rest by number of the shard.

        Shards that have no batch any more are left out of the rest.

        Parameters
        ----------
        step : Step
            What is asked for.
        weights : ndarray of shape (n_components, n_features + 1)
            The weights.
        own : sequence or None
            What each shard alone is given.
        """

    @abstractmethod
    def check(self, settings: Any) -> None:
        """An error if a worker cannot use what the shards will be given."""


class LocalShards(Shards):
    """All shards in this process, one after the other: what a cluster computes, bit for bit."""

    def __init__(self, parts: Sequence[Blocks]) -> None:
        self.n_shards = len(parts)
        self._shards = [Shard(blocks, number) for number, blocks in enumerate(parts)]

    def call(self, method: str) -> list[Any]:
        """What the method of each shard returns."""
        return [getattr(shard, method)() for shard in self._shards]

    def combine(self, step: Step, weights: Array, own: Sequence[Any] | None = None) -> tuple[Array, dict[int, Found]]:
        """What the shards find in a step."""
        # Each keeps its buffers, and its arrays are valid until it is asked again.
        given = [None] * self.n_shards if own is None else own
        parts = [shard.part(step, weights, some) for shard, some in zip(self._shards, given, strict=True)]
        combined = combine_along_tree([array for array, _ in parts], step.combine)
        return combined, {number: found for number, (_, found) in enumerate(parts) if found is not None}

    def check(self, settings: Any) -> None:
        """There is nothing that this process could not use."""


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
        self._lost: dict[str, float] = {}  # workers that could not be reached, and when
        self._link: Link | None = None  # to shard 0, and by it to all others

    def call(self, method: str) -> list[Any]:
        """What the method of each shard returns, whatever happens to workers meanwhile."""
        self._look_again()
        under_way = [self._begin(number, method) for number in range(self.n_shards)]
        results = [self._finish(number, future, method) for number, future in enumerate(under_way)]
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    def combine(self, step: Step, weights: Array, own: Sequence[Any] | None = None) -> tuple[Array, dict[int, Found]]:
        """What the shards find in a step, which is repeated if a worker is lost meanwhile."""
        given = [None] * self.n_shards if own is None else list(own)
        losses: Counter[int] = Counter()
        self._look_again()
        while True:
            try:
                combined, found = self._wait(self._ask(step, weights, given))
                return combined, {number: part for number, part in enumerate(found) if part is not None}
            except LostShardError as error:
                number = error.number
            except BaseException:
                self._leave_tree()  # in which messages may still be under way
                raise
            self._leave_tree()
            losses[number] += 1
            if losses[number] > _MOST_MOVES:
                raise self._lost_again(number)
            if all(home in self._workers() for home in self._homes):
                self._replace(number)  # the scheduler does not know yet
            self._spread()

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
        self._leave_tree()
        self._actors = [None] * self.n_shards
        self._made = [None] * self.n_shards

    async def _ask(self, step: Step, weights: Array, own: list[Any]) -> tuple[Array, list[Found | None]]:
        if self._link is None:
            tree = [(home, made.key) for home, made in zip(self._homes, self._made, strict=True)]
            self._link = await Link.open(0, tree, self._client.connection_args)
        return await ask(self._link, step, weights, own)

    def _wait(self, answer: Coroutine[Any, Any, _T]) -> _T:
        """An answer of the tree; an error if a worker that it needs is gone."""
        future = asyncio.run_coroutine_threadsafe(answer, self._client.loop.asyncio_loop)
        while True:
            try:
                return future.result(timeout=_POLL)
            except TimeoutError:
                if future.done():
                    raise
            workers = self._workers()
            for number, home in enumerate(self._homes):
                if home not in workers:
                    future.cancel()
                    raise LostShardError(number)

    def _leave_tree(self) -> None:
        """Close the tree. The next step makes a new one."""
        link, self._link = self._link, None
        if link is not None:
            self._client.loop.add_callback(link.close)

    def _begin(self, number: int, method: str) -> Any:
        """A future of the answer, or None if the worker is gone."""
        try:
            return self._actors[number].call(method)
        except (OSError, RuntimeError):
            return None

    def _finish(self, number: int, future: Any, method: str) -> Any:
        for _ in range(_MOST_MOVES):
            try:
                while future is not None:
                    try:
                        return future.result(timeout=_POLL)
                    except TimeoutError:
                        if self._made[number].status != "finished" or self._homes[number] not in self._workers():
                            break  # else it only takes long
            except (OSError, RuntimeError):
                pass  # the connection broke
            self._replace(number)
            future = self._begin(number, method)
        raise self._lost_again(number)

    def _replace(self, number: int) -> None:
        """Open a shard at another worker than that which was lost."""
        lost = self._homes[number]
        self._lost[lost] = time.monotonic()
        self._move(number, self._emptiest())
        self._tell(number, lost)

    def _tell(self, number: int, lost: str) -> None:
        _log.warning("worker %s was lost; shard %d goes on at %s", lost, number, self._homes[number])

    def _look_again(self) -> None:
        if time.monotonic() - self._looked > _LOOK_AGAIN:
            self._spread()

    def _spread(self) -> None:
        """Give every shard a worker, and as equally many shards to each as can be."""
        workers = self._usable() or [self._emptiest()]
        most = -(-self.n_shards // len(workers))
        load = Counter(home for home in self._homes if home in workers)
        for number, home in enumerate(self._homes):
            if home not in workers or load[home] > most:
                load[home] -= 1
                emptiest = min(workers, key=lambda worker: load[worker])
                load[emptiest] += 1
                self._move(number, emptiest)
                if home and home not in workers:
                    self._tell(number, home)
        self._looked = time.monotonic()

    def _move(self, number: int, worker: str) -> None:
        """Open a shard at a worker; at another one if that is gone meanwhile."""
        from distributed import KilledWorker

        self._leave_tree()
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
                self._lost[worker] = time.monotonic()
                worker = self._emptiest()
                continue
            self._made[number] = made
            self._homes[number] = next(iter(self._client.who_has([made]).get(made.key, ())), worker)
            return
        raise self._lost_again(number)

    def _emptiest(self) -> str:
        """The worker with the fewest shards, once there is one; a lost one only if there is no other for a while."""
        began = time.monotonic()
        while True:
            waited = time.monotonic() - began
            workers = self._workers() if waited > _LOOK_AGAIN else self._usable()
            if workers:
                load = Counter(self._homes)
                return min(workers, key=lambda worker: load[worker])
            if waited > _PATIENCE:
                raise self._nobody_left()
            time.sleep(0.2)

    def _usable(self) -> list[str]:
        """The workers without those that were lost, though the scheduler may not know yet."""
        workers, now = self._workers(), time.monotonic()
        self._lost = {lost: when for lost, when in self._lost.items() if lost in workers and now - when < _FORGIVE}
        return [worker for worker in workers if worker not in self._lost]

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
            f"{number}, at last {self._homes[number]}: see their logs (memory?), and whether this machine and "
            f"the workers can connect to them"
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
