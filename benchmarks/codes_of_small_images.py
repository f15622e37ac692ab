"""Why EPLS lags on CIFAR-10: the same images with other components, whitening and codes.

    python benchmarks/codes_of_small_images.py DATA                 # 400 units, 8,000 images, ten minutes on two cores
    python benchmarks/codes_of_small_images.py DATA --labels 1000   # as few labels as STL-10 has

DATA holds the official cifar-10-batches-bin. Components are learned from the first four batches without labels. The
classifier of the paper is trained on the first images of these, and tested on the fifth batch: the test set is never
looked at. All features are averaged over an image and its mirror image, with log pooling over quarters.
"""

import argparse
import time

from epls import EPLS, OMP, ImageFeatures, KMeansTriangle, Prototypes
from epls.datasets import load_cifar10
from epls.paper.judge import judge

LEARNED = 40_000
LEARNERS = [  # learner, whitening, encoders
    (EPLS, False, ["natural", "soft_threshold"]),
    (EPLS, True, ["natural", "soft_threshold", "triangle"]),
    (Prototypes, True, ["triangle", "soft_threshold"]),
    (KMeansTriangle, True, ["triangle", "soft_threshold"]),
    (OMP, True, ["soft_threshold"]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--units", type=int, default=400)
    parser.add_argument("--labels", type=int, default=8000)
    parser.add_argument("--tested", type=int, default=5000)
    options = parser.parse_args()
    cifar = load_cifar10(options.data)
    images, labels = cifar.train_images, cifar.train_labels
    train, test = slice(0, options.labels), slice(LEARNED, LEARNED + options.tested)
    print(f"{options.units} units, {options.labels} labels, {options.tested} images of the fifth batch")
    for learner, whiten, encoders in LEARNERS:
        started = time.perf_counter()
        learned = ImageFeatures(
            learner(options.units, random_state=0), patch_size=6, whiten=whiten, mirror=True, random_state=0
        ).fit(images[:LEARNED])
        print(f"{learner.__name__} learned in {time.perf_counter() - started:.0f} s", flush=True)
        for encoder in encoders:
            started = time.perf_counter()
            features = learned.with_encoder(images[:LEARNED], encoder)
            rows = [features.transform(images[some]) for some in (train, test)]
            found = judge(rows[0], labels[train], rows[1], labels[test])
            white = "whitened" if whiten else ""
            print(
                f"{learner.__name__:15} {white:9} {encoder:15} {rows[0].shape[1]:6} features "
                f"{found.accuracy:.1f} %  ({time.perf_counter() - started:.0f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
