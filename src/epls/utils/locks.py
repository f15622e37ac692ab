"""Folders that only one process may use at a time."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout


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
