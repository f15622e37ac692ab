"""EPLS at its defaults on many kinds of data: no NaN, no warning, a falling error, balanced wins, every unit active.

    python benchmarks/no_tuning.py                      # what needs no data set
    python benchmarks/no_tuning.py --data DIR           # and what is found of stl10_binary, cifar-10-batches-bin and
                                                        # *-images-idx3-ubyte[.gz] (MNIST, Fashion-MNIST) in DIR
                                                        # or where Debian's dataset-fashion-mnist puts it

Units: 100, or a tenth of the samples if those are fewer than 1,000. "Least largest" is the smallest over the units of a
unit's largest output on the training data: below 0.1 it is never active.
"""

import argparse
import gzip
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_images, load_wine

from epls import EPLS
from epls.images.patches import normalize_patches, sample_patches
from epls.metrics import never_active


def bundled_kinds():
    """Data made here or shipped with scikit-learn, by name."""
    random = np.random.RandomState(0)
    photographs = load_sample_images().images
    pixels = sample_patches(photographs, 20_000, 8, random_state=0)
    patches = normalize_patches(pixels)
    eigenvalues, eigenvectors = np.linalg.eigh(np.cov(patches.T))
    digits = load_digits().data
    tabular = np.vstack([load_breast_cancer().data[:, :13], load_wine().data])
    return {
        "photo patches, normalised": patches,
        "photo patches, raw pixels 0-255": pixels,
        "photo patches, whitened": (patches @ eigenvectors / np.sqrt(eigenvalues + 0.1)).astype(np.float32),
        "digits": digits,
        "digits, tiny: 100 samples": digits[:100],
        "Gaussian noise": random.normal(size=(10_000, 50)),
        "heavy-tailed noise (Student, 2 degrees)": random.standard_t(2, size=(10_000, 50)),
        "Cauchy noise": random.standard_cauchy(size=(10_000, 50)),
        "uniform noise, one feature": random.uniform(size=(10_000, 1)),
        "unscaled tabular data": tabular,
        "constant and duplicate columns": np.hstack([digits, digits[:, 20:40], np.full((len(digits), 5), 1e6)]),
        "duplicate rows": np.repeat(digits[:20], 100, axis=0),
        "two tight clusters": np.repeat([[0.0], [1.0]], 2_000, axis=0) + 1e-3 * random.normal(size=(4_000, 10)),
        "binary, rare ones": (random.uniform(size=(10_000, 40)) < 0.02).astype(np.uint8),
        "all rows equal": np.full((500, 7), 3.25),
        "counts, far from zero": 1e6 + random.poisson(3, size=(5_000, 20)),
    }


def found_kinds(folder):
    """What of the usual data sets lies in the folder."""
    kinds = {}
    stl10, cifar10 = folder / "stl10_binary" / "train_X.bin", folder / "cifar-10-batches-bin" / "data_batch_1.bin"
    if stl10.exists():
        images = np.memmap(stl10, np.uint8, "r").reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1)
        kinds["STL-10 patches, normalised"] = normalize_patches(sample_patches(images, 50_000, 10, random_state=0))
    if cifar10.exists():
        images = np.fromfile(cifar10, np.uint8).reshape(-1, 3073)[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        kinds["CIFAR-10 patches, normalised"] = normalize_patches(sample_patches(images, 50_000, 6, random_state=0))
        kinds["CIFAR-10, whole images, bytes"] = images.reshape(len(images), -1)
    debian = Path("/usr/share/datasets/fashion-mnist")
    for path in sorted([*folder.glob("**/train-images-idx3-ubyte*"), *debian.glob("**/train-images-idx3-ubyte*")]):
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            kinds[f"{path.parent.name}, bytes"] = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    return kinds


def judge(X):
    """What EPLS at its defaults makes of the data; a warning is an error, unless it is that all samples are equal."""
    n_units = min(100, len(X) // 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "all .* samples are equal")
        model = EPLS(n_units, random_state=0).fit(X)
        codes = model.transform(X)
    return {
        "finite": bool(np.isfinite(codes).all() and np.isfinite(model.components_).all()),
        "first error": model.loss_curve_[0],
        "last error": model.loss_curve_[-1],
        "spread": max(
            [
                int(np.ptp(np.bincount(model.winners(X), minlength=n_units))),
                *(report.win_spread for report in model.epoch_reports_),
            ]
        ),
        "never active": len(never_active(codes, "logistic")),
        "least largest": float(codes.max(axis=0).min()),
        "mean output": float(codes.mean()) * n_units,
        "seconds": sum(report.seconds for report in model.epoch_reports_),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("no folder"))
    kinds = bundled_kinds() | found_kinds(parser.parse_args().data)
    print(
        "| data | samples x features | error, first to last epoch | spread of wins | never active | least largest "
        "| mean output x units | s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, X in kinds.items():
        r = judge(X)
        verdict = "" if r["finite"] and r["last error"] < r["first error"] and not r["never active"] else " **FAILED**"
        print(
            f"| {name}{verdict} | {len(X):,} x {X.shape[1]} | {r['first error']:.2f} to {r['last error']:.3f} "
            f"| {r['spread']} | {r['never active']} | {r['least largest']:.2f} | {r['mean output']:.2f} "
            f"| {r['seconds']:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
