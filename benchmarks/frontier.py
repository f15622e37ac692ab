"""Seconds to learn and encode against accuracy: learners and encoders of the library, and what else people use.

    python benchmarks/frontier.py DATA --json frontier.json --chart frontier.png
    python benchmarks/frontier.py DATA --json frontier.json --data-set cifar10    # one of the two
    python benchmarks/frontier.py --quick

DATA holds the official stl10_binary and cifar-10-batches-bin. All rows have the same patches, pooling and classifier
(least squares), one seed, and their settings at the defaults; other libraries get the same patches, whitened where that
is usual. Seconds are those of the processor, in a process with one thread: what else the machine does hardly changes
them. They hold drawing patches, learning, and encoding all images, but not the classifier.

STL-10 is judged by the development protocol: for each of the ten folds, a classifier learns from 1,000 images and is
tested on the other 4,000 training images. CIFAR-10: features from the 40,000 images of the first four batches, without
labels; a classifier from 5,000 of them; tested on the fifth batch. The test sets are not touched.

SPAMS (``pip install spams-bin``) is left out if it is not there. The lasso of scikit-learn takes milliseconds a patch:
its seconds are those of a few images times the number of images, and its features are those of SparseCodingEncoder,
which has the same minimum; how far the features of these images are apart is in the file.

A row that is in the JSON file is not run again.
"""

import argparse
import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import results_in, timed
from frontier_chart import LASSO, STACK, draw, print_table
from history import machine
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA, FastICA, MiniBatchDictionaryLearning
from threadpoolctl import threadpool_limits

from epls import EPLS, DeepFeatures, ImageFeatures, NaturalEncoder
from epls.datasets import load_cifar10, load_stl10
from epls.images.stack import usual_layers
from epls.learners import LEARNERS
from epls.paper.experiment import Experiment, new_learner
from epls.paper.judge import judge
from epls.utils.files import write_atomically

ALPHA = 1.0  # of all sparse codes, here and elsewhere
NAMES = {"stl10": "STL-10", "cifar10": "CIFAR-10"}
SAMPLED_IMAGES = 60  # whose codes are computed by what is too slow for all of them


@dataclass(frozen=True)
class Ground:
    """What all rows of a data set share: images, labels, folds (of training rows; others are tested), sizes."""

    name: str
    unlabelled: np.ndarray
    images: np.ndarray
    labels: np.ndarray
    folds: list
    patch_size: int
    stride: int
    n_units: int = 256
    n_patches: int = 50_000

    def facts(self):
        n_positions = (self.images.shape[1] - self.patch_size) // self.stride + 1
        return {
            "images encoded": len(self.images),
            "patches encoded": len(self.images) * n_positions**2,
            "patches learned from": self.n_patches,
            "patch size": self.patch_size,
            "stride": self.stride,
            "units": self.n_units,
            "folds": len(self.folds),
            "labels": len(self.folds[0]),
        }


