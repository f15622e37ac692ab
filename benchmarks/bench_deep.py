"""How long the layers of a stack take to encode images, against their bare matrix products; and peak memory.

    python benchmarks/bench_deep.py                    # parts of scikit-learn's photographs
    python benchmarks/bench_deep.py --images 500       # more of them
    python benchmarks/bench_deep.py --learner epls

Both are by turns, on one thread: in a stack, each thread encodes images of its own. As in a stack, the last layer has
no map, and a map is kept only until the next image. Learning is short, since what was learned does not change the time.
"""

import argparse
import time

import history
import numpy as np
from common import peak_gibibytes, photographs
from threadpoolctl import threadpool_limits

from epls import EPLS, DeepFeatures, Directions
from epls.images.coder import dense_encoders
from epls.images.stack import usual_layers

LEARNERS = {"directions": Directions, "epls": EPLS}
BLOCK = 512


def product_seconds(layer, shape, n_images):
    """The time of the products of all positions of images with the weights of all groups."""
    rows, columns = (side - layer.patch_size + 1 for side in shape)
    n_units = len(layer.features_[0].encoder_.components())
    n_values = layer.patch_size**2 * len(layer.channels_[0])
    patches = np.ones((BLOCK, n_values), np.float32)
    weights, out = np.ones((n_values, n_units), np.float32), np.empty((BLOCK, n_units), np.float32)
    n_rows = rows * columns * len(layer.channels_) * n_images
    started = time.perf_counter()
    for _ in range(n_rows // BLOCK):
        np.matmul(patches, weights, out=out)
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learner", choices=LEARNERS, default="directions")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--side", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=3)
    history.add_option(parser)
    options = parser.parse_args()
    run = history.Run(options)
    images = photographs(options.images, options.side)
    learner = LEARNERS[options.learner](max_iter=2)
    layers = usual_layers(options.side, options.side, estimator=learner)
    stack = DeepFeatures(layers, random_state=0).fit(images)
    with threadpool_limits(1):
        inputs = [np.ascontiguousarray(image) for image in images]
        for number, layer in enumerate(stack.layers_, 1):
            encoder = dense_encoders(layer.coder())()
            ratios, is_last = [], number == len(stack.layers_)
            for _ in range(options.repeats):
                bare = product_seconds(layer, inputs[0].shape[:2], len(inputs))
                started = time.perf_counter()
                for image in inputs:
                    encoder.encode(image, 2, with_map=not is_last)
                seconds = time.perf_counter() - started
                ratios.append(seconds / bare)
            print(
                f"layer {number}: {1000 * seconds / len(inputs):.1f} ms an image, "
                f"{np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) times its bare products"
            )
            run.add(
                ratios={f"layer {number}: encoding / bare products": np.median(ratios)},
                seconds={f"layer {number}: encoding an image": seconds / len(inputs)},
            )
            inputs = [] if is_last else [encoder.encode(image, 2, with_map=True)[1] for image in inputs]
    print(f"peak memory of learning and encoding: {peak_gibibytes():.2f} GiB")
    run.finish()


if __name__ == "__main__":
    main()
