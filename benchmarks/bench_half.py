"""Half precision: its speed against bare float32 products, and what it costs in accuracy.

    python benchmarks/bench_half.py                         # speed, on a processor that has bfloat16
    python benchmarks/bench_half.py --data DIR --folds 10   # accuracy on STL-10 as well, DIR holding stl10_binary

Speed: dense encoding and training with 1600 units on 300 inputs in float32 and bfloat16, by turns with the bare float32
products of the same sizes. Where bfloat16 is not faster, the library computes in float32: both times are then the same,
and the reason is printed.

Accuracy: the development protocol of STL-10 in both precisions. Where the processor has no bfloat16, its numbers are
simulated: factors and products are rounded, and multiplied in float32.
"""

import argparse
import json
import tempfile
import time
from functools import partial
from pathlib import Path

import history
import numpy as np

from epls import EPLS, ImageFeatures
from epls.algorithm import half
from epls.paper.cache import Cache
from epls.paper.experiment import Settings, run_experiment
from epls.paper.task import load_task


def seconds(function):
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def speed(n_units, n_images, n_turns):
    random = np.random.RandomState(0)
    images = random.randint(256, size=(n_images, 96, 96, 3)).astype(np.uint8)
    samples = random.standard_normal((20 * n_units, 300)).astype(np.float32)
    features = ImageFeatures(EPLS(n_units, max_iter=1, random_state=0), n_patches=5 * n_units, random_state=0)
    features.fit(images)
    patches, weights = np.ones((87 * 87, 300), np.float32), np.ones((n_units, 300), np.float32)
    outputs, gradient = np.ones((n_units, n_units), np.float32), np.ones((n_units, 300), np.float32)

    def bare_encoding():
        for _ in range(n_images):
            np.matmul(patches, weights.T)

    def bare_epoch():
        for start in range(0, len(samples), n_units):
            np.matmul(samples[start : start + n_units], weights.T, out=outputs)
            np.matmul(outputs.T, samples[start : start + n_units], out=gradient)

    def train(precision):
        EPLS(n_units, max_iter=1, wake=False, random_state=0, precision=precision).fit(samples)

    ways = {
        "dense encoding": (bare_encoding, lambda p: features.set_params(precision=p).transform(images)),
        "training": (bare_epoch, train),
    }
    found = {}
    for name, (bare, run) in ways.items():
        for precision in ("float32", "bfloat16"):
            run(precision)  # compiles
        steps = [bare, partial(run, "float32"), partial(run, "bfloat16")]
        turns = [[seconds(step) for step in steps] for _ in range(n_turns)]
        ratios = np.median(np.array(turns)[:, 1:] / np.array(turns)[:, :1], axis=0)
        found[name] = {p: round(float(r), 3) for p, r in zip(("float32", "bfloat16"), ratios, strict=True)}
    return found


def accuracy(data, n_folds, n_units, n_patches, stride):
    half._simulated = bool(half.why_not("cpu"))
    task, found = load_task("stl10", data, n_folds, protocol="development"), {"simulated": half._simulated}
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in {
            "float32": {},
            "encoding in bfloat16": {"precision": "bfloat16", "learner_settings": {"precision": "float32"}},
            "learning and encoding in bfloat16": {"precision": "bfloat16"},
        }.items():
            wanted = Settings(n_components=n_units, n_patches=n_patches, stride=stride, **settings)
            outcome = run_experiment(wanted, task, Cache(Path(folder)), lambda *_: None)
            found[name] = {"accuracy": outcome.accuracies.mean(), "folds": outcome.accuracies.tolist()}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--components", type=int, default=1600)
    parser.add_argument("--patches", type=int, default=100_000)
    parser.add_argument("--stride", type=int, default=2)
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--turns", type=int, default=5)
    history.add_option(parser)
    options = parser.parse_args()
    run = history.Run(options, precision="float32 and bfloat16")
    found = {"machine": run.entry["machine"], "why not": half.why_not("cpu")}
    found["times of the bare float32 products"] = speeds = speed(options.components, options.images, options.turns)
    run.add(ratios={f"{name} in {p} / float32 products": r for name, of in speeds.items() for p, r in of.items()})
    if options.data:
        sizes = (options.components, options.patches, options.stride)
        found["STL-10, development"] = accuracy(options.data, options.folds, *sizes)
    print(json.dumps(found, indent=1))
    run.finish()


if __name__ == "__main__":
    main()
