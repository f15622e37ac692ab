"""Is what `epls classify` and the page of `epls explore` say true? Each claim beside the truth.

    python benchmarks/claims.py calibration --stl10 DATA --features embeddings.npy learned.npy

Calibration: 5, 10 and 20 labels of each class, five draws. Told are the share of the other samples whose predicted
label is right, the mean confidence in these labels, and how often the interval of the accuracy contains that share;
then a table of the share that is right by confidence. Digits and wine come with scikit-learn. DATA holds the official
stl10_binary folder; a file of features has a row for each of its training images.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_wine

from epls.datasets import load_stl10
from epls.evaluation.few_labels import classify

BINS = np.array([0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1])


def labelled_sets(arguments):
    """Name, features and classes of each data set."""
    yield "digits", *load_digits(return_X_y=True)
    yield "wine", *load_wine(return_X_y=True)
    if arguments.stl10:
        classes = load_stl10(arguments.stl10).train_labels
        for path in arguments.features:
            yield f"STL-10, {path.stem}", np.load(path), classes


def drawn(y, per_class, seed):
    """Known labels, as `classify` takes them, and the samples without one."""
    random = np.random.RandomState(seed)
    known = np.concatenate([random.permutation(np.flatnonzero(y == k))[:per_class] for k in np.unique(y)])
    labels = np.full(len(y), None, object)
    labels[known] = y[known].astype(str)
    return labels, np.setdiff1d(np.arange(len(y)), known)


def calibration(arguments):
    """Print how confident and how right predictions are."""
    confidences, rights, covered = [], [], []
    print(f"{'':30} labels  right  confidence  interval covers")
    for name, X, y in labelled_sets(arguments):
        for per_class in (5, 10, 20):
            rows = []
            for seed in range(arguments.seed, arguments.seed + arguments.draws):
                labels, rest = drawn(y, per_class, seed)
                found = classify(X, list(labels))
                right, confidence = found.labels[rest] == y[rest].astype(str), found.confidence[rest]
                low, high = found.interval
                rows.append((right.mean(), confidence.mean(), low <= right.mean() <= high))
                confidences.append(confidence)
                rights.append(right)
            covered += [row[2] for row in rows]
            share, sure, inside = np.mean(rows, axis=0)
            print(f"{name:30} {per_class:6} {100 * share:6.1f} {100 * sure:11.1f} {inside:10.1f}", flush=True)
    print(f"\nthe interval covers the truth in {sum(covered)} of {len(covered)}\n")
    confidence, right = np.concatenate(confidences), np.concatenate(rights)
    print("| confidence | predictions | mean confidence | right |\n|---|---|---|---|")
    for low, high in pairwise(BINS):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            figures = f"{100 * confidence[inside].mean():.1f} | {100 * right[inside].mean():.1f}"
            print(f"| {low:g} to {high:g} | {inside.sum():,} | {figures} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claim", choices=["calibration"])
    parser.add_argument("--stl10", type=Path, metavar="DATA")
    parser.add_argument("--features", type=Path, nargs="*", default=[], metavar="FILE.npy")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    chosen = parser.parse_args()
    {"calibration": calibration}[chosen.claim](chosen)
