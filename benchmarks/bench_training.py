"""How near training comes to the matrix products that it cannot do without.

    python benchmarks/bench_training.py                    # patches of scikit-learn's photographs
    python benchmarks/bench_training.py --data DIR         # patches of STL-10 (DIR/stl10_binary)

An epoch of EPLS on 160,000 x 300 float32 with 1600 units against its two products a batch (forward, gradient), bare,
with the same library, threads and shapes, in turns. Then the share of the target, the growth with the three sizes, and
the peak memory beyond the data against the paper's formula.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import history
import numpy as np
from common import normalized_patches

from epls.algorithm.activations import LOGISTIC
from epls.algorithm.engine import Objective, new_engine
from epls.algorithm.settings import TrainingSettings
from epls.algorithm.training import Training, initial_weights
from epls.data.samples import ArraySamples
from epls.datasets import load_stl10
from epls.utils.threads import allowed_threads

FIXED_OVERHEAD = 64  # MiB: compiled code, thread stacks, BLAS buffers, the shuffled order of the samples


class TimedTarget:
    """A target that adds up the time it takes."""

    def __init__(self, target):
        self.target, self.seconds = target, 0.0

    def start_epoch(self, n_samples):
        self.target.start_epoch(n_samples)

    def assign(self, outputs):
        started = time.perf_counter()
        winners = self.target.assign(outputs)
        self.seconds += time.perf_counter() - started
        return winners


def load_patches(folder, n_patches, patch_size=10):
    images = load_stl10(folder).train_images if folder else None
    return normalized_patches(n_patches, patch_size, images)


def new_training(X, n_components, n_epochs, target_name, batch_size=None):
    """A training as that of EPLS, with an iterator over its epochs' reports."""
    random, samples = np.random.RandomState(0), ArraySamples(X)
    settings = TrainingSettings(target=target_name, max_norm=1.0)
    engine = new_engine(Objective(X.mean(axis=0, dtype=np.float64), float(X.std()), LOGISTIC, settings), n_components)
    weights = initial_weights(n_components, X.shape[1], random, X.dtype)
    batch_size = batch_size or n_components
    training = Training(weights, engine, n_steps=n_epochs * samples.n_batches(batch_size))
    return training, (training.epoch(samples, batch_size, random) for _ in range(n_epochs))


def epochs(X, n_components, n_epochs, target_name="auction"):
    """Train as EPLS does; the seconds of each epoch and those of the target in it."""
    training, reports = new_training(X, n_components, n_epochs, target_name)
    training.engine.target = target = TimedTarget(training.engine.target)
    before = 0.0
    for report in reports:
        yield report.seconds, target.seconds - before
        before = target.seconds


def products(X, n_components):
    """The seconds of the two products of every batch of an epoch, and of nothing else."""
    weights, outputs = np.ones((n_components, X.shape[1]), X.dtype), np.ones((n_components, n_components), X.dtype)
    gradient = np.ones_like(weights)
    started = time.perf_counter()
    for start in range(0, len(X) - n_components + 1, n_components):
        batch = X[start : start + n_components]
        np.matmul(batch, weights.T, out=outputs)
        np.matmul(outputs.T, batch, out=gradient)
    return time.perf_counter() - started


def speed(X, n_components, n_epochs, run):
    print(f"{len(X):,} x {X.shape[1]} float32, {n_components} units, {allowed_threads()} threads, {n_epochs} epochs")
    for name, n_runs in (("auction", n_epochs), ("literal", max(n_epochs // 4, 1))):
        list(epochs(X[: 2 * n_components], n_components, 1, name))  # compile
        rows = [(*times, products(X, n_components)) for times in epochs(X, n_components, n_runs, name)]
        epoch, target, bare = np.array(rows).T
        print(
            f"  {name}: epoch {np.median(epoch):.2f} s, bare products {np.median(bare):.2f} s, ratio "
            f"{np.median(epoch / bare):.2f} (first epoch {epoch[0] / bare[0]:.2f}, worst {np.max(epoch / bare):.2f}); "
            f"target {100 * target.sum() / epoch.sum():.1f} % of the time (first epoch "
            f"{100 * target[0] / epoch[0]:.1f} %)"
        )
        run.add(
            ratios={f"{name}: epoch / bare products": np.median(epoch / bare)},
            seconds={f"{name}: epoch": np.median(epoch), f"{name}: bare products": np.median(bare)},
        )


def growth(X):
    """Exponents of the time of an epoch in each size, fitted over three doublings.

    The passes over the outputs do not depend on N_d, so that at few features they, and not the products, take the time.
    """
    wide = np.hstack([X[:12_800]] * 16)
    sizes = {
        "N": [(X[:n], 800) for n in (20_000, 40_000, 80_000, 160_000)],
        "N_h": [(X[:38_400], k) for k in (800, 1600, 3200, 6400)],
        "N_d": [(np.ascontiguousarray(wide[:, :d]), 800) for d in (600, 1200, 2400, 4800)],
    }
    for name, cases in sizes.items():
        # The second half of a short training: the share of the target is that of most of the epochs.
        seconds = [float(np.median([s for s, _ in list(epochs(data, k, 8))[4:]])) for data, k in cases]
        size = [len(data) if name == "N" else k if name == "N_h" else data.shape[1] for data, k in cases]
        exponent = np.polyfit(np.log(size), np.log(seconds), 1)[0]
        print(f"  time of an epoch grows with {name}^{exponent:.2f}: {size} -> {[round(s, 3) for s in seconds]} s")


def memory(n_samples, n_features, n_components):
    """Peak memory of a fit beyond the data, in a process of its own (Linux tells the peak since it was last reset)."""
    code = f"""
import numpy as np
from epls import EPLS
def megabytes(name):
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(name)) / 1024
X = np.random.default_rng(0).standard_normal(({n_samples}, {n_features}), dtype=np.float32)
EPLS(4, max_iter=1, random_state=0).fit(X[:100])  # compile
open("/proc/self/clear_refs", "w").write("5")
before = megabytes("VmRSS")
EPLS({n_components}, max_iter=1, random_state=0).fit(X)
print(megabytes("VmHWM") - before)
"""
    beyond = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    formula = 4 / 2**20 * (n_components * (n_features + 1) + n_components * (n_features + 2 * n_components))
    print(
        f"  {n_samples:,} x {n_features}, {n_components} units: {beyond:.0f} MiB beyond the data; the paper's formula "
        f"{formula:.0f} MiB, allowed 2 x {formula:.0f} + {FIXED_OVERHEAD} = {2 * formula + FIXED_OVERHEAD:.0f} MiB"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int, default=24, help="24 is what EPLS takes by default here")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    history.add_option(parser)
    options = parser.parse_args()
    run = history.Run(options)
    X = load_patches(options.data, 4_000 if options.quick else 160_000)
    print("Speed")
    speed(X, 100 if options.quick else 1600, 4 if options.quick else options.epochs, run)
    run.finish()
    if options.quick:
        return
    print("Growth")
    growth(X)
    print("Memory")
    memory(160_000, 300, 1600)
    memory(40_000, 300, 3200)


if __name__ == "__main__":
    main()
