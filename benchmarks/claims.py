"""Is what `epls classify` and the page of `epls explore` say true? Each claim beside the truth.

    python benchmarks/claims.py calibration --stl10 DATA --features embeddings.npy learned.npy
    python benchmarks/claims.py duplicates --stl10 DATA --photographs FOLDER

Calibration: 5, 10 and 20 labels of each class, five draws. Told are the share of the other samples whose predicted
label is right, the mean confidence in these labels, and how often the interval of the accuracy contains that share;
then a table of the share that is right by confidence. Digits and wine come with scikit-learn. DATA holds the official
stl10_binary folder; a file of features has a row for each of its training images.

Duplicates: copies of 20 of 200 images of STL-10 for each way to change them, and of those in a folder of photographs
without copies. Told are the share that is found at the similarity the page begins with, other pairs, and the seconds
of processor time for all 5,000 images.
"""

import argparse
import io
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_wine

from epls.datasets import load_stl10
from epls.evaluation.few_labels import classify
from epls.images.reading import ImageCollection
from epls.report.duplicates import duplicate_pictures
from epls.report.thumbnails import thumbnails_of

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


def recompressed(image):
    """The image after JPEG of quality 30."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=30)
    return Image.open(file).convert("RGB")


COPIES = {
    "mirrored": lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "5 % cut off each side": lambda image: image.crop([round(k * side) for k in (0.05, 0.95) for side in image.size]),
    "gray": lambda image: image.convert("L").convert("RGB"),
    "half size": lambda image: image.resize([side // 2 for side in image.size]),
    "JPEG, quality 30": recompressed,
    "turned by 90 degrees": lambda image: image.transpose(Image.Transpose.ROTATE_90),
    "turned by 180 degrees": lambda image: image.transpose(Image.Transpose.ROTATE_180),
    "turned by 270 degrees": lambda image: image.transpose(Image.Transpose.ROTATE_270),
}


def pictures_of(images):
    """The small pictures that the page compares."""
    arrays = [np.asarray(image) for image in images]
    return thumbnails_of(ImageCollection(arrays, 1), lambda *progress: None)[0]


def duplicates(arguments):
    """Print which copies of each kind are found, and how many pairs are none."""
    sets = {}
    if arguments.stl10:
        stl10 = [Image.fromarray(image) for image in load_stl10(arguments.stl10).train_images]
        sets["200 images of STL-10"] = [stl10[k] for k in np.random.RandomState(arguments.seed).permutation(5000)[:200]]
    if arguments.photographs:
        files = sorted(arguments.photographs.iterdir())
        sets[f"{len(files)} photographs"] = [Image.open(file).convert("RGB") for file in files]
    for name, images in sets.items():
        random = np.random.RandomState(arguments.seed)
        originals = {kind: random.permutation(len(images))[:20] for kind in COPIES}
        print(f"\n{name}")
        for kind, chosen in originals.items():
            found = duplicate_pictures(pictures_of(images + [COPIES[kind](images[k]) for k in chosen]))
            pairs = {(first, second) for first, second, score in found.pairs if score >= found.usual}
            copies = {(int(k), len(images) + place) for place, k in enumerate(chosen)}
            print(
                f"{kind:24} {len(copies & pairs):3} of {len(copies)} found, {len(pairs - copies)} other pairs",
                flush=True,
            )
    if arguments.stl10:
        pictures = pictures_of(stl10)
        started = time.process_time()
        found = duplicate_pictures(pictures)
        seconds = time.process_time() - started
        n_pairs = sum(score >= found.usual for *_, score in found.pairs)
        print(f"\n{len(stl10):,} images: {n_pairs} pairs, {seconds:.1f} s of processor time")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claim", choices=["calibration", "duplicates"])
    parser.add_argument("--stl10", type=Path, metavar="DATA")
    parser.add_argument("--features", type=Path, nargs="*", default=[], metavar="FILE.npy")
    parser.add_argument("--photographs", type=Path, metavar="FOLDER")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    chosen = parser.parse_args()
    {"calibration": calibration, "duplicates": duplicates}[chosen.claim](chosen)
