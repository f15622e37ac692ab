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
import warnings
from pathlib import Path

import numpy as np
from common import results_in, timed
from stl10_proxy import ridge_accuracy

from epls import ImageFeatures
from epls.datasets import load_stl10
from epls.learners import LEARNERS
from epls.paper.experiment import Experiment, new_learner
from epls.utils.files import write_atomically

WITHOUT = ("epls", "sparse_filtering", "ica", "kmeans", "random_patches", "raw")
WITH = ("rica", "omp", "sparse_coding", "psd", "sparse_autoencoder", "sparse_rbm")
COUNTS = {"n_nonzero_coefs": (2, 5, 10)}  # whole numbers cannot be a tenth
CHANCE = 10.0  # what a learner that fails is worth
MOST = {"momentum": 0.99, "sparseness": 0.5}  # what makes sense


def trials():
    """Learner, meta-parameter (None: all at their defaults) and value, all that is to be tried."""
    for name in (*WITHOUT, *WITH):
        yield name, None, None
    # The ends of the ranges first: a study that is not finished has these.
    yield from scaled(0.1, 10.0)
    for parameter, counts in COUNTS.items():
        yield from (("omp", parameter, n) for n in counts)
    yield from scaled(0.3, 3.0)


def scaled(*factors):
    """Every other meta-parameter times these."""
    for factor in factors:
        for name in WITH:
            defaults = LEARNERS[name]().get_params()
            for parameter in LEARNERS[name].meta_parameters:
                if parameter not in COUNTS:
                    yield name, parameter, min(defaults[parameter] * factor, MOST.get(parameter, math.inf))


def quickest_first(wanted):
    """The trials, each once, those that take an hour at the end: many codes that are not 0 are slow to find."""
    slow = ("sparse_coding", "alpha", LEARNERS["sparse_coding"]().alpha * 0.1)
    return sorted(dict.fromkeys(wanted), key=lambda trial: trial == slow)


def outcome(name, settings, images, labels, folds, options):
    learner = new_learner(Experiment(name, learner_settings=settings, n_components=options.components, seed=0))
    settings = {"n_patches": options.patches, "stride": options.stride, "whiten": LEARNERS[name].whitens}
    seconds, features = timed(ImageFeatures(learner, **settings, random_state=0).fit, images)
    accuracies = ridge_accuracy(features.transform(images), labels, folds)
    return {"accuracy": accuracies.mean(), "std": accuracies.std(), "learn seconds": seconds}


def draw(results, path):
    """A line for each learner: the defaults, and how far a wrong setting leads."""
    import matplotlib.pyplot as plt

    usual = {r["learner"]: r.get("accuracy", CHANCE) for r in results if r["parameter"] is None}
    names = sorted(usual, key=lambda name: (len(LEARNERS[name].meta_parameters), -usual[name]), reverse=True)
    figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
    for place, name in enumerate(names):
        tried = [r.get("accuracy", CHANCE) for r in results if r["learner"] == name]
        color = "tab:orange" if name == "epls" else "tab:blue"
        axes.plot([min(tried), max(tried)], [place] * 2, color=color, lw=9, alpha=0.3, solid_capstyle="butt")
        axes.plot(tried, [place] * len(tried), "|", color=color, ms=10)
        axes.plot(usual[name], place, "o", color=color, ms=8)
        if min(tried) < usual[name]:
            axes.annotate(f"{min(tried):.0f} ", (min(tried), place), ha="right", va="center", color="tab:red")
    axes.axvline(usual["epls"], color="tab:orange", lw=1, ls=":")
    counts = [len(LEARNERS[name].meta_parameters) for name in names]
    axes.set_yticks(range(len(names)), [f"{n} ({c} to tune)" if c else n for n, c in zip(names, counts, strict=True)])
    axes.set_xlabel("% correct on STL-10, 400 units")
    figure.suptitle("Point: the defaults. Bar: one setting at a time, from a tenth to ten times its default")
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
    results = results_in(options.results, [])
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
        print(json.dumps(result, allow_nan=False), flush=True)
        if options.results:
            write_atomically(options.results, json.dumps(results, indent=1, allow_nan=False).encode())
    if options.picture:
        draw(results, options.picture)


if __name__ == "__main__":
    main()
