"""NumPy against torch: seconds of an epoch and of encoding, and how far the results are apart.

    python benchmarks/bench_torch.py                    # torch on the processor
    python benchmarks/bench_torch.py --device cuda
    python benchmarks/bench_torch.py --quick            # small

From patches and pieces of scikit-learn's two photographs; the engines take turns.
"""

import argparse
import time

import history
import numpy as np
from common import normalized_patches
from sklearn.datasets import load_sample_images

from epls import EPLS, ImageFeatures

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--device", default="cpu", help="a device of torch")
parser.add_argument("--units", type=int, default=1600)
parser.add_argument("--patches", type=int, default=48_000)
parser.add_argument("--quick", action="store_true", help="20 units and 1,000 patches")
history.add_option(parser)
arguments = parser.parse_args()
run = history.Run(arguments)
n_units, n_patches = (20, 1000) if arguments.quick else (arguments.units, arguments.patches)
DEVICES = {"NumPy": None, f"torch, {arguments.device}": arguments.device}

photographs = load_sample_images().images
patches = normalized_patches(n_patches)
images = np.stack([photographs[k % 2][20 * k : 20 * k + 96, 20 * k : 20 * k + 96] for k in range(16)])


def difference(arrays):
    return np.abs(np.subtract(*arrays)).max()


for device in DEVICES.values():  # compile, and begin to use the device
    EPLS(4, max_iter=1, device=device).fit(patches[:100])
models, seconds_of = {}, {}
for _ in range(2):
    for name, device in DEVICES.items():
        models[name] = EPLS(n_units, max_iter=4, random_state=0, device=device).fit(patches)
        seconds = min(report.seconds for report in models[name].epoch_reports_)
        seconds_of.setdefault("an epoch", {})[name] = seconds  # that of the second round counts
        print(f"{name:12} {seconds:6.2f} s an epoch of {n_patches} patches, {n_units} units")
errors = np.array([model.loss_curve_ for model in models.values()])
print(f"weights differ by {difference([m.components_ for m in models.values()]):.1e},", end=" ")
print(f"errors by a share of {np.abs(errors[1] / errors[0] - 1).max():.1e}")

model = models["NumPy"]
features = ImageFeatures(EPLS(n_units // 4, max_iter=2), n_patches=4000, random_state=0).fit(images)
for title, estimator, X in (("transform of the patches", model, patches), ("features of 16 images", features, images)):
    found = []
    for name, device in DEVICES.items():
        estimator.set_params(device=device)
        started = time.perf_counter()
        found.append(estimator.transform(X))
        seconds_of.setdefault(title, {})[name] = seconds = time.perf_counter() - started
        print(f"{name:12} {seconds:6.2f} s {title}")
    print(f"they differ by {difference(found):.1e}")

ours, theirs = DEVICES
run.add(
    ratios={f"{what}: {theirs} / {ours}": found[theirs] / found[ours] for what, found in seconds_of.items()},
    seconds={f"{what}: {name}": taken for what, found in seconds_of.items() for name, taken in found.items()},
)
run.finish()
