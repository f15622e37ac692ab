"""Progress on stderr: in a terminal, bars with the time left; elsewhere, a line now and then."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_SECONDS_BETWEEN_LINES = 30.0


class StageProgress:
    """A context manager that is called with the name of a stage, the steps done and the total number of steps."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._stages: dict[str, TaskID] = {}
        self._first: dict[str, tuple[float, int]] = {}
        self._last_line = -_SECONDS_BETWEEN_LINES

    def __enter__(self) -> StageProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._console.is_terminal:
            if stage not in self._stages:
                self._stages[stage] = self._bars.add_task(stage, total=total)
            self._bars.update(self._stages[stage], completed=done, total=total)
            return
        now = time.monotonic()
        # Steps done by an earlier run say nothing about the speed of this one.
        started, done_before = self._first.setdefault(stage, (now, done))
        if done == total or now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            left = ""
            if done_before < done < total:
                left = f", {(now - started) * (total - done) / (done - done_before):.0f} s left"
            self._console.print(f"{stage}: {done} of {total}{left}", highlight=False)
