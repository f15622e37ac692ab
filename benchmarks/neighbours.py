"""How often the nearest images of an image are of its class: what `epls explore` shows as nearest, judged by labels.

    python benchmarks/neighbours.py DATA                        # the stack of two layers with mirror images
    python benchmarks/neighbours.py DATA --features explore     # what `epls explore` learns if no model is given
    python benchmarks/neighbours.py DATA --features explore2    # the same with --layers 2
    python benchmarks/neighbours.py DATA --features pixels

DATA holds ``stl10_binary``, of which the 5,000 training images are used, or is a folder with a sub-folder of images for
each class. Features are learned from the same images without labels, standardised, and compared by their cosine.
Labels serve to count only. ``--keep FILE.npy`` keeps the features, and reads them if the file is there.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler

from epls import DeepFeatures, ImageFolder
from epls.datasets import load_stl10
from epls.images.recipes import learned_features
from epls.report.similarity import comparable

NEIGHBORS = 10
BLOCK = 1000


def labelled(data):
    """Images and their classes."""
    if (data / "stl10_binary").is_dir():
        stl = load_stl10(data)
        return stl.train_images, stl.train_labels
    folder = ImageFolder(data)
    if folder.labels is None:
        raise SystemExit(f"{data} needs a sub-folder of images for each class")
    return folder, folder.labels


def features_of(kind, images):
    """A row of features for each image."""
    if kind == "pixels":
        return np.stack([np.asarray(images[k], np.float32).ravel() for k in range(len(images))])
    if kind.startswith("explore"):
        return learned_features(images, layers=2 if kind == "explore2" else None)[0]
    return DeepFeatures(mirror=True, random_state=0).fit(images).transform(images)


def share_of_same_class(X, labels):
    """The share of the nearest samples by cosine that have the class of the sample."""
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    same = 0
    for start in range(0, len(X), BLOCK):
        cosines = X[start : start + BLOCK] @ X.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -np.inf
        nearest = np.argpartition(-cosines, NEIGHBORS, axis=1)[:, :NEIGHBORS]
        same += np.sum(labels[nearest] == labels[start : start + len(cosines), None])
    return same / (NEIGHBORS * len(X))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--features", choices=("deep", "explore", "explore2", "pixels"), default="deep")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    images, labels = labelled(options.data)
    started = time.perf_counter()
    if options.keep is not None and options.keep.exists():
        features = np.load(options.keep)
    else:
        features = features_of(options.features, images)
        if options.keep is not None:
            np.save(options.keep, features)
    seconds = time.perf_counter() - started
    X = StandardScaler().fit_transform(np.asarray(features, np.float32))
    print(f"{options.features}: {len(X):,} images, {X.shape[1]:,} features in {seconds:.0f} s")
    print(f"share of the {NEIGHBORS} nearest that are of the same class, in percent")
    print(f"  cosine of standardised features     {100 * share_of_same_class(X, labels):.1f}")
    X = comparable(features, np.random.RandomState(0))
    print(f"  as the page of epls explore has it  {100 * share_of_same_class(X, labels):.1f}")


if __name__ == "__main__":
    main()
