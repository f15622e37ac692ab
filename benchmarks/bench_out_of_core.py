"""Data larger than memory: how much of it is resident, and what reading costs.

    python benchmarks/bench_out_of_core.py --folder DISK            # 20 GB; needs 27 GB of disk
    python benchmarks/bench_out_of_core.py --folder DISK --quick    # small, to see that it runs

A file of vectors is made, learned from and encoded by the `epls` command's own functions, each in a process of its own,
whose peak of resident memory is reported. Then an epoch from a memory map is compared with one from an array.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from epls.utils.npy import npy_header

FEATURES, UNITS = 300, 100
WORK = """
import json, re, sys
from time import perf_counter
import numpy as np
from epls import EPLS, load_model, save_model
from epls.cli.main import run

task, data, model, codes, epochs = sys.argv[1:]
started = perf_counter()
if task == "fit":
    learner = EPLS({units}, max_iter=int(epochs), random_state=0).fit(np.load(data, mmap_mode="r"))
    save_model(learner, model)
else:
    assert run(["transform", model, data, "-o", codes, "--force"]) == 0
# Of this program alone: what getrusage tells contains the process that it was started from.
peak = int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) / 2**20
print(json.dumps({{"seconds": perf_counter() - started, "peak [GiB]": peak}}))
"""


def make(path, n_rows):
    """Sparse mixtures of fixed directions, written a piece at a time."""
    random = np.random.default_rng(0)
    directions = random.normal(size=(500, FEATURES)).astype(np.float32)
    with path.open("wb") as file:
        file.write(npy_header((n_rows, FEATURES)))
        for start in range(0, n_rows, 2**16):
            if start % 2**20 == 0:  # new mixtures for every sixteenth piece: making them takes longest
                strengths = random.laplace(size=(2**16, 3)).astype(np.float32)
                mixtures = np.einsum("ij,ijk->ik", strengths, directions[random.integers(500, size=(2**16, 3))])
            n = min(2**16, n_rows - start)
            file.write((mixtures[:n] + random.standard_normal((n, 1), np.float32)).tobytes())


def measured(task, *arguments):
    """Seconds and peak of memory of a process."""
    command = [sys.executable, "-c", WORK.format(units=UNITS), task, *map(str, arguments)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def epochs_compared(path, n_rows, units, epochs):
    """Median seconds of an epoch from an array and from the map of its file, by turns."""
    from epls import EPLS

    rows = np.load(path, mmap_mode="r")[:n_rows]
    part = path.with_name("part.npy")
    np.save(part, rows)
    array, mapped = np.load(part), np.load(part, mmap_mode="r")
    seconds = {"array": [], "memory map": []}
    for _ in range(2):
        for name, X in (("array", array), ("memory map", mapped)):
            model = EPLS(units, max_iter=epochs, random_state=0).fit(X)
            seconds[name] += [report.seconds for report in model.epoch_reports_]
    part.unlink()
    return {name: float(np.median(values)) for name, values in seconds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to make the data; the system's temporary folder if left out")
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    gigabytes = 0.02 if options.quick else options.gigabytes
    n_rows = int(gigabytes * 1e9 / FEATURES / 4)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        data, model, codes = (Path(folder) / name for name in ("data.npy", "model.epls", "codes.npy"))
        started = perf_counter()
        make(data, n_rows)
        print(
            f"{data.stat().st_size / 1e9:.2f} GB, {n_rows:,} rows, made in {perf_counter() - started:.0f} s", flush=True
        )
        for task in ("fit", "transform"):
            found = measured(task, data, model, codes, options.epochs)
            what = f"fit, {options.epochs} epochs, {UNITS} units" if task == "fit" else "transform"
            print(f"{what}: {found['seconds']:.0f} s, peak {found['peak [GiB]']:.2f} GiB resident", flush=True)
        codes.unlink()
        units, some = (20, n_rows) if options.quick else (400, min(n_rows, 2_000_000))
        found = epochs_compared(data, some, units, 2)
    ratio = found["memory map"] / found["array"]
    print(
        f"an epoch of {some:,} rows, {units} units: array {found['array']:.2f} s, map {found['memory map']:.2f} s,"
        f" ratio {ratio:.2f}"
    )


if __name__ == "__main__":
    main()
