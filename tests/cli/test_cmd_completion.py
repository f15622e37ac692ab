"""`epls completion`: what a shell needs."""

import os
import subprocess
import sys

import pytest
from run_command import epls


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell, capsys):
    code, out, _ = epls(capsys, "completion", shell)
    assert code == 0
    assert "_EPLS_COMPLETE" in out


def test_completion_completes():
    words = {"COMP_WORDS": "epls rep", "COMP_CWORD": "1", "_EPLS_COMPLETE": "bash_complete"}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'epls'; from epls.cli import main; main()"]
    found = subprocess.run(command, env=os.environ | words, capture_output=True, text=True)
    assert {line.split(",")[1] for line in found.stdout.split()} == {"report", "reproduce"}