def load_ground(name, folder):
    if name == "STL-10":
        data = load_stl10(folder)
        return Ground(name, data.train_images, data.train_images, data.train_labels, data.folds, 10, 6)
    data = load_cifar10(folder)
    n_batch = len(data.train_labels) // 5
    labelled = np.concatenate([np.arange(k * n_batch, k * n_batch + n_batch // 8) for k in range(4)])
    chosen = np.concatenate([labelled, np.arange(4 * n_batch, 5 * n_batch)])
    images, labels = data.train_images[chosen], data.train_labels[chosen]
    return Ground(name, data.train_images[: 4 * n_batch], images, labels, [np.arange(len(labelled))], 6, 3)


def made_up_ground(name):
    random = np.random.RandomState(0)
    images = random.randint(256, size=(40, 24, 24, 3)).astype(np.uint8)
    return Ground(name, images, images, np.arange(40) % 2, [np.arange(20)], 6, 6, n_units=8, n_patches=300)


class Spams(BaseEstimator):
    """The dictionary learning and the lasso of SPAMS."""

    def __init__(self, n_components=None, alpha=ALPHA, n_batches=1000, random_state=0):
        self.n_components, self.alpha, self.n_batches, self.random_state = n_components, alpha, n_batches, random_state

    def fit(self, X, y=None):
        import spams

        start = np.random.RandomState(self.random_state).permutation(len(X))[: self.n_components]
        settings = {"lambda1": self.alpha, "mode": 2, "batchsize": 256, "iter": self.n_batches, "numThreads": 1}
        samples = np.asfortranarray(X.T)
        found = spams.trainDL(samples, D=np.asfortranarray(X[start].T), verbose=False, **settings)
        self.components_ = np.ascontiguousarray(found.T)
        return self

    def transform(self, X):
        import spams

        columns = np.asfortranarray(self.components_.T)
        codes = spams.lasso(np.asfortranarray(X.T), columns, lambda1=self.alpha, mode=2, numThreads=1)
        return codes.T.toarray()

    def get_feature_names_out(self, input_features=None):
        return np.array([f"spams{k}" for k in range(len(self.components_))], dtype=object)


@dataclass(frozen=True)
class Row:
    """What is measured: who learns, how it is called, and how patches are encoded."""

    learner: str
    encoder: str = "natural"
    library: str = "epls"
    whiten: bool = False
    slow: bool = False  # the features of a few images are computed; see the top of the file


def wanted_rows():
    """The rows, those that are quick first."""
    rows = [Row("raw"), Row("PCA", library="scikit-learn")]
    for name in (
        "epls",
        "prototypes",
        "kmeans",
        "omp",
        "directions",
        "random_patches",
        "sparse_autoencoder",
        "sparse_rbm",
    ):
        rows.append(Row(name, LEARNERS[name].own_encoder, whiten=LEARNERS[name].whitens))
    rows += [
        Row("MiniBatchKMeans", "distances", "scikit-learn", whiten=True),
        Row("MiniBatchKMeans", "triangle", "scikit-learn", whiten=True),
        *(Row("epls", encoder) for encoder in ("triangle", "soft_threshold", "sparse_coding")),
        *(Row("prototypes", encoder, whiten=True) for encoder in ("soft_threshold", "sparse_coding")),
        *(Row("omp", encoder, whiten=True) for encoder in ("soft_threshold", "sparse_coding")),
        *(Row("random_patches", encoder, whiten=True) for encoder in ("soft_threshold", "sparse_coding")),
        Row("kmeans", "sparse_coding", whiten=True),
        Row("sparse_coding", "sparse_coding"),
        Row("ica", whiten=True),
        Row("FastICA", library="scikit-learn"),
        Row("SPAMS", LASSO, "SPAMS"),
        Row("MiniBatchDictionaryLearning", LASSO, "scikit-learn", slow=True),
        Row(STACK),
        Row("psd"),
        Row("sparse_filtering"),
        Row("rica"),
    ]
    return rows


def estimator_of(row, ground):
    """The learner, at its defaults, with the number of units and a seed."""
    n_units, n_values = ground.n_units, ground.patch_size**2 * ground.images.shape[-1]
    if row.library == "epls":
        return new_learner(Experiment(row.learner, n_components=n_units, seed=0))
    complete = min(n_units, n_values - 1)  # patches have their own mean subtracted
    return {
        "PCA": PCA(complete, random_state=0),
        "FastICA": FastICA(complete, whiten="unit-variance", random_state=0),
        "MiniBatchKMeans": MiniBatchKMeans(n_units, random_state=0),
        "MiniBatchDictionaryLearning": MiniBatchDictionaryLearning(
            n_units,
            alpha=ALPHA,
            max_iter=5,
            fit_algorithm="cd",
            transform_algorithm="lasso_cd",
            transform_alpha=ALPHA,
            transform_max_iter=100,  # is enough; in float32 it does not reach its tolerance, and would stop at 1000
            random_state=0,
        ),
        "SPAMS": Spams(n_units),
    }[row.learner]


def encoder_of(row):
    return NaturalEncoder(split_sign=True) if row.encoder == LASSO else row.encoder.replace("distances", "natural")


def features_of(row, ground, estimator=None):
    if row.learner == STACK:
        layers = usual_layers(*ground.images.shape[1:3], estimator=EPLS())
        return DeepFeatures(layers, random_state=0)
    return ImageFeatures(
        estimator_of(row, ground) if estimator is None else estimator,
        patch_size=ground.patch_size,
        stride=ground.stride,
        encoder=encoder_of(row),
        n_patches=ground.n_patches,
        whiten=row.whiten,
        random_state=0,
    )


def compile_kernels(row, ground):
    """Go through the same code with little data: seconds of compilers and first imports are not counted."""
    if row.learner == STACK:
        layers = usual_layers(*ground.images.shape[1:3], estimator=EPLS(max_iter=1))
        for layer in layers:
            layer.set_params(n_patches=1000, n_groups=2 if layer.n_groups else None)
        DeepFeatures(layers, random_state=0).fit(ground.images[:20]).transform(ground.images[:2])
        return
    estimator = clone(estimator_of(row, ground))
    available = estimator.get_params()
    small = {"max_iter": 1, "n_batches": 2, "n_components": 8, "n_clusters": 8}
    estimator.set_params(**{name: value for name, value in small.items() if name in available})
    features = features_of(row, ground, estimator).set_params(n_patches=600)
    features.fit(ground.images[:20]).transform(ground.images[:2])


def measured(row, ground, learned):
    """A row's seconds and accuracy. ``learned`` holds the last learner's seconds and features, to encode again."""
    compile_kernels(row, ground)
    who = (ground.name, row.learner, row.whiten)
    if learned.get("who") != who:
        features = features_of(row, ground)
        learned["seconds"], learned["features"] = timed(features.fit, ground.unlabelled, clock=time.process_time)
        learned["who"] = who
    features, found = learned["features"], {}
    if row.learner != STACK:
        features = features.with_encoder(ground.unlabelled, encoder_of(row))
    if row.slow:
        some = ground.images[:SAMPLED_IMAGES]
        seconds, theirs = timed(features.transform, some, clock=time.process_time)
        encode_seconds = seconds * len(ground.images) / len(some)
        features = features.with_encoder(ground.unlabelled, "sparse_coding")
        ours = features.transform(some)
        apart = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
        found |= {"images encoded by it": len(some), "features apart": float(f"{apart:.2g}")}
        codes = features.transform(ground.images)
    else:
        encode_seconds, codes = timed(features.transform, ground.images, clock=time.process_time)
    accuracies = []
    for train in ground.folds:
        test = np.setdiff1d(np.arange(len(ground.labels)), train)
        verdict = judge(codes[train], ground.labels[train], codes[test], ground.labels[test], "least_squares")
        accuracies.append(verdict.accuracy)
    return found | {
        "learn seconds": round(learned["seconds"], 2),
        "encode seconds": round(encode_seconds, 2),
        "features": codes.shape[1],
        "accuracy": round(float(np.mean(accuracies)), 2),
        "std": round(float(np.std(accuracies)), 2),
        "folds": [round(accuracy, 2) for accuracy in accuracies],
    }


def identity(row, ground):
    return {
        "data set": ground.name,
        "learner": row.learner,
        "encoder": row.encoder,
        "library": row.library,
        "whitened": row.whiten,
    }


def run(grounds, rows, results, path):
    """Measure the rows that are not among the results, and add them; the file is complete after each."""
    for ground in grounds:
        if results["grounds"].setdefault(ground.name, ground.facts()) != ground.facts():
            raise SystemExit(f"{path} has rows of {ground.name} with other sizes than {ground.facts()}: give another")
    learned = {}
    for ground, row in by_learner(grounds, rows):
        who = identity(row, ground)
        if any(who.items() <= done.items() for done in results["rows"]):
            continue
        try:
            result = who | measured(row, ground, learned)
        except ImportError as error:
            print(f"{row.learner} is left out: {error}", flush=True)
            continue
        results["rows"].append(result)
        print(json.dumps(result, allow_nan=False), flush=True)
        if path:
            write_atomically(path, (json.dumps(results, indent=1, allow_nan=False) + "\n").encode())


def by_learner(grounds, rows):
    """Data sets and rows, those of one learner after each other, so that it learns once for each data set."""
    for learner in dict.fromkeys((row.learner, row.whiten) for row in rows):
        own = [row for row in rows if (row.learner, row.whiten) == learner]
        yield from ((ground, row) for ground in grounds for row in own)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?")
    parser.add_argument("--json", type=Path, help="the results, which grow row by row")
    parser.add_argument("--chart", type=Path, help="where to draw them, a PNG")
    parser.add_argument("--data-set", choices=list(NAMES), help="only this one")
    parser.add_argument("--quick", action="store_true", help="made-up images and few rows, to see that it runs")
    options = parser.parse_args()
    if options.data is None and not options.quick:
        parser.error("give the folder of STL-10 and CIFAR-10, or --quick")
    names, rows = [NAMES[options.data_set]] if options.data_set else list(NAMES.values()), wanted_rows()
    if options.quick:
        few = ("raw", "epls", "PCA", "MiniBatchDictionaryLearning")
        rows = [row for row in rows if row.learner in few and row.encoder in ("natural", LASSO)]
    warnings.simplefilter("ignore")  # of learners that did not converge within their iterations
    with threadpool_limits(1):
        results = results_in(options.json, {"machine": machine(), "grounds": {}, "rows": []})
        grounds = [made_up_ground(name) if options.quick else load_ground(name, options.data) for name in names]
        run(grounds, rows, results, options.json)
    print_table(results)
    if options.chart:
        draw(results, options.chart)


if __name__ == "__main__":
    main()
