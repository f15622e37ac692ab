"""How good and how fast the targets are, against the exact optimum of each batch.

    python benchmarks/bench_target.py                   # made-up outputs
    python benchmarks/bench_target.py --data DIR        # and those of a real training on STL-10 (DIR/stl10_binary)

Quality is the mean output at the winners, as a share of the exact optimum's. The exact optimum is that of
scipy.optimize.linear_sum_assignment.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from bench_training import epochs, load_patches
from scipy.special import expit

from epls.algorithm.target import AuctionTarget, ExactTarget, LiteralTarget
from epls.metrics import win_spread


def made_up_outputs(n):
    random = np.random.RandomState(0)
    low_rank = random.normal(size=(n, 20)) @ random.normal(size=(20, n))
    return {
        "uniform": random.uniform(size=(n, n)),
        "logistic": expit(random.normal(-6, 2, size=(n, n))),
        "strongly biased": expit(random.normal(-20, 3, size=(n, n))),
        "clustered": expit(low_rank - 12),
        "clustered, strongly biased": expit(low_rank - 30),
    }


def outputs_in_training(folder, n, n_epochs):
    """One batch of each epoch of a training."""
    kept = []

    class Keeping(AuctionTarget):
        def start_epoch(self, n_samples):
            super().start_epoch(n_samples)
            self.keep = True

        def assign(self, outputs):
            if self.keep:
                kept.append(outputs.copy())
                self.keep = False
            return super().assign(outputs)

    for _ in epochs(load_patches(folder, 50 * n), n, n_epochs, Keeping):
        pass
    return {f"STL-10, epoch {k + 1}": outputs for k, outputs in enumerate(kept)}


def judge(name, H):
    H = np.ascontiguousarray(H, dtype=np.float32)
    n = len(H)
    results = {}
    for target_class in (ExactTarget, AuctionTarget, LiteralTarget):
        target_class(n).assign(H[: n // 2])  # compile
        target = target_class(n)
        target.start_epoch(n)
        started = time.perf_counter()
        winners = target.assign(H)
        seconds = time.perf_counter() - started
        results[target_class] = H[np.arange(n), winners].mean(dtype=np.float64), seconds, win_spread(winners, n)
    best, exact_seconds, _ = results[ExactTarget]
    auction, auction_seconds, auction_spread = results[AuctionTarget]
    literal, literal_seconds, literal_spread = results[LiteralTarget]
    print(
        f"| {name} | {best:.4g} | {auction / best:.5f} | {literal / best:.3f} | {auction_spread} | {literal_spread} "
        f"| {1e3 * exact_seconds:.0f} | {1e3 * auction_seconds:.1f} | {1e3 * literal_seconds:.1f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--components", type=int, default=1600)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    options = parser.parse_args()
    n = 100 if options.quick else options.components
    print(f"{n} x {n} float32")
    print("| outputs | best mean | auction | literal | spread | literal's | exact, ms | auction, ms | literal, ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    kinds = made_up_outputs(n)
    if options.data:
        kinds |= outputs_in_training(options.data, n, options.epochs)
    for name, H in kinds.items():
        judge(name, H)


if __name__ == "__main__":
    main()
