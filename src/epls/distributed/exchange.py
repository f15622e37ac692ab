"""Messages among shards on workers of a dask cluster, along the tree of :mod:`epls.distributed.tree`.

Who calls a training talks to shard 0 only. Connections are dask's own, to the port of the worker and with the security
of the cluster, and stay open from step to step. If one breaks, the whole tree is given up; another one is made, and the
step repeated.

A step is a note with what is asked for and the weights, chunk by chunk, on the way down, and a note with what was found
and the combined array on the way up. A shard that cannot go on sends a note with the reason instead.
"""

from __future__ import annotations

import asyncio
import pickle
import struct
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
_LENGTH = struct.Struct("<Q")  # of a note, in bytes
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


class Channel:
    """Notes and arrays over a connection of dask."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        # Everything goes through the bare stream if there is one: dask's messages take several times as long.
        self._stream = getattr(comm, "stream", None)

    async def send_note(self, **note: Any) -> None:
        """Send a few named things."""
        content = pickle.dumps(note)
        if self._stream is None:
            await self._comm.write({"content": content})
        else:
            self._stream.write(_LENGTH.pack(len(content)) + content)

    async def receive_note(self) -> dict[str, Any]:
        """What the other side sent as a note."""
        if self._stream is None:
            content = (await self._comm.read())["content"]
        else:
            (n_bytes,) = _LENGTH.unpack(await self._stream.read_bytes(_LENGTH.size))
            content = await self._stream.read_bytes(n_bytes)
        note: dict[str, Any] = pickle.loads(content)
        return note

    async def send_rows(self, rows: Array) -> None:
        """Send an array, which must stay as it is until the other side has answered."""
        if self._stream is None:
            from distributed.protocol import to_serialize

            await self._comm.write({"rows": to_serialize(rows)})
        else:
            self._stream.write(rows.reshape(-1).view(np.uint8).data)

    async def receive_rows(self, out: Array) -> None:
        """Fill an array with what the other side sent; it knows the shape."""
        if self._stream is None:
            out[...] = (await self._comm.read())["rows"]
        else:
            await self._stream.read_into(out.reshape(-1).view(np.uint8).data)

    def close(self) -> None:
        """End the connection at once."""
        self._comm.abort()


class Link:
    """A connection to a shard further down, by the one above it or by the calling process."""

    def __init__(self, comm: Any, number: int, tree: Tree) -> None:
        self._channel = Channel(comm)
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
        with link._or_lost():
            await comm.write({"op": _OPERATION, "number": number, "tree": tree, "reply": False})
        return link

    async def ask(self, note: dict[str, Any]) -> None:
        """Say what is asked for, and to the shards down there only what they alone are given."""
        own = {number: note["own"][number] for number in self._branch}
        with self._or_lost():
            await self._channel.send_note(**note | {"own": own})

    async def send(self, rows: Array) -> None:
        """Send a chunk of weights."""
        with self._or_lost():
            await self._channel.send_rows(rows)

    async def found(self) -> dict[int, bytes]:
        """What the shards down there found, by number, besides the array that they combined."""
        with self._or_lost():
            note = await self._channel.receive_note()
        if "lost" in note:
            raise LostShardError(note["lost"])
        if "error" in note:
            raise _ShardError(note["error"])
        found: dict[int, bytes] = note["found"]
        return found

    async def receive(self, out: Array) -> None:
        """Fill an array with a chunk of what the shards down there combined."""
        with self._or_lost():
            await self._channel.receive_rows(out)

    def close(self) -> None:
        """Let the shard go, and with it those below."""
        self._channel.close()

    @contextmanager
    def _or_lost(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LostShardError(self._number) from error


async def ask(link: Link, step: Step, weights: Array, own: list[Any]) -> tuple[Array, list[Any]]:
    """The combined array of all shards, and what else each found; an exception of a shard is raised here.

    ``own`` is what each shard alone is given.
    """
    from distributed.protocol.pickle import dumps  # also of functions that workers cannot import

    note = {
        "step": dumps(step),
        "own": {number: pickle.dumps(given) for number, given in enumerate(own)},
        "shape": weights.shape,
        "dtype": weights.dtype.str,
    }
    await link.ask(note)
    for piece in chunks(weights.shape, weights.dtype):
        await link.send(weights[piece])
    try:
        found = await link.found()
    except _ShardError as error:
        raise pickle.loads(error.content) from None
    combined = step.neutral(weights)
    for piece in chunks(combined.shape, combined.dtype):
        await link.receive(combined[piece])
    return combined, [pickle.loads(found[number]) for number in range(len(own))]


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

    def __init__(self, worker: Any, comm: Any, number: int, tree: Tree) -> None:
        self._worker = worker
        self._above = Channel(comm)
        self._number = number
        self._tree = tree
        self._below: list[Link] = []
        self._weights: Array = np.empty(0)
        self._combined: Array = np.empty(0)
        self._incoming: Array = np.empty(0)

    async def serve(self) -> None:
        """Do step after step, until the one above closes the connection."""
        try:
            try:
                shard = self._shard()
                shard.join(self)
                for child in below(self._number, len(self._tree)):
                    self._below.append(await Link.open(child, self._tree, self._worker.connection_args))
                while True:
                    await self._combine(await self._part(shard))
            except LostShardError as error:
                await self._above.send_note(lost=error.number)
            except _ShardError as error:
                await self._above.send_note(error=error.content)
            while True:  # the one above reads this when it is ready to, and closes
                await self._above.receive_note()
        except OSError:
            pass  # it is closed
        finally:
            self.close()

    def close(self) -> None:
        """Close all connections."""
        self._above.close()
        for link in self._below:
            link.close()

    def _shard(self) -> WorkerShard:
        shard: WorkerShard | None = self._worker.state.actors.get(self._tree[self._number][1])
        if shard is None:
            raise LostShardError(self._number)
        return shard

    async def _part(self, shard: WorkerShard) -> np.ufunc:
        """Receive weights, pass them on and compute the shard's own part; tell those above when all is well below.

        Return how arrays are combined.
        """
        note = await self._above.receive_note()
        shape, dtype = tuple(note["shape"]), np.dtype(note["dtype"])
        if self._weights.shape != shape or self._weights.dtype != dtype:
            self._weights = np.empty(shape, dtype)
        for link in self._below:
            await link.ask(note)
        for piece in chunks(shape, dtype):
            await self._above.receive_rows(self._weights[piece])
            for link in self._below:
                await link.send(self._weights[piece])
        # One thread computes for all shards of a worker, one after the other.
        step, self._combined, own_found = await asyncio.get_running_loop().run_in_executor(
            self._worker.executors["actor"],
            shard.part, note["step"], self._weights, note["own"][self._number], self._combined,
        )  # fmt: skip
        found = {self._number: own_found}
        for link in self._below:
            found |= await link.found()
        await self._above.send_note(found=found)
        return step.combine

    async def _combine(self, combine: np.ufunc) -> None:
        """Combine the arrays from below with the shard's own, and send the result to the one above.

        What goes wrong from here on cannot be told any more: the connection ends.
        """
        try:
            pieces = chunks(self._combined.shape, self._combined.dtype)
            largest = self._combined[pieces[0]]
            if self._incoming.shape != largest.shape or self._incoming.dtype != largest.dtype:
                self._incoming = np.empty_like(largest)
            for piece in pieces:
                rows = self._combined[piece]
                for link in self._below:
                    await link.receive(self._incoming[: len(rows)])
                    combine(rows, self._incoming[: len(rows)], out=rows)
                await self._above.send_rows(rows)
        except LostShardError as error:
            raise OSError from error


def _pickled(error: Exception) -> bytes:
    try:
        content = pickle.dumps(error)
        pickle.loads(content)
    except Exception:  # there are exceptions that cannot be
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return content
