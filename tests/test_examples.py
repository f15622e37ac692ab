"""Every script in ``examples/`` runs as a reader would run it, and ends with a picture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("plot_*.py"))

# Counts the figures when the script shows them, as there is no window to look at.
RUN = """
import runpy, sys
import matplotlib.pyplot as plt

shown = []
plt.show = lambda: shown.extend(len(plt.figure(number).axes) for number in plt.get_fignums())
runpy.run_path(sys.argv[1], run_name="__main__")
for number in plt.get_fignums():
    plt.figure(number).canvas.draw()
print("panels shown:", shown)
"""


def test_there_are_examples():
    assert len(SCRIPTS) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_runs_without_warnings_and_shows_one_figure(script, tmp_path):
    # One thread: examples are small, and other tests may run at the same time.
    environment = os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *printed, shown = done.stdout.splitlines()
    assert printed, "a figure or two should be printed"
    panels = shown.removeprefix("panels shown: ").strip("[]")
    assert panels.isdigit(), f"one figure is wanted, got {shown}"
    assert int(panels) >= 1
    assert not list(tmp_path.iterdir()), "an example leaves no files behind"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_begins_with_a_title_for_the_gallery(script):
    quotes, title, underline = script.read_text().splitlines()[:3]
    assert quotes == '"""'
    assert underline == "=" * len(title)
