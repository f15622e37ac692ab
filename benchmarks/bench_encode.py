"""Dense encoding against the bare matrix products of its size, in one run; and its memory.

    python benchmarks/bench_encode.py                # 96 x 96 x 3 images made of noise; no data set is needed
    python benchmarks/bench_encode.py --data DATA    # the STL-10 training images, DATA holding stl10_binary
    python benchmarks/bench_encode.py --quick

The patches of an image, normalised and laid out as a matrix, times the components: that product alone, with all BLAS
threads, is the limit that encoding is measured against. Codes, pooling and everything else are what comes on top.
"""

import argparse
import json

import history
import numpy as np
from common import peak_gibibytes, timed

from epls import EPLS, ImageFeatures, NaturalEncoder
from epls.datasets import load_stl10


def seconds(function, repeats):
    """The median time of a call."""
    return float(np.median([timed(function)[0] for _ in range(repeats)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--components", type=int, default=1600)
    parser.add_argument("--images", type=int, default=32, help="images to a measurement")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    history.add_option(parser)
    options = parser.parse_args()
    run = history.Run(options)
    if options.quick:
        options.components, options.images, options.repeats = 50, 2, 1
    if options.data:
        images = load_stl10(options.data).train_images
    else:
        images = np.random.RandomState(0).randint(256, size=(options.images * 8, 96, 96, 3)).astype(np.uint8)
    n_positions = 87 * 87
    learner = EPLS(options.components, max_iter=1, random_state=0)
    features = ImageFeatures(learner, n_patches=max(5000, 3 * options.components), random_state=0).fit(images)
    split = ImageFeatures(**features.get_params(deep=False) | {"encoder": NaturalEncoder(split_sign=True)}).fit(images)
    some = images[: options.images]
    patches = np.random.RandomState(0).standard_normal((n_positions, 300)).astype(np.float32)
    components = np.ascontiguousarray(features.estimator_.components_.T, np.float32)
    products = np.empty((n_positions, options.components), np.float32)
    features.transform(some[:2]), split.transform(some[:2])  # compile
    rows = []
    for _ in range(options.repeats):  # side by side, so that a change of the machine's speed meets all alike
        bare = seconds(lambda: np.matmul(patches, components, out=products), max(options.images // 4, 1))
        rows.append((bare, *(seconds(lambda f=f: f.transform(some), 1) / options.images for f in (features, split))))
    bare, natural, double = np.median(rows, axis=0)
    before = 1024 * peak_gibibytes()
    features.transform(images[: options.images * 8])
    result = {
        "bare products, ms an image": round(1e3 * bare, 1),
        "encoding, ms an image": round(1e3 * natural, 1),
        "encoding / bare products": round(natural / bare, 3),
        "with split sign / bare products": round(double / bare, 3),
        "ratio, each repeat": [round(row[1] / row[0], 3) for row in rows],
        "peak memory, MiB": round(1024 * peak_gibibytes()),
        "growth of the peak with 8 times the images, MiB": round(1024 * peak_gibibytes() - before),
    }
    print(json.dumps(result, indent=1, allow_nan=False))
    run.add(
        ratios={"encoding / bare products": natural / bare, "with split sign / bare products": double / bare},
        seconds={"encoding an image": natural, "bare products of an image": bare},
    )
    run.finish()


if __name__ == "__main__":
    main()
