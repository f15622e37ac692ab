"""How long the first command takes after an installation, when numba has compiled nothing yet.

    python benchmarks/first_use.py

Runs ``epls fit`` on the bundled digits twice with an empty cache folder for compiled code: cold, then warm. Each
run is a new process, and its time includes imports, training and writing the model. The bar is 10 s for a cold run
on an idle machine. CPU seconds are shown beside the seconds on the clock: other programs change them less.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

BAR = 10.0  # seconds, cold
RUN = "import sys; from epls.cli import main; sys.exit(main())"
CASES = {
    "vectors (1797 x 64, float64)": ("vectors.npy", ()),
    "images (1797 of 8 x 8 pixels)": ("images.npy", ("--patch-size", "4", "--n-components", "50")),
}


def seconds_of_fit(data, model, options, cache):
    """Seconds on the clock and of the processors that ``epls fit`` takes in a new process."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", RUN, "fit", str(data), "-o", str(model), "--force", *options],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        check=True,
        capture_output=True,
    )
    clock, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="vectors only")
    chosen = parser.parse_args()
    digits = load_digits()
    print(f"{'epls fit, first use':32}{'cold':>8}{'CPU':>8}{'warm':>8}{'CPU':>8}   seconds")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "vectors.npy", digits.data)
        np.save(folder / "images.npy", digits.images.astype(np.uint8))
        for title, (file, options) in list(CASES.items())[: 1 if chosen.quick else None]:
            cache = folder / f"compiled-{file}"
            cold = seconds_of_fit(folder / file, folder / "model.epls", options, cache)
            warm = seconds_of_fit(folder / file, folder / "model.epls", options, cache)
            print(f"{title:32}{cold[0]:8.1f}{cold[1]:8.1f}{warm[0]:8.1f}{warm[1]:8.1f}")
    print(f"the bar for cold is {BAR:g} s on an idle machine")


if __name__ == "__main__":
    main()
