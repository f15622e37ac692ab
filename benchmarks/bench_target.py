"""How good and how fast the targets are.

    python benchmarks/bench_target.py                   # made-up outputs
    python benchmarks/bench_target.py --data DIR        # and those of trainings on STL-10 (DIR/stl10_binary)

First, one batch of N_h samples: the mean output at the winners as a share of the exact optimum's, which is that of
scipy.optimize.linear_sum_assignment. Beside it the auction of balanced_assignment, whose rows bid in rounds that
threads share (tol=0.01), for comparison. Then, with --data, an epoch: from time to time in a training, the outputs of
all samples at the weights of that moment, cut in batches, against the best target that is balanced over all of them.
That best is between what an auction over all samples reaches and its dual bound. The literal rule has N = samples of
the epoch, and carries its inhibitor from batch to batch, as in the paper. One column is again the auction against the
best of a batch.
"""

import argparse
import time
from pathlib import Path

import history
import numpy as np
from bench_training import load_patches, new_training
from scipy.special import expit
from threadpoolctl import threadpool_limits

from epls import balanced_assignment
from epls.algorithm.settings import batch_rows, usual_epochs
from epls.algorithm.target import AuctionTarget, ExactTarget, LargestTarget, LiteralTarget
from epls.kernels.auction import auction

STAGES = (0.0, 0.06, 0.12, 0.18, 0.25, 0.5, 1.0)  # of a training; its outputs are sparse from 0.25 on


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


