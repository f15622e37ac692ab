"""What it costs in accuracy that a mini-batch is one image cut into patches: STL-10's development protocol.

    python benchmarks/bench_convolutional.py DATA --units 400 --stride 2

For each fold a classifier is trained on its 1,000 images and tested on the other 4,000 training images, with features
from components that were learned from random patches and from whole images.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from common import timed

from epls import EPLS, ImageFeatures
from epls.datasets import load_stl10
from epls.metrics import redundancy
from epls.paper.judge import judge


def outcome(images, labels, folds, options, sampling):
    """Accuracy over folds, and what learning was like."""
    features = ImageFeatures(
        EPLS(options.units), n_patches=options.patches, sampling=sampling, stride=options.stride,
        random_state=options.seed,
    )  # fmt: skip
    seconds, _ = timed(features.fit, images)
    learner = features.estimator_
    codes = features.transform(images)
    rest = [np.setdiff1d(np.arange(len(labels)), fold) for fold in folds]
    percents = [
        judge(codes[f].copy(), labels[f], codes[r].copy(), labels[r]).accuracy for f, r in zip(folds, rest, strict=True)
    ]
    return {
        "sampling": sampling,
        "accuracy": round(float(np.mean(percents)), 2),
        "std": round(float(np.std(percents, ddof=1)), 2),
        "error": round(learner.loss_curve_[-1], 4),
        "redundancy": round(float(redundancy(learner.components_).mean()), 3),
        "never active": learner.epoch_reports_[-1].n_never_active,
        "epochs": learner.n_iter_,
        "seconds": round(seconds, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder that holds stl10_binary")
    parser.add_argument("--units", type=int, default=400)
    parser.add_argument("--patches", type=int)
    parser.add_argument("--stride", type=int, default=2)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = load_stl10(options.data)
    for sampling in ("patches", "images"):
        found = outcome(data.train_images, data.train_labels, data.folds[: options.folds], options, sampling)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
