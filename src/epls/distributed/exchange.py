"""Messages among shards on workers of a dask cluster, along the tree of :mod:`epls.distributed.tree`.

Who calls a training talks to shard 0 only. Connections are dask's own, to the port of the worker and with the security
of the cluster, and stay open from step to step. If one breaks, the whole tree is given up; another one is made, and the
step repeated.

A step is a message per chunk of rows on the way down, and one per chunk on the way up. The first of them also holds
what is asked for, and the last one what else was found. A shard that cannot go on answers with the reason instead.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from ..data.blocks import Blocks
from ..utils.types import Array
from .shard import Shard, Step
from .tree import below, branch, chunks

_OPERATION = "epls-join-tree"
_CONNECT_SECONDS = 10.0
Address = tuple[str, str]  # a worker's, and the name of the actor there
Tree = list[Address]


class LostShardError(Exception):
    """A shard that cannot be reached any more."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _ShardError(Exception):
    """An exception in a shard, pickled: only the calling process needs to know what it is."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.content = content


class Link:
    """A connection to a shard further down, by the one above it or by the calling process."""

    def __init__(self, comm: Any, number: int, tree: Tree) -> None:
        self._comm = comm
        self._number = number
        self._branch = branch(number, len(tree))

    @classmethod
    async def open(cls, number: int, tree: Tree, connection_args: dict[str, Any]) -> Link:
        """Connect to a shard, which connects to those below it."""
        from distributed.comm import connect

        try:
            comm = await connect(tree[number][0], timeout=_CONNECT_SECONDS, **connection_args)
        except OSError as error:
            raise LostShardError(number) from error
        link = cls(comm, number, tree)
        await link._write({"op": _OPERATION, "number": number, "tree": tree, "reply": False})
        return link

    async def send(self, rows: Array, **more: Any) -> None:
        """Send a chunk of weights, and with the first one what else the shards down there need."""
        from distributed.protocol import to_serialize

        if "own" in more:
            more["own"] = {number: more["own"][number] for number in self._branch}
        await self._write({"rows": to_serialize(rows), **more})

    async def receive(self) -> dict[str, Any]:
        """A chunk of what the shards down there found; with the last one, what else they found."""
        try:
            message: dict[str, Any] = await self._comm.read()
        except OSError as error:
            raise LostShardError(self._number) from error
        if "lost" in message:
            raise LostShardError(message["lost"])
        if "error" in message:
            raise _ShardError(message["error"])
        return message

    def close(self) -> None:
        """Let the shard go, and with it those below."""
        self._comm.abort()

    async def _write(self, message: dict[str, Any]) -> None:
        try:
            await self._comm.write(message)
        except OSError as error:
            raise LostShardError(self._number) from error


async def ask(link: Link, step: Step, weights: Array, own: list[Any]) -> tuple[Array, list[Any]]:
    """The combined array of all shards, and what else each found; an exception of a shard is raised here.

    ``own`` is what each shard alone is given.
    """
    about = {
        "step": pickle.dumps(step),
        "own": {number: pickle.dumps(given) for number, given in enumerate(own)},
        "shape": weights.shape,
        "dtype": weights.dtype.str,
    }
    for piece in chunks(weights.shape, weights.dtype):
        await link.send(weights[piece], **about)
        about = {}
    combined = step.neutral(weights)
    try:
        for piece in chunks(combined.shape, combined.dtype):
            message = await link.receive()
            combined[piece] = message["rows"]
    except _ShardError as error:
        raise pickle.loads(error.content) from None
    return combined, [pickle.loads(message["found"][number]) for number in range(len(own))]


class WorkerShard:
    """A shard on a worker of a cluster: an actor of dask."""

    def __init__(self, blocks: Blocks, number: int) -> None:
        from distributed import get_worker

        worker = get_worker()
        worker.handlers[_OPERATION] = _Joining(worker).join
        self._shard = Shard(blocks, number)
        self._n_threads = worker.state.nthreads
        self._libraries = ThreadpoolController()  # to look for them takes 3 ms
        self._node: _Node | None = None

    def call(self, method: str) -> Any:
        """What a method returns, or the exception that it raised: so that nobody takes it for one of the connection."""
        with self._all_threads():
            try:
                return getattr(self._shard, method)()
            except Exception as error:
                return error

    def part(self, step: bytes, weights: Array, own: bytes, out: Array) -> tuple[Step, Array, bytes]:
        """The step, unpickled, and the shard's part of it: an array, which is ``out`` if that fits, and the rest."""
        with self._all_threads():
            try:
                asked: Step = pickle.loads(step)
                array, found = self._shard.part(asked, weights, pickle.loads(own))
                if out.shape != array.shape or out.dtype != array.dtype:
                    out = np.empty_like(array)
                out[...] = array
                return asked, out, pickle.dumps(found)
            except Exception as error:
                raise _ShardError(_pickled(error)) from error

    def join(self, node: _Node) -> None:
        """Belong to a tree, and no longer to the one before, which is broken."""
        if self._node is not None:
            self._node.close()
        self._node = node

    @contextmanager
    def _all_threads(self) -> Iterator[None]:
        """As many threads as the worker was given."""
        with self._libraries.limit(limits=self._n_threads, user_api="blas"):
            yield


