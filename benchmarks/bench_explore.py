"""How long `epls explore` takes on a folder of images, the first time and again, and how good its neighbours are.

    python benchmarks/bench_explore.py DATA
    python benchmarks/bench_explore.py DATA --network efficientnet_lite0
    python benchmarks/bench_explore.py --folder PHOTOS

DATA holds the official stl10_binary folder; folders of 100, 1,000 and 10,000 of its 5,000 training images (and their
mirror images) are written as PNG files. Or give a folder of your own. Each command is a new process with an empty cache
of features; its time includes imports and decoding. CPU seconds are shown beside the seconds on the clock: other
programs change them less. For STL-10, the share of the ten nearest images that have the same class is shown, too.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from epls.datasets import load_stl10
from epls.report.similarity import comparable

N_NEAREST = 10


def seconds_of(cache, *arguments):
    """Seconds on the clock and of the processors that a command takes in a new process."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "epls", *map(str, arguments), "--force"],
        env=os.environ | {"EPLS_CACHE_DIR": str(cache)},
        check=True,
        capture_output=True,
    )
    clock, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def share_of_neighbours(features, labels):
    """The share of the nearest samples, as the page finds them, that have the same class."""
    X = comparable(features, np.random.RandomState(0))
    cosines = X @ X.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.argpartition(-cosines, N_NEAREST, axis=1)[:, :N_NEAREST]
    return float((labels[nearest] == labels[:, None]).mean())


def written(folder, images):
    folder.mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number:05}.png", compress_level=1)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder that holds stl10_binary")
    parser.add_argument("--folder", type=Path, help="a folder of images instead")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--network", help="as for epls explore")
    chosen = parser.parse_args()
    network = ["--network", chosen.network] if chosen.network else []
    with tempfile.TemporaryDirectory() as name:
        place, labels = Path(name), None
        folders = {} if chosen.folder is None else {chosen.folder.name: (chosen.folder, None)}
        if chosen.data is not None:
            stl10 = load_stl10(chosen.data)
            images, labels = np.asarray(stl10.train_images), stl10.train_labels
            order = np.random.RandomState(0).permutation(len(images))
            for size in chosen.sizes:
                some = order[: min(size, len(images))]
                shown = [images[k] for k in some] + [images[k][:, ::-1] for k in order[: size - len(some)]]
                folders[f"{size:,}"] = written(place / str(size), shown), labels[some] if size <= len(images) else None
        print(f"{'images':>10}{'first':>9}{'CPU':>8}{'again':>9}{'CPU':>8}  seconds{'same class':>14}")
        for title, (folder, classes) in folders.items():
            page, cache = place / "page.html", place / f"cache-{title}"
            first = seconds_of(cache, "explore", folder, "-o", page, *network)
            again = seconds_of(cache, "explore", folder, "-o", page, *network)
            seconds = "".join(f"{clock:9.1f}{cpu:8.1f}" for clock, cpu in (first, again))
            share = ""
            if classes is not None:
                seconds_of(cache, "transform", folder, "-o", place / "f.npz", *network)
                with np.load(place / "f.npz") as found:
                    share = f"{100 * share_of_neighbours(found['features'], classes):12.1f} %"
            print(f"{title:>10}{seconds}{'':9}{share}", flush=True)


if __name__ == "__main__":
    main()
