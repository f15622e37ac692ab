"""Files: written completely or not at all, and read only if they are regular files; folders that one process uses."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_WORTH_A_LOOK = 2**20  # bytes; the size of the file is not checked for smaller reads


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file at ``path`` completely, or leave it unchanged."""
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write to. When it is complete, it replaces the one at ``path``; on an error nothing changes.

    A link stays a link, to the new file. A replaced file keeps its permissions. Temporary files of processes that were
    killed while writing the same file are removed.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a regular file: choose another file to write to")
    _remove_abandoned(path)
    temporary, file = _new_temporary(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            error.filename = str(path)  # a write that fails does not say which disk is full
        raise


def _new_temporary(path: Path) -> tuple[Path, BinaryIO]:
    """Create a file beside ``path``, locked while it is open."""
    while True:
        # Created by open, not by tempfile, so that a new file has the usual permissions of the umask.
        temporary = path.parent / f"{_temporary_prefix(path)}{secrets.token_hex(4)}"
        file = temporary.open("xb")
        try:
            _lock(file)
        except BlockingIOError:  # another process considers it abandoned, and is about to remove it
            file.close()
            continue
        except OSError:  # this disk has no locks, so no process removes anything
            return temporary, file
        if temporary.exists():
            return temporary, file
        file.close()  # removed by another process before it was locked


def _temporary_prefix(path: Path) -> str:
    """Return how the names of the temporary files of ``path`` begin. Its own name may already have 255 bytes."""
    return f".epls-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]}-"


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files of ``path`` that no process is writing, because it was killed."""
    name = re.compile(re.escape(_temporary_prefix(path)) + "[0-9a-f]{8}")
    try:
        entries = [entry for entry in os.scandir(path.parent) if name.fullmatch(entry.name)]
    except OSError:  # a folder that allows writing, but not listing
        return
    for entry in entries:
        with suppress(OSError):  # it is being written, has gone, or must not be removed
            if sys.platform != "win32":  # which cannot remove open files anyway
                with open(entry.path, "r+b") as file:
                    _lock(file)
                    os.unlink(entry.path)
            else:
                os.unlink(entry.path)


def _lock(file: BinaryIO) -> None:
    """Lock an open file until it is closed or the process ends. Raise BlockingIOError if another process holds it."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class NotRegularError(OSError):
    """The path is a pipe, a device or a folder."""


class _NoLongerThanItIs(io.BufferedReader):
    """A file that never allocates memory for more bytes than it has.

    For ``read(n)``, Python first allocates n bytes. A decoder asks for as many bytes as a part of a file claims to
    have: perhaps gigabytes, in a damaged PNG file of a few bytes.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _WORTH_A_LOOK:
            size = min(size, max(0, os.fstat(self.fileno()).st_size - self.tell()))
        return super().read(size)


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a regular file for reading. Anything else is a NotRegularError: a pipe could block, a device never end."""
    # O_NONBLOCK lets a pipe be opened without a writer; it has no effect on regular files. Windows has no such flag.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(f"{os.fspath(path)} is not a regular file: give the path of one")
    except BaseException:
        os.close(descriptor)
        raise
    return _NoLongerThanItIs(io.FileIO(descriptor, "rb"))


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a regular file, after checking that it is one."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}: check the path")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file")  # reading a pipe could block forever
    return path


def existing_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the path of a folder, after checking that it is one."""
    path = Path(folder).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {path}: check the path")
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is a file: give the folder that holds the data")
    return path


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file; empty if it is missing, damaged, or holds something else, such as NaN."""
    try:
        with open_regular(path) as file:
            found = json.loads(file.read(), parse_constant=_refuse)
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


class FolderLock:
    """A lock on a folder, which is created if it does not exist. The lock ends with the process, however it ends.

    Its holder may acquire it again, and must then release it as many times. It is held by one thread. An empty file
    ``.lock`` stays in the folder. The error message names the ``user`` of the folder, and gives advice.
    """

    def __init__(self, folder: Path, user: str, advice: str) -> None:
        self._folder, self._user, self._advice = folder, user, advice
        self._lock: FileLock | None = None  # only while it is held, since callbacks are pickled and it cannot be

    def acquire(self) -> None:
        """Acquire the lock, or raise an error at once if another process has it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._lock or FileLock(self._folder / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise RuntimeError(
                f"another {self._user} is using {self._folder}: wait until it ends, or {self._advice}"
            ) from error
        self._lock = lock

    def release(self) -> None:
        """Undo one :meth:`acquire`, if there was one."""
        if self._lock is not None:
            self._lock.release()
            if not self._lock.is_locked:
                self._lock = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()