def outputs_in_training(X, n_components, batch_size):
    """At each stage of a training: its epoch, the outputs of all samples in random order."""
    n_epochs = usual_epochs(-(-len(X) // batch_size), n_components)
    stages = {max(round(stage * n_epochs), 1) for stage in STAGES}
    training, reports = new_training(X, n_components, n_epochs, "auction", batch_size)
    layer = training.engine.objective
    order = np.random.RandomState(1).permutation(len(X))
    for report in reports:
        if report.epoch in stages:
            weights = training.weights
            outputs = (X[order] - layer.center.astype(X.dtype)) @ (weights[:, :-1].T / X.dtype.type(layer.scale))
            outputs += weights[:, -1]
            yield f"epoch {report.epoch} of {n_epochs}", expit(outputs, out=outputs)


def assigned(target, outputs, batch_size):
    """The mean output at the winners of an epoch, the spread of wins and the seconds."""
    target.start_epoch(len(outputs))
    seconds, winners = 0.0, []
    for start in range(0, len(outputs), batch_size):
        batch = outputs[start : start + batch_size]
        started = time.perf_counter()
        winners.append(target.assign(batch))
        seconds += time.perf_counter() - started
    winners = np.concatenate(winners)
    mean = outputs[np.arange(len(outputs)), winners].mean(dtype=np.float64)
    return mean, int(np.ptp(np.bincount(winners, minlength=target.n_components))), seconds


def best_of_epoch(outputs):
    """What the best target that is balanced over all samples reaches on average: no less than, no more than."""
    n_samples, n_components = outputs.shape
    shares = np.full(n_components, n_samples // n_components)
    assert shares.sum() == n_samples
    winners = np.empty(n_samples, np.intp)
    prices = auction(outputs, shares, 0.002, winners)
    bound = shares @ prices.astype(np.float64)
    for start in range(0, n_samples, 2000):
        bound += (outputs[start : start + 2000] - prices).max(axis=1).sum(dtype=np.float64)
    return outputs[np.arange(n_samples), winners].mean(dtype=np.float64), bound / n_samples


def judge_batch(name, H):
    H = np.ascontiguousarray(H, dtype=np.float32)
    n = len(H)
    results = []
    for target in (ExactTarget(n), AuctionTarget(n)):
        target.assign(H[: n // 2])  # compile
        results.append(assigned(target, H, n))
    (best, _, exact_seconds), (mean, spread, seconds) = results
    (by_rounds, one), (_, two) = (in_rounds(H, n_threads) for n_threads in (1, 2))
    print(
        f"| {name} | {best:.4g} | {mean / best:.5f} | {spread} | {1e3 * exact_seconds:.0f} | {1e3 * seconds:.1f} | "
        f"{by_rounds / best:.5f} | {1e3 * one:.1f} | {1e3 * two:.1f} |"
    )
    return {f"{name}: auction": seconds, f"{name}: exact": exact_seconds, f"{name}: in rounds, one thread": one}


def in_rounds(H, n_threads):
    """The mean output at the winners of the auction that balanced_assignment holds, and the least seconds of five."""
    seconds = []
    with threadpool_limits(n_threads):
        for _ in range(5):
            started = time.perf_counter()
            winners = balanced_assignment(H, 1, maximize=True, tol=0.01)
            seconds.append(time.perf_counter() - started)
    return H[np.arange(len(H)), winners].mean(dtype=np.float64), min(seconds)


def judge_epoch(name, outputs, batch_size):
    n_samples, n_components = outputs.shape
    reached, bound = best_of_epoch(outputs)
    kinds = (AuctionTarget, LiteralTarget, LargestTarget)
    results = [assigned(kind(n_components), outputs, batch_size) for kind in kinds]
    quality = " | ".join(f"{mean / bound:.4f}" for mean, _, _ in results)
    spreads = " | ".join(str(spread) for _, spread, _ in results)
    first = outputs[:batch_size]
    of_batch = assigned(AuctionTarget(n_components), first, batch_size)[0]
    of_batch /= assigned(ExactTarget(n_components), first, batch_size)[0]
    times = " | ".join(f"{1e3 * seconds * batch_size / n_samples:.1f}" for _, _, seconds in results[:2])
    best = f"{bound:.4g} | {reached / bound:.5f} | {of_batch:.5f}"
    print(f"| {name} | {best} | {quality} | {spreads} | {times} |", flush=True)


def epochs_of_training(folder, n_components, n_samples, batch_size):
    print(f"\n{n_components} units, {n_samples:,} samples, batches of {batch_size}: against the best of the epoch")
    names = ("auction", "literal", "largest")
    columns = [*names, *(f"spread: {name}" for name in names), *(f"ms a batch: {name}" for name in names[:2])]
    print(f"| outputs | best mean, at most | at least | auction, of its batch's | {' | '.join(columns)} |")
    print("|---" * (4 + len(columns)) + "|")
    X = load_patches(folder, n_samples).astype(np.float32)
    for name, outputs in outputs_in_training(X, n_components, batch_size):
        judge_epoch(name, outputs, batch_size)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--components", type=int, default=1600, help="units of a batch of made-up outputs")
    parser.add_argument("--units", type=int, nargs="+", default=[64, 1600], help="of the trainings")
    parser.add_argument("--samples", type=int, nargs="+", default=[2048, 32000], help="of each of them")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    history.add_option(parser)
    options = parser.parse_args()
    run = history.Run(options)
    n = 100 if options.quick else options.components
    print(f"{n} units, a batch of {n} samples, float32: against the best of the batch")
    rounds = "in rounds | one thread, ms | two threads, ms"
    print(f"| outputs | best mean | auction | spread | exact, ms | auction, ms | {rounds} |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, H in made_up_outputs(n).items():
        seconds = judge_batch(name, H)
        against = seconds[f"{name}: exact"] / seconds[f"{name}: auction"]
        run.add(gains={f"{name}: auction against exact": against}, seconds=seconds)
    run.finish()
    if options.data:
        sizes = [(10, 200)] if options.quick else zip(options.units, options.samples, strict=True)
        for n_components, n_samples in sizes:
            for batch_size in sorted({n_components, batch_rows(n_components, n_samples)}):
                epochs_of_training(options.data, n_components, n_samples, batch_size)


if __name__ == "__main__":
    main()
