"""What is gained by training longer, and lost by training less: the default number of epochs times 1/4 to 4.

    python benchmarks/training_length.py                                          # digits, ten labels a class
    python benchmarks/training_length.py --data DATA --units 100 400 1600         # and STL-10 and CIFAR-10, if in DATA
    python benchmarks/training_length.py --quick

Training has no rule that ends it early: the learning rate falls to 0 over the number of epochs that is given, or that
follows from the sizes. So each length is a training of its own. STL-10: the quick protocol. CIFAR-10: 3,000 images of
the first batch and 3,000 of the fifth, each half tested with the labels of the other; patches from the first four.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from common import normalized_patches
from paper_mends import on_digits
from sklearn.frozen import FrozenEstimator
from stl10_proxy import judged, ridge_accuracy

from epls import EPLS, ImageFeatures
from epls.algorithm.settings import batch_rows, usual_epochs
from epls.datasets import load_cifar10, load_stl10
from epls.images.patches import usual_n_patches

FACTORS = (0.25, 0.5, 1, 2, 4)


def on_cifar10(cifar, n_units, n_patches, settings, seed):
    """EPLS from 6 x 6 patches, encoded at every second position."""
    unlabelled, some = cifar.train_images[:40_000], np.r_[:3000, 40_000:43_000]
    model = EPLS(n_units, random_state=seed, **settings).fit(normalized_patches(n_patches, 6, unlabelled, seed))
    features = ImageFeatures(FrozenEstimator(model), patch_size=6, stride=2, n_patches=5000, random_state=0)
    codes = features.fit(unlabelled).transform(cifar.train_images[some])
    accuracies = ridge_accuracy(codes, cifar.train_labels[some], [np.arange(3000), np.arange(3000, 6000)])
    return {"natural, log": f"{accuracies.mean():.2f}", "error": model.loss_curve_[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of stl10_binary or cifar-10-batches-bin or both")
    parser.add_argument("--units", type=int, nargs="+", default=[400])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()

    def of_units(name, run):
        return {f"{name}, {n} units": (n, usual_n_patches(EPLS(n)), run) for n in options.units}

    kinds = {"digits": (50, 1797, on_digits)}
    if options.data and (options.data / "stl10_binary").exists():
        stl10 = load_stl10(options.data)
        kinds |= of_units(
            "STL-10", lambda settings, seed, *sizes: judged(stl10, *sizes, seed=seed, settings=settings)[1]
        )
    if options.data and (options.data / "cifar-10-batches-bin").exists():
        cifar = load_cifar10(options.data)
        kinds |= of_units("CIFAR-10", lambda settings, seed, *sizes: on_cifar10(cifar, *sizes, settings, seed))
    for kind, (n_units, n_samples, run) in kinds.items():
        sizes = () if run is on_digits else (n_units, n_samples)
        n_batches = -(-n_samples // batch_rows(n_units, n_samples))
        for factor in (0.25, 1) if options.quick else FACTORS:
            settings = {"max_iter": max(1, round(factor * usual_epochs(n_batches, n_units)))}
            found = [run(settings, seed, *sizes) for seed in range(options.seeds)]
            line = {"data": kind, "factor": factor, **settings}
            for figure in ("accuracy", "natural, sum", "natural, log", "error"):
                if figure in found[0]:
                    values = [float(str(one[figure]).split()[0]) for one in found]
                    line[figure] = [round(float(np.mean(values)), 4), values]
            print(json.dumps(line, allow_nan=False), flush=True)


if __name__ == "__main__":
    main()
