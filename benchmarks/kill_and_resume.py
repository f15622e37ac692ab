"""Kill a training with SIGKILL at random moments, start it again, and see that it ends as if nothing had been.

    python benchmarks/kill_and_resume.py                 # 50 kills
    python benchmarks/kill_and_resume.py --quick         # 2

Every training is killed once, at a random moment from its first step to its last, and then resumed to its end. What
counts is that all resumed trainings end with the very bits of one that was left alone.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from epls import EPLS
from epls.algorithm.checkpoint import Checkpoint


def train(folder, result, seconds):
    """The training, in a process of its own."""
    X = np.random.RandomState(0).normal(size=(20_000, 60)).astype(np.float32)
    model = EPLS(100, max_iter=30, random_state=0)
    if folder != "none":
        model.set_callbacks(Checkpoint(folder, seconds=seconds))
    print("started", flush=True)
    model.fit(X)
    np.savez(result, components=model.components_, intercept=model.intercept_, curve=model.loss_curve_)


def run(folder, result, seconds, kill_after=None):
    """Exit code and seconds of a training."""
    command = [sys.executable, __file__, "--train", str(folder), str(result), "--seconds", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        started = time.perf_counter()
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(process.pid, signal.SIGKILL)
        return process.wait(), time.perf_counter() - started


def same(first, second):
    with np.load(first) as a, np.load(second) as b:
        return all(np.array_equal(a[name], b[name]) for name in a.files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=0.05, help="from checkpoint to checkpoint")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(*options.train, options.seconds)
        return
    random = np.random.RandomState(0)
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place, "whole.npz")
        _, alone = run("none", whole, options.seconds)
        n_equal = n_kills = 0
        while n_kills < (2 if options.quick else options.kills):
            folder, result = Path(place, f"checkpoints{n_kills}"), Path(place, f"result{n_kills}.npz")
            code, _ = run(folder, result, options.seconds, kill_after=random.uniform(0, alone))
            if code != -signal.SIGKILL:
                continue  # it had ended
            n_kills += 1
            found = len(list(folder.glob("checkpoint-*")))
            code, rest = run(folder, result, options.seconds)
            equal = code == 0 and same(whole, result)
            n_equal += equal
            print(f"kill {n_kills}: {found} checkpoint(s), {rest:.1f} s more, {'equal' if equal else 'DIFFERENT'}")
    print(f"{n_kills} kills, {n_equal} equal results; undisturbed {alone:.1f} s")
    sys.exit(n_equal != n_kills)


if __name__ == "__main__":
    main()
