"""The quick judge of features: real STL-10 training images, coarse stride, ridge regression, development protocol.

    python benchmarks/stl10_proxy.py DATA                                   # 400 units, under two minutes
    python benchmarks/stl10_proxy.py DATA --components 1600 --patches 160000 --pictures filters.png
    python benchmarks/stl10_proxy.py DATA --learner '{"loss": "squared"}'   # any of epls.TrainingSettings
    python benchmarks/stl10_proxy.py DATA --processes 4                     # that learn together, with torchrun

DATA holds the official stl10_binary folder (train_X.bin, train_y.bin, fold_indices.txt). For each of the 10 folds a
classifier is trained on its 1,000 images and tested on the other 4,000 training images. Also told: the share of noise
filters, units that are never active, and how near the target came to the exact optimum in training.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import normalized_patches, timed
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import OneHotEncoder

import epls
from epls import EPLS, ImageFeatures
from epls.datasets import load_stl10
from epls.images.pooling import RegionGrid, pool_sums
from epls.metrics import never_active, noise_filters, redundancy
from epls.plotting import filter_grid

PATCH = 10


def ridge_accuracy(features, labels, folds):
    """Percent correct per fold, of ridge regression with the penalty of the least leave-one-out error."""
    features = features.astype(np.float64)
    accuracies = []
    for train in folds:
        test = np.setdiff1d(np.arange(len(labels)), train)
        mean, deviation = features[train].mean(axis=0), np.sqrt(features[train].var(axis=0) + 0.01)
        A, B = (features[train] - mean) / deviation, (features[test] - mean) / deviation
        Y = 2 * OneHotEncoder(sparse_output=False).fit_transform(labels[train, None]) - 1
        eigenvalues, U = np.linalg.eigh(A @ A.T)
        rotated = U.T @ (Y - Y.mean(axis=0))
        best_error, best_dual = np.inf, None
        for penalty in np.logspace(1, 6, 21) * A.shape[1] / 1600:
            dual = U @ (rotated / (eigenvalues + penalty)[:, None])
            left_out = dual / ((U * U) @ (1 / (eigenvalues + penalty)))[:, None]
            if np.square(left_out).sum() < best_error:
                best_error, best_dual = np.square(left_out).sum(), dual
        predicted = (B @ (A.T @ best_dual) + Y.mean(axis=0)).argmax(axis=1)
        accuracies.append(100 * np.mean(predicted == labels[test]))
    return np.array(accuracies)


def learned_together(patches, components, seed, n_processes):
    """EPLS, learned by several processes from a part of the patches each."""
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder) / "patches.npy", Path(folder) / "model.epls"
        np.save(data, patches)
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n_processes)]
        fit = ["-m", "epls", "fit", data, "-o", model, "--no-scale", "--n-components", components, "--seed", seed]
        subprocess.run([*torchrun, *map(str, fit)], check=True, stdout=subprocess.DEVNULL)
        return epls.load_model(model)


def judged(data, components=400, n_patches=96_000, stride=3, seed=0, settings=None, accuracy=True, n_processes=1):
    """EPLS with some settings, learned from patches: the model, and what it is worth."""
    images, labels = data.train_images, data.train_labels
    patches = normalized_patches(n_patches, PATCH, images, seed)
    if n_processes > 1:
        seconds, model = timed(learned_together, patches, components, seed, n_processes)
    else:
        seconds, model = timed(EPLS(components, random_state=seed, **(settings or {})).fit, patches)
    largest, mean = np.zeros(components), 0.0
    for block in np.array_split(patches, 10):
        codes = model.transform(block)
        largest = np.maximum(largest, codes.max(axis=0))
        mean += float(codes.mean()) / 10
    result = {
        "epochs": model.n_iter_,
        "training seconds": round(seconds, 1),
        "error": round(model.loss_curve_[-1], 4),
        "noise filters %": round(100 * len(noise_filters(model.components_, patches)) / components, 2),
        "never active": len(never_active(largest[None], "logistic")),
        "smallest largest output": round(float(largest.min()), 3),
        "mean output x units": round(mean * components, 3),
        "redundancy above 0.9 %": round(100 * float(np.mean(redundancy(model.components_) > 0.9)), 2),
    }
    if accuracy:
        features = ImageFeatures(FrozenEstimator(model), stride=stride, n_patches=5000, random_state=0)
        features.fit(images).set_params(pooling="sum")
        sums = features.transform(images).reshape(len(images), features.grid**2, -1)
        counts = RegionGrid(features.geometry.positions(*images.shape[1:3]), features.grid).counts
        for pooling in ("sum", "log"):
            pooled = pool_sums(sums, counts, pooling, features.typical_code_).reshape(len(images), -1)
            accuracies = ridge_accuracy(pooled, labels, data.folds)
            result[f"natural, {pooling}"] = f"{accuracies.mean():.2f} ({accuracies.std():.2f})"
    return model, result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--components", type=int, default=400)
    parser.add_argument("--patches", type=int, default=96_000)
    parser.add_argument("--stride", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="of training; by default the usual ones")
    parser.add_argument("--learner", type=json.loads, default={}, help="values of epls.TrainingSettings as JSON")
    parser.add_argument("--processes", type=int, default=1, help="those of torchrun, with default settings")
    parser.add_argument("--pictures", help="where to write a picture of 100 filters (PNG)")
    parser.add_argument("--no-accuracy", action="store_true", help="tell of the filters only")
    options = parser.parse_args()

    model, result = judged(
        load_stl10(options.data),
        options.components,
        options.patches,
        options.stride,
        options.seed,
        {"settings": epls.TrainingSettings(**options.learner), "max_iter": options.epochs},
        accuracy=not options.no_accuracy,
        n_processes=options.processes,
    )
    if options.pictures:
        from PIL import Image

        picture = Image.fromarray(filter_grid(model.components_, (PATCH, PATCH, 3)))
        picture.resize((picture.width * 5, picture.height * 5), Image.Resampling.NEAREST).save(options.pictures)
    result = {"learner": options.learner, "components": options.components, "processes": options.processes} | result
    print(json.dumps(result, indent=1, allow_nan=False))


if __name__ == "__main__":
    main()
