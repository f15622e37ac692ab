"""What meta-parameters cost whoever does not know them: accuracy as each goes over two orders of magnitude.

    python benchmarks/price_of_tuning.py DATA --results price.json --picture price.png
    python benchmarks/price_of_tuning.py --quick

DATA holds the official stl10_binary. Each learner has 400 units, 48,000 patches, its natural code at stride 5, log
pooling, and the classifier of stl10_proxy.py. One meta-parameter at a time is a tenth to ten times its default, the
published value where there is one; others stay. What is done is kept in the results file: an interrupted run goes on
there.
"""

import argparse
import json
import math
import time
import warnings
from pathlib import Path

import numpy as np
from stl10_proxy import ridge_accuracy

from epls import ImageFeatures
from epls.datasets import load_stl10
from epls.evaluation.comparison import WHITENED
from epls.files import write_atomically
from epls.learners import LEARNERS

FACTORS = (0.1, 10.0, 0.3, 3.0)  # the ends first: an unfinished study has these
WITHOUT = ("epls", "sparse_filtering", "ica", "kmeans", "random_patches", "raw")
WITH = ("rica", "omp", "sparse_coding", "psd", "sparse_autoencoder", "sparse_rbm")
COUNTS = {"n_nonzero_coefs": (2, 5, 10)}  # whole numbers cannot be a tenth
CHANCE = 10.0  # what a learner that fails is worth
MOST = {"momentum": 0.99, "sparseness": 0.5}  # what makes sense


def trials():
    """Learner, meta-parameter (None: all at their defaults) and value, all that is to be tried."""
    for name in (*WITHOUT, *WITH):
        yield name, None, None
    for factor in FACTORS:
        for name in WITH:
            defaults = LEARNERS[name]().get_params()
            for parameter in LEARNERS[name].meta_parameters:
                if parameter not in COUNTS:
                    yield name, parameter, min(defaults[parameter] * factor, MOST.get(parameter, math.inf))
    for parameter, counts in COUNTS.items():
        yield from (("omp", parameter, n) for n in counts)


def quickest_first(wanted):
    """The trials, each once, those that take an hour at the end: many codes that are not 0 are slow to find."""
    slow = ("sparse_coding", "alpha", LEARNERS["sparse_coding"]().alpha * min(FACTORS))
    return sorted(dict.fromkeys(wanted), key=lambda trial: trial == slow)


def outcome(name, settings, images, labels, folds, options):
    learner = LEARNERS[name]()
    available = learner.get_params()
    given = {"random_state": 0} | settings | ({} if name == "ica" else {"n_components": options.components})
    learner.set_params(**{key: value for key, value in given.items() if key in available})
    started = time.perf_counter()
    features = ImageFeatures(
        learner,
        n_patches=options.patches,
        stride=options.stride,
        whiten=name in WHITENED,
        random_state=0,
    ).fit(images)
    seconds = time.perf_counter() - started
    accuracies = ridge_accuracy(features.transform(images), labels, folds)
    return {"accuracy": accuracies.mean(), "std": accuracies.std(), "learn seconds": seconds}


def draw(results, path):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    usual = {r["learner"]: r.get("accuracy", CHANCE) for r in results if r["parameter"] is None}
    for place, name in enumerate((*WITHOUT, *WITH)):
        tried = [r.get("accuracy", CHANCE) for r in results if r["learner"] == name]
        if not tried:
            continue
        colour = "tab:orange" if name == "epls" else "tab:blue"
        axes.plot([place, place], [min(tried), max(tried)], color=colour, lw=10, alpha=0.35, solid_capstyle="butt")
        axes.plot([place] * len(tried), tried, "_", color=colour, ms=14)
        axes.plot(place, usual[name], "o", color=colour)
    names = [f"{name}\n{len(LEARNERS[name].meta_parameters)} to tune" for name in (*WITHOUT, *WITH)]
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_ylabel("% right, STL-10, 400 units (quick protocol)")
    axes.set_title("Point: defaults. Bar: one setting at a time, up to a tenth or ten times its default")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--components", type=int, default=400)
    parser.add_argument("--patches", type=int, default=48_000)
    parser.add_argument("--stride", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    wanted = quickest_first(trials())
    if options.quick:
        options.components, options.patches, options.stride = 8, 300, 30
        random = np.random.RandomState(0)
        images, labels = random.randint(256, size=(40, 96, 96, 3)).astype(np.uint8), np.arange(40) % 2
        folds, wanted = [np.arange(20)], [t for t in wanted if t[0] in ("epls", "omp")]
    else:
        data = load_stl10(options.data)
        images, labels, folds = data.train_images, data.train_labels, data.folds
    results = json.loads(options.results.read_text()) if options.results and options.results.exists() else []
    ground = {"components": options.components, "patches": options.patches, "stride": options.stride}
    if any(r["ground"] != ground for r in results):
        raise SystemExit(f"{options.results} has results with other settings than {ground}: give another file")
    done = {(r["learner"], r["parameter"], r["value"]) for r in results}
    warnings.simplefilter("ignore")
    for name, parameter, value in wanted:
        if (name, parameter, value) in done:
            continue
        settings = {} if parameter is None else {parameter: value}
        result = {"learner": name, "parameter": parameter, "value": value, "ground": ground}
        try:
            result |= outcome(name, settings, images, labels, folds, options)
        except (ValueError, FloatingPointError) as error:  # part of the price
            result |= {"failed": str(error)}
        results.append(result)
        print(json.dumps(result), flush=True)
        if options.results:
            write_atomically(options.results, json.dumps(results, indent=1).encode())
    if options.picture:
        draw(results, options.picture)


if __name__ == "__main__":
    main()