class _Joining:
    """How a worker answers to who wants to make one of its shards part of a tree."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker

    async def join(self, comm: Any, number: int, tree: Tree) -> Any:
        """Serve until the connection ends. dask calls this, with the connection, when the operation is asked for."""
        from distributed.core import Status

        await _Node(self._worker, comm, number, [(address, name) for address, name in tree]).serve()
        return Status.dont_reply


class _Node:
    """A shard in a tree: between the one above, which asks, and those below.

    It has arrays of its own. Whatever a broken tree still does, it does not touch those of the shard.
    """

    def __init__(self, worker: Any, above: Any, number: int, tree: Tree) -> None:
        self._worker = worker
        self._above = above
        self._number = number
        self._tree = tree
        self._below: list[Link] = []
        self._weights: Array = np.empty(0)
        self._combined: Array = np.empty(0)

    async def serve(self) -> None:
        """Do step after step, until the one above closes the connection."""
        try:
            try:
                shard = self._shard()
                shard.join(self)
                for child in below(self._number, len(self._tree)):
                    self._below.append(await Link.open(child, self._tree, self._worker.connection_args))
                while True:
                    await self._step(shard)
            except LostShardError as error:
                await self._above.write({"lost": error.number})
            except _ShardError as error:
                await self._above.write({"error": error.content})
            while True:  # the one above reads this when it is ready to, and closes
                await self._above.read()
        except OSError:
            pass  # it is closed
        finally:
            self.close()

    def close(self) -> None:
        """Close all connections."""
        self._above.abort()
        for link in self._below:
            link.close()

    def _shard(self) -> WorkerShard:
        shard: WorkerShard | None = self._worker.state.actors.get(self._tree[self._number][1])
        if shard is None:
            raise LostShardError(self._number)
        return shard

    async def _step(self, shard: WorkerShard) -> None:
        step, own = await self._pass_on()
        # One thread computes for all shards of a worker, one after the other.
        work = asyncio.get_running_loop().run_in_executor(
            self._worker.executors["actor"], shard.part, step, self._weights, own, self._combined
        )
        asked, self._combined, own_found = await work
        found = {self._number: own_found}
        pieces = chunks(self._combined.shape, self._combined.dtype)
        for piece in pieces:
            rows = self._combined[piece]
            for link in self._below:
                message = await link.receive()
                asked.combine(rows, message["rows"], out=rows)
                found |= message.get("found", {})
            await self._answer(rows, **({"found": found} if piece is pieces[-1] else {}))

    async def _pass_on(self) -> tuple[bytes, bytes]:
        """Pass on weights from above, and keep them. Return what is asked for and what this shard alone is given."""
        message = await self._above.read()
        step, own, shape, dtype = (message[name] for name in ("step", "own", "shape", "dtype"))
        if self._weights.shape != tuple(shape) or self._weights.dtype.str != dtype:
            self._weights = np.empty(shape, dtype)
        for piece in chunks(self._weights.shape, self._weights.dtype):
            if message is None:
                message = await self._above.read()
            for link in self._below:
                await link.send(**message)
            self._weights[piece] = message["rows"]
            message = None
        return step, own[self._number]

    async def _answer(self, rows: Array, **more: Any) -> None:
        from distributed.protocol import to_serialize

        await self._above.write({"rows": to_serialize(rows), **more})


def _pickled(error: Exception) -> bytes:
    try:
        content = pickle.dumps(error)
        pickle.loads(content)
    except Exception:  # there are exceptions that cannot be
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return content
