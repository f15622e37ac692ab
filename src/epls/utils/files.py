"""Files: written so that nothing half-written ever stands under a final name, and read only if they are files."""

from __future__ import annotations

import io
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_WORTH_A_LOOK = 2**20  # bytes that are read at once; for fewer, nobody asks how many there are


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file at ``path`` as a whole, or leave it as it was."""
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to. Once complete it takes the place of the one at ``path``; on an error nothing changes.

    A link stays a link, to the new file. A file that is replaced keeps its permissions. What a process that was killed
    while it wrote the same file has left is removed.
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
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _new_temporary(path: Path) -> tuple[Path, BinaryIO]:
    """A new file beside ``path``, locked as long as it is open."""
    while True:
        # Created by open, not by tempfile: a new file then has the permissions that the umask leaves, like any other.
        temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
        file = temporary.open("xb")
        try:
            _lock(file)
        except BlockingIOError:  # another process takes it for abandoned, and is about to remove it
            file.close()
            continue
        except OSError:  # no locks on this disk; then nobody removes anything
            return temporary, file
        if temporary.exists():
            return temporary, file
        file.close()  # removed by another process before it was locked


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files of ``path`` that no process is writing: these were killed."""
    name = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{8}")
    try:
        entries = [entry for entry in os.scandir(path.parent) if name.fullmatch(entry.name)]
    except OSError:  # a folder that may be written to, but not be listed
        return
    for entry in entries:
        with suppress(OSError):  # it is being written, or is gone by now, or may not be removed
            if sys.platform != "win32":  # where an open file cannot be removed anyway
                with open(entry.path, "r+b") as file:
                    _lock(file)
                    os.unlink(entry.path)
            else:
                os.unlink(entry.path)


def _lock(file: BinaryIO) -> None:
    """Lock an open file until it is closed, also by the end of the process; BlockingIOError if another one has it."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class NotRegularError(OSError):
    """What is named is a pipe, a device or a folder."""


class _NoLongerThanItIs(io.BufferedReader):
    """A file that never takes memory for more bytes than it has.

    For ``read(n)``, Python takes memory for n bytes first. A decoder asks for as many as a file claims that a part of
    it has: gigabytes, perhaps, in a damaged PNG file of a few bytes.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _WORTH_A_LOOK:
            size = min(size, max(0, os.fstat(self.fileno()).st_size - self.tell()))
        return super().read(size)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading, and refuse everything else: a pipe may never be written to, a device never ends.

    Raises
    ------
    OSError
        If it cannot be opened.
    NotRegularError
        If it is not a regular file.
    """
    # O_NONBLOCK lets a pipe be opened without a writer; it has no effect on regular files. Windows has no such flag.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(f"{os.fspath(path)} is not a regular file: give the path of one")
    except BaseException:
        os.close(descriptor)
        raise
    return _NoLongerThanItIs(io.FileIO(descriptor, "rb"))
