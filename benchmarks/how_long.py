"""How long your images will take: rates measured on this machine in about half a minute, and what follows from them.

    python benchmarks/how_long.py
    python benchmarks/how_long.py --images 20000 --sides 64 128 --units 800 --stride 2
    python benchmarks/how_long.py --quick

Rates are measured with scikit-learn's photographs, in processor seconds of one thread: they hardly depend on what else
the machine does. The library shares the work among all cores: on an idle machine, divide by their number. Settings are
the defaults, but for fewer epochs, and sparse codes are those of random patches as components, which take about as long
as those of learned components.

Learning takes as long for a thousand images as for a million, because the number of patches to learn from depends on
the units only. Encoding takes time in proportion to the number of patches in all images: with twice the stride, a
quarter of it. The time of sparse codes also depends on the data, because a patch that needs more components takes
longer.
"""

import argparse
import time

import history
import numpy as np
from common import normalized_patches, photographs, timed
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

from epls import EPLS, ImageFeatures
from epls.algorithm.settings import batch_rows, usual_epochs
from epls.images.patches import usual_n_patches
from epls.learners.random_patches import RandomPatches

UNITS = ((86400, "days"), (3600, "h"), (60, "min"))
SIDE = 96  # of the photographs' parts that are encoded


def n_positions(side, patch_size, stride):
    """The number of patches of a square image."""
    return ((side - patch_size) // stride + 1) ** 2


def learned_from(n_units):
    """How many patches an epoch has by default, and how many epochs there are."""
    n_patches = usual_n_patches(EPLS(n_units))
    return n_patches, usual_epochs(-(-n_patches // batch_rows(n_units, n_patches)), n_units)


def rates(n_units, patch_size, quick):
    """Processor seconds of a patch: in an epoch of learning, in natural codes and in sparse codes."""
    n_patches, n_epochs = (10 * n_units, 1) if quick else (max(20 * n_units, 10_000), 10)
    patches = normalized_patches(n_patches, patch_size)
    model = EPLS(n_units, max_iter=n_epochs, random_state=0)
    EPLS(n_units, max_iter=1, random_state=0).fit(patches[: 2 * n_units])  # compiles
    found = {"learn": timed(model.fit, patches, clock=time.process_time)[0] / (n_patches * n_epochs)}
    images = photographs(4, SIDE)
    # After a short training, patches would need more components than after a full one. Patches as components are alike.
    learners = {"natural": (model, 1), "sparse_coding": (RandomPatches(n_units, random_state=0).fit(patches), 4)}
    for name, (learner, stride) in learners.items():
        settings = {"patch_size": patch_size, "encoder": name, "stride": stride, "n_patches": 1000, "random_state": 0}
        features = ImageFeatures(FrozenEstimator(learner), **settings).fit(images)
        features.transform(images[:1])  # compiles
        n_encoded = len(images) * n_positions(SIDE, patch_size, stride)
        found[name] = timed(features.transform, images, clock=time.process_time)[0] / n_encoded
    return found


def duration(seconds):
    """Seconds as one would say them."""
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= 2 * size), (1, "s"))
    number = seconds / size
    return f"{number:.2g} {unit}" if number < 10 else f"{number:,.0f} {unit}"


def table(found, images, sides, patch_size, stride):
    """Lines of Markdown: what images of some sizes will take."""
    yield "| images | size | units | learn | encode, natural codes | encode, sparse codes |"
    yield "|---|---|---|---|---|---|"
    for side in sides:
        for n_images in images:
            for n_units, rate in found.items():
                n_patches = n_images * n_positions(side, patch_size, stride)
                learn = np.prod(learned_from(n_units), dtype=float) * rate["learn"]
                times = [learn, *(n_patches * rate[code] for code in ("natural", "sparse_coding"))]
                told = " | ".join(duration(seconds) for seconds in times)
                yield f"| {n_images:,} | {side} x {side} | {n_units} | {told} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[1000, 100_000], help="how many")
    parser.add_argument("--sides", type=int, nargs="+", default=[32, 96, 256], help="their height and width in pixels")
    parser.add_argument("--units", type=int, nargs="+", default=[400, 1600])
    parser.add_argument("--patch-size", type=int, default=10)
    parser.add_argument("--stride", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="few units and a short training, to see that it runs")
    history.add_option(parser)
    options = parser.parse_args()
    if min(options.sides) < options.patch_size or options.patch_size > SIDE:
        parser.error(
            f"patches of {options.patch_size} pixels do not fit: images need that many, and {SIDE} is the most"
        )
    units = [20] if options.quick else options.units
    with threadpool_limits(1):
        run = history.Run(options)
        found = {n_units: rates(n_units, options.patch_size, options.quick) for n_units in units}
    print("| units | learn, µs a patch and epoch | patches x epochs | natural code, µs | sparse code, µs |")
    print("|---|---|---|---|---|")
    for n_units, rate in found.items():
        learn, natural, sparse = (f"{1e6 * seconds:.1f}" for seconds in rate.values())
        n_patches, n_epochs = learned_from(n_units)
        print(f"| {n_units} | {learn} | {n_patches:,} x {n_epochs} | {natural} | {sparse} |")
        run.add(seconds={f"{n_units} units, {name}, a patch": seconds for name, seconds in rate.items()})
    print(f"\nProcessor time of one thread, patches of {options.patch_size} x {options.patch_size} in color, ", end="")
    print(f"stride {options.stride}:\n")
    print("\n".join(table(found, options.images, options.sides, options.patch_size, options.stride)))
    run.finish()


if __name__ == "__main__":
    main()
