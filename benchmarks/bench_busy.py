"""What the library loses on a machine that does other things, too.

    python benchmarks/bench_busy.py            # on an idle machine: it makes the load by itself
    python benchmarks/bench_busy.py --quick

A fit of the digits, an epoch of training with 1600 units on 300 inputs and dense encoding with 1600 units, each in
turns on the idle machine and beside one busy process for each core. A fair share of the machine is half of it: the busy
time should be about twice the idle time, and 2.2 times at most. Results are the same bits, busy or idle. It uses public
names alone, so PYTHONPATH can point to an earlier version for comparison.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext

import history
import numpy as np
from common import timed
from sklearn.datasets import load_digits

import epls

LARGEST_RATIO = 2.2


@contextmanager
def busy_machine():
    """One process for each core that never stops computing."""
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(history.n_cores())]
    try:
        time.sleep(0.5)
        yield
    finally:
        for process in load:
            process.kill()
            process.wait()


def new_cases(quick):
    """Functions by name, each of which returns an array that must have the same bits every time."""
    random = np.random.RandomState(0)
    n_units, n_images = (200, 2) if quick else (1600, 8)
    digits = load_digits().data
    samples = random.standard_normal((10 * n_units, 300)).astype(np.float32)
    images = random.randint(256, size=(n_images, 96, 96, 3)).astype(np.uint8)
    learner = epls.EPLS(n_units, max_iter=1, random_state=0)
    features = epls.ImageFeatures(learner, patch_size=10, n_patches=3 * n_units, random_state=0).fit(images)
    return {
        "digits, EPLS(50)": lambda: epls.EPLS(50, random_state=0).fit(digits).components_,
        f"training, {n_units} units": lambda: (
            epls.EPLS(n_units, max_iter=2, settings=epls.TrainingSettings(wake=False), random_state=0)
            .fit(samples)
            .components_
        ),
        f"dense encoding, {n_units} units": lambda: features.transform(images),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="turns, idle and busy")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, three turns")
    history.add_option(parser)
    options = parser.parse_args()
    run = history.Run(options)
    cases = new_cases(options.quick)
    for case in cases.values():
        case()  # compiles
    seconds = {name: ([], []) for name in cases}
    digests = {name: set() for name in cases}
    for _ in range(3 if options.quick else options.rounds):
        for busy in (0, 1):
            for name, case in cases.items():
                with busy_machine() if busy else nullcontext():
                    taken, result = timed(case)
                seconds[name][busy].append(taken)
                digests[name].add(hashlib.sha256(np.ascontiguousarray(result).tobytes()).hexdigest())
    found = {}
    for name, (idle, busy) in seconds.items():
        found[name] = {
            "idle, s": round(float(np.median(idle)), 3),
            "busy, s": round(float(np.median(busy)), 3),
            "busy / idle": round(float(np.median(busy) / np.median(idle)), 2),
            "each turn": [round(b / i, 2) for i, b in zip(idle, busy, strict=True)],
            "same bits": len(digests[name]) == 1,
        }
    facts = {"machine": run.entry["machine"], "largest allowed": LARGEST_RATIO}
    print(json.dumps(facts | found, indent=1, allow_nan=False))
    run.add(
        ratios={f"{name}: busy / idle": case["busy / idle"] for name, case in found.items()},
        seconds={f"{name}: idle": case["idle, s"] for name, case in found.items()},
    )
    run.finish()
    sys.exit(not all(case["same bits"] for case in found.values()))  # whether it is fast is for the reader to judge


if __name__ == "__main__":
    main()
