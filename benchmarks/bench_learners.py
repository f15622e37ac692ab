"""What each learner takes to learn: seconds and memory, at 1600 units and 100,000 patches of STL-10.

    python benchmarks/bench_learners.py DATA
    python benchmarks/bench_learners.py --quick          # made-up data, small

DATA holds the official stl10_binary. Each learner has a process of its own, one after the other. Epochs are all alike:
a learner is stopped after --seconds, and what its other epochs would take is added. Memory is the largest that the
process had, and what of it was there before learning (libraries, 120 MB of patches).
"""

import argparse
import multiprocessing
import time
import warnings

import numpy as np
from common import normalized_patches, peak_gibibytes, timed
from sklearn.base import clone

from epls import ZCAWhitening
from epls.callbacks import OnEpoch
from epls.datasets import load_stl10
from epls.learners import LEARNERS
from epls.paper.experiment import Experiment, new_learner


class Stopwatch(OnEpoch):
    """When each epoch ended, and how many there are at most; stops the learner when time is up."""

    def __init__(self, seconds):
        self.seconds, self.ends, self.n_epochs = seconds, [], 0
        super().__init__(self.note)

    def note(self, done, total):
        self.ends.append(time.perf_counter())
        self.n_epochs = total

    def on_fit_task_end(self, estimator, context):
        super().on_fit_task_end(estimator, context)
        return len(self.ends) > 1 and self.ends[-1] - self.ends[0] > self.seconds


def measure(name, n_components, X, seconds, results):
    warnings.simplefilter("ignore")  # of those that are stopped early
    learner = new_learner(Experiment(name, n_components=n_components, seed=0))
    compiled = clone(learner)
    if "max_iter" in compiled.get_params():
        compiled.set_params(max_iter=1)
    compiled.fit(X[: max(2 * n_components, 400)])  # compilation is not counted
    watch = Stopwatch(seconds)
    if hasattr(learner, "set_callbacks"):
        learner.set_callbacks(watch)
    before = peak_gibibytes()
    taken, _ = timed(learner.fit, X)
    n_done = len(watch.ends)
    if n_done > 1:
        taken += (watch.n_epochs - n_done) * (watch.ends[-1] - watch.ends[0]) / (n_done - 1)
    peak = peak_gibibytes()
    results.put((taken, n_done, watch.n_epochs, before, peak))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?")
    parser.add_argument(
        "--learner", action="append", choices=sorted(LEARNERS), help="several may be given; default all"
    )
    parser.add_argument("--components", type=int, default=1600)
    parser.add_argument("--patches", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.components, options.seconds, options.learner = 20, 0.1, ["epls", "omp", "sparse_filtering"]
        X = np.random.default_rng(0).normal(size=(500, 12)).astype(np.float32)
    elif options.data is None:
        parser.error("give the folder of STL-10, or --quick")
    else:
        X = normalized_patches(options.patches, images=load_stl10(options.data).train_images)
    white = ZCAWhitening().fit_transform(X)
    print(f"{len(X):,} samples, {options.components} units")
    print(f"{'':20} {'seconds':>9} {'epochs':>12} {'GiB before':>11} {'peak':>6}")
    for name in options.learner or sorted(LEARNERS):
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        arguments = (name, options.components, white if LEARNERS[name].whitens else X, options.seconds, results)
        process = context.Process(target=measure, args=arguments)
        process.start()
        process.join()
        if process.exitcode:
            print(f"{name:20} failed")
            continue
        taken, done, epochs, before, peak = results.get()
        run = f"{done} of {epochs}" if done < epochs else f"{done}"
        print(f"{name:20} {taken:9.1f} {run:>12} {before:11.2f} {peak:6.2f}", flush=True)


if __name__ == "__main__":
    main()
