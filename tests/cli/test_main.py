"""How the command ends: exit codes, one line for an error, nothing left half-written."""

import os
import signal
import subprocess
import sys

import pytest
from run_command import check_error, epls

from epls.cli.main import run


def test_help_is_quick_and_loads_nothing_heavy():
    code = (
        "import sys; from epls.cli.main import run; run(['--help']); "
        "print([m for m in ('numpy', 'sklearn', 'numba', 'scipy', 'rich') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reproduce" in run.stdout
    assert run.stdout.strip().endswith("[]")


def test_a_full_disk_leaves_nothing(work, tmp_path, capsys, full_disk):
    for arguments in (
        ["report", work / "table.epls", "--data", work / "table.parquet", "-o", tmp_path / "r.html"],
        ["fit", work / "vectors.npy", "-o", tmp_path / "m", "--n-components", 5],
        ["transform", work / "table.epls", work / "table.parquet", "-o", tmp_path / "f.npy"],
    ):
        code, _, err = epls(capsys, *arguments)
        assert code == 1
        assert "the disk is full" in err
    assert list(tmp_path.iterdir()) == []


def test_defects_end_in_one_line_too(monkeypatch, capsys):
    import epls.persistence

    def broken(path):
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(epls.persistence, "load_with_notes", broken)
    assert run(["inspect", "model"]) == 1
    err = capsys.readouterr().err
    assert err == "epls: ZeroDivisionError: by; this is a defect of epls, please report it\n"
    monkeypatch.setenv("EPLS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run(["inspect", "model"])


def test_the_help_of_a_command_loads_nothing_heavy():
    code = (
        "import sys; from epls.cli.main import run; run(['fit', '--help']); "
        "print([m for m in ('sklearn', 'numba', 'scipy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "sparse_filtering" in run.stdout
    assert run.stdout.strip().endswith("[]")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nonsense", r"No such command 'nonsense'\.$"),
        ("fti", r"No such command 'fti'\. Did you mean fit\?$"),
        ("FIT", r"No such command 'FIT'\. Did you mean fit\?$"),
        ("trasnform", r"No such command 'trasnform'\. Did you mean transform\?$"),
    ],
)
def test_unknown_commands(name, message, tmp_path, capsys):
    check_error(capsys, tmp_path, [name], 2, message)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["fit", "x", "--ouput", "y"], "--output"),
        (["transform", "x", "y", "--thread", "1"], "--threads"),
        (["--verson"], "--version"),
    ],
)
def test_unknown_options(arguments, meant, tmp_path, capsys):
    """click suggests what was meant."""
    check_error(capsys, tmp_path, arguments, 2, f"(?i)no such option.*did you mean.*{meant}")


def test_control_characters_do_not_reach_the_terminal(capsys, tmp_path):
    code, out, err = epls(capsys, "inspect", tmp_path / "a\x1b[31m.epls")
    assert code == 1
    assert "\x1b" not in out + err
    assert "x1b" in err


def test_sigterm_ends_as_ctrl_c_does(capsys, monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("epls.cli.main.epls.main", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM))
    assert run(["demo"]) == 1
    assert "interrupted; no file was left half-written" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
