import io

import pytest
from rich.console import Console

from epls.cli.options import StageProgress


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("epls.cli.options.time.monotonic", lambda: now[0])
    return now


def test_elsewhere_than_in_a_terminal_a_line_now_and_then(clock):
    stream = io.StringIO()
    with StageProgress(Console(file=stream, force_terminal=False)) as progress:
        for done in range(40, 101):
            clock[0] += 1
            progress("encode", done, 100)
    lines = stream.getvalue().splitlines()
    # 30 seconds after the first call 30 more are done, and the 40 of an earlier run do not count for the speed.
    assert lines == ["encode: 40 of 100", "encode: 70 of 100, 30 s left", "encode: 100 of 100"]


def test_in_a_terminal_bars_with_the_time_left():
    stream = io.StringIO()
    with StageProgress(Console(file=stream, force_terminal=True, width=100)) as progress:
        progress("learn", 3, 20)
        progress("encode", 0, 50)
    text = stream.getvalue()
    assert "learn" in text
    assert "3/20" in text
    assert "0/50" in text
