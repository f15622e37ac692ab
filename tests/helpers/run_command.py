"""What the tests of commands share."""

import re
from contextlib import contextmanager

import pytest

from epls.cli.main import run


def epls(capsys, *arguments):
    """Exit code, stdout and stderr of the command."""
    code = run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def check_error(capsys, folder, arguments, code, message):
    """The command fails so, in one line if it was called rightly, and leaves nothing new in the folder."""
    before = {path.name for path in folder.iterdir()}
    found, out, err = epls(capsys, *arguments)
    assert found == code
    assert out == ""
    assert re.search(message, err)
    assert "Traceback" not in err
    if code == 1:
        told = r"[a-z ]+: \d+ of \d+|[\d,]+ columns? (is|are) used: .*"  # progress, and what is read from a table
        assert len([line for line in err.splitlines() if not re.fullmatch(told, line)]) == 1
    assert {path.name for path in folder.iterdir()} == before


@contextmanager
def few_steps():
    """Training that nobody says the length of takes 150 steps instead of 960 or more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("epls.algorithm.settings.usual_epochs.__defaults__", (150, 150, 0))
        yield
