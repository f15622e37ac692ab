"""EPLS and its rivals in the same stack of layers, with mirror images: one table.

    python benchmarks/stacks_of_learners.py DATA --dataset stl10 --json stl10.json
    python benchmarks/stacks_of_learners.py DATA --dataset cifar10 --seed 1 --json cifar10.json --keep FOLDER
    python benchmarks/stacks_of_learners.py DATA --learners directions --second '{"group_size": 32}'

DATA holds the official files. The stack is the default one (``usual_layers``), with the parameters of its layers that
``--first`` and ``--second`` give. STL-10: the development protocol, for each fold 1,000 labels and a test on the other
training images. CIFAR-10: components are learned from the first four batches, classifiers from some labels of these,
and the test is on the fifth batch. The classifier is least squares. A row that is in the JSON file is not computed
again. Seconds are processor seconds.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from common import results_in, timed

from epls import EPLS, OMP, DeepFeatures, Directions, KMeansTriangle, Prototypes
from epls.data.moments import unit_rows
from epls.data.samples import ArraySamples
from epls.datasets import load_cifar10, load_stl10
from epls.images.stack import usual_layers
from epls.paper.judge import judge


class EqualDirections(Directions):
    """Directions of samples that count equally, instead of with their energy."""

    def learn(self, samples, random):
        return super().learn(ArraySamples(unit_rows(samples.array())), random)


LEARNERS = {  # each with the encoder and the whitening that serve it best on its own
    "directions": (Directions, "soft_threshold", True),  # the default
    "directions_equal": (EqualDirections, "soft_threshold", True),
    "epls": (EPLS, "natural", False),
    "epls_soft": (EPLS, "soft_threshold", True),
    "prototypes": (Prototypes, "triangle", True),
    "prototypes_soft": (Prototypes, "soft_threshold", True),
    "kmeans": (KMeansTriangle, "triangle", True),
    "omp": (OMP, "soft_threshold", True),
}
UNLABELLED = 40_000  # of CIFAR-10: the first four batches


def loaded(dataset, data, n_labels, n_tested, n_folds):
    """Images to learn from, images to encode, their labels, and for each fold the numbers of both sides."""
    if dataset == "stl10":
        stl = load_stl10(data)
        everything, random = np.arange(len(stl.train_labels)), np.random.RandomState(0)
        folds = [(f, random.permutation(np.setdiff1d(everything, f))[:n_tested]) for f in stl.folds[:n_folds]]
        numbers = np.unique(np.concatenate([part for fold in folds for part in fold]))  # only these are encoded
        folds = [tuple(np.searchsorted(numbers, part) for part in fold) for fold in folds]
        return stl.train_images, stl.train_images[numbers], stl.train_labels[numbers], folds
    cifar = load_cifar10(data)
    numbers = np.r_[:n_labels, UNLABELLED : UNLABELLED + n_tested]
    fold = np.arange(n_labels), np.arange(n_labels, len(numbers))
    return cifar.train_images[:UNLABELLED], cifar.train_images[numbers], cifar.train_labels[numbers], [fold]


def outcome(name, changes, seed, unlabelled, images, labels, folds, keep):
    """The seconds and accuracies of a learner in the stack: of each layer alone, and of both together."""
    learner, encoder, whiten = LEARNERS[name]
    layers = usual_layers(*images.shape[1:3], estimator=learner())
    for layer, changed in zip(layers, changes, strict=True):
        layer.set_params(**{"encoder": encoder, "whiten": whiten} | changed)
    stack, found = DeepFeatures(layers, mirror=True, random_state=seed), {}
    found["learn"], _ = timed(stack.fit, unlabelled, clock=time.process_time)
    found["encode"], features = timed(stack.transform, images, clock=time.process_time)
    if keep is not None:
        np.save(keep, features)
    first = stack.grid**2 * stack.layers_[0].n_codes
    for part, columns in {"layer 1": slice(first), "layer 2": slice(first, None), "both": slice(None)}.items():
        some, verdicts = features[:, columns], []
        for train, test in folds:
            verdicts.append(judge(some[train], labels[train], some[test], labels[test], "least_squares"))
        accuracies = [verdict.accuracy for verdict in verdicts]
        found[part] = [float(np.mean(accuracies)), float(np.std(accuracies))]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--dataset", choices=("stl10", "cifar10"), default="stl10")
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--first", type=json.loads, default={}, help="parameters of the first layer, as JSON")
    parser.add_argument("--second", type=json.loads, default={}, help="the same of the second")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--labels", type=int, default=5000, help="of CIFAR-10")
    parser.add_argument("--tested", type=int, default=10_000, help="images to test on, at most")
    parser.add_argument("--folds", type=int, default=10, help="of STL-10")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="a folder for the features of each learner")
    options = parser.parse_args()
    sizes = options.labels, options.tested, options.folds
    unlabelled, images, labels, folds = loaded(options.dataset, options.data, *sizes)
    results, changes = results_in(options.json, {}), (options.first, options.second)
    named = [f"{layer} {json.dumps(changed)}" for layer, changed in zip(("1:", "2:"), changes, strict=True) if changed]
    for name in options.learners:
        key = " ".join([name, *named, f"seed {options.seed}"])
        if key not in results:
            keep = options.keep and options.keep / f"{options.dataset} {key}.npy"
            results[key] = outcome(name, changes, options.seed, unlabelled, images, labels, folds, keep)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
        figures = {part: value for part, value in results[key].items() if part not in ("learn", "encode")}
        seconds = f"processor: learn {results[key]['learn']:.0f} s, encode {results[key]['encode']:.0f} s"
        print(
            f"{key:24}" + "; ".join(f"{part} {m:.1f} ({s:.2f})" for part, (m, s) in figures.items()),
            seconds,
            flush=True,
        )


if __name__ == "__main__":
    main()
