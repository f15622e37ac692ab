"""The history of benchmarks: what is recorded, and what is compared with what."""

import json
import re
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import history

BENCHMARKS = Path(history.__file__).parent
INTEL = """processor\t: 0
model name\t: Some Xeon
flags\t\t: fpu avx avx2 avx512f avx512_bf16 amx_bf16

processor\t: 1
model name\t: Another
flags\t\t: fpu
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd bf16\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.jsonl"


def finished(path, arguments=None, machine=None, **figures):
    """A run with some figures, added to a file."""
    run = history.Run(Namespace(history=path, **(arguments or {})), benchmark="bench")
    run.entry["machine"] |= machine or {}
    run.add(**figures)
    run.finish()


@pytest.mark.parametrize(
    ("text", "model", "instructions"),
    [(INTEL, "Some Xeon", ["avx2", "avx512f", "avx512_bf16", "amx_bf16"]), (ARM, None, ["asimd", "bf16"])],
)
def test_processor(text, model, instructions, tmp_path):
    (tmp_path / "cpuinfo").write_text(text)
    found = history.processor(tmp_path / "cpuinfo")
    assert found[1] == instructions
    assert found[0] == model if model else found[0]


def test_a_processor_that_does_not_tell(tmp_path):
    model, instructions = history.processor(tmp_path / "nothing")
    assert model
    assert instructions is None
    assert "unknown" in history.described(history.machine() | {"instructions": None})


def test_machine():
    with threadpool_limits(1):
        found = history.machine()
    assert found["threads"] == 1
    assert found["versions"]["numpy"] == np.__version__
    assert found["blas"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_what_got_slower(path, capsys):
    finished(path, ratios={"a / b": 1.0, "c / d": 2.0, "e / f": 1.0}, gains={"g": 10}, seconds={"h": 0.5})
    assert "no earlier run" in capsys.readouterr().err
    finished(path, ratios={"a / b": 1.5, "c / d": 1.0, "e / f": 1.01}, gains={"g": 5}, seconds={"h": 0.5, "new": 1})
    told = capsys.readouterr().err
    assert re.search(r"SLOWER +a / b: 1 before, 1.5 now, 1.50 times as long", told)
    assert re.search(r"faster +c / d: 2 before, 1 now, 0.50 times as long", told)
    assert re.search(r"equal +e / f: 1 before, 1.01 now\n", told)
    assert re.search(r"SLOWER +g: 10 before, 5 now, 2.00 times as long", told)  # a gain that got smaller
    assert re.search(r"equal +h: 0.5 s before, 0.5 s now\n", told)
    assert "new:" not in told
    assert len(path.read_text().splitlines()) == 2


def test_the_last_run_counts(path, capsys):
    for value in (4.0, 2.0):
        finished(path, ratios={"a": value})
    lines = path.read_text().splitlines()
    old = json.loads(lines[0]) | {"when": "2020-01-01T00:00:00+00:00"}
    path.write_text("\n".join([lines[1], json.dumps(old)]) + "\n")  # as after a merge: not in the order of time
    finished(path, ratios={"a": 2.0})
    assert "2 before, 2 now" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["processor", "instructions", "cores", "threads"])
def test_other_machines_are_not_compared_with(name, path, capsys):
    finished(path, machine={name: "other"}, ratios={"a": 1})
    capsys.readouterr()
    finished(path, ratios={"a": 9})
    assert "no earlier run" in capsys.readouterr().err


def test_other_arguments_are_not_compared_with(path, capsys):
    finished(path, {"units": 400}, ratios={"a": 1})
    capsys.readouterr()
    finished(path, {"units": 1600}, ratios={"a": 9})
    assert "no earlier run" in capsys.readouterr().err


def test_versions_that_changed_are_told(path, capsys):
    finished(path, machine={"versions": history.machine()["versions"] | {"numpy": "0.1"}})
    finished(path)
    assert "numpy 0.1 before" in capsys.readouterr().err


def test_no_places_are_recorded(tmp_path, path, monkeypatch):
    (tmp_path / "DATA").mkdir()
    monkeypatch.chdir(tmp_path)
    given = {
        "data": "DATA",
        "model": str(tmp_path / "model"),
        "cifar10": Path("somewhere"),
        "units": [64],
        "json": path,
    }
    finished(path, given | {"device": "cpu", "large": False, "rows": None})
    (entry,) = history.read(path)
    assert entry["arguments"] == {"data": True, "model": True, "cifar10": True, "units": [64], "device": "cpu"}
    assert str(tmp_path) not in path.read_text()


def test_quick_runs_are_recorded_only_on_request(path, monkeypatch):
    monkeypatch.setattr(history, "HOME", path)
    finished(None, {"quick": True}, ratios={"a": 1})
    assert not path.exists()
    finished(None, {"quick": False}, ratios={"a": 1})
    finished(path, {"quick": True}, ratios={"a": 1})
    assert len(history.read(path)) == 2


@pytest.mark.parametrize("line", ["{", "[1]", '{"benchmark": "a"}'])
def test_damaged_lines(line, path):
    finished(path)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(SystemExit, match=r"line 2 .* remove the line"):
        finished(path)


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(SystemExit, match="give --history a file"):
        finished(tmp_path / "no folder" / "history.jsonl")


def test_figures_must_be_finite(path):
    with pytest.raises(ValueError, match="JSON"):
        finished(path, ratios={"a": float("nan")})


def test_main_tells_of_this_processor(path, monkeypatch, capsys):
    finished(path, ratios={"a": 1})
    finished(path, ratios={"a": 3})
    finished(path, machine={"processor": "other"}, ratios={"a": 7})
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["history.py", "--history", str(path)])
    history.main()
    told = capsys.readouterr().out
    assert "3 run(s) in the history, 2 of them on this processor" in told
    assert re.search(r"SLOWER +a: 1 before, 3 now", told)
    assert told.count("SLOWER") == 1


def test_the_option():
    parser = ArgumentParser()
    history.add_option(parser)
    assert parser.parse_args([]).history is None
    assert parser.parse_args(["--history", "FILE"]).history == Path("FILE")


def test_lines_in_the_repository_can_be_read():
    for entry in history.read(history.HOME):
        assert set(entry) == set(history.FIELDS)
        assert "/" not in json.dumps(entry["arguments"])


# They tell seconds or memory of a kind that one run does not compare with the next.
WITHOUT = {"bench_convolutional", "bench_explore", "bench_learners", "bench_out_of_core"}


def test_benchmarks_keep_a_history():
    calls = ["history.add_option(parser)", "history.Run(", "run.add(", "run.finish()"]
    for script in BENCHMARKS.glob("bench_*.py"):
        text = script.read_text()
        assert [call in text for call in calls] == [script.stem not in WITHOUT] * 4, script.name
