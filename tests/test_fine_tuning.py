"""The benchmark of pre-training runs on data that need no download, and writes what it prints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "fine_tuning.py"


@pytest.mark.slow
@pytest.mark.nightly
def test_a_table_of_digits(tmp_path):
    pytest.importorskip("torch")
    command = [sys.executable, "-W", "error", str(SCRIPT), "digits", "--quick", "--json", str(tmp_path / "table.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "table.json").read_text())
    arms = {"learned, fine-tuned", "random, fine-tuned", "learned, SVM", "random, SVM"}
    assert {(r["labels"], r["arm"]) for r in found["records"]} == {(n, arm) for n in (5, 10) for arm in arms}
    accuracies = {(r["labels"], r["arm"]): r["accuracy"] for r in found["records"]}
    assert accuracies[10, "learned, SVM"] > 80
    *_, head, first, _, _, last = done.stdout.splitlines()
    assert head.endswith("digits, 10")
    assert first.startswith("learned, fine-tuned")
    assert f"{accuracies[10, 'random, SVM']:.1f} (0.0)" in last
