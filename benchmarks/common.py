"""What the benchmarks share: images and patches to measure with, times, memory, and results that grow row by row."""

import json
import resource
import sys
import time

import numpy as np
from sklearn.datasets import load_sample_images

from epls.images.patches import normalize_patches, sample_patches


def photographs(n_images, side):
    """Parts of scikit-learn's two photographs, by turns."""
    photos = load_sample_images().images
    corners = np.random.RandomState(0).randint(0, 427 - side, size=(n_images, 2))
    return np.stack([photos[k % 2][r : r + side, c : c + side] for k, (r, c) in enumerate(corners)])


def normalized_patches(n_patches, patch_size=10, images=None, seed=0):
    """Patches of images; of scikit-learn's photographs by default."""
    images = load_sample_images().images if images is None else images
    return normalize_patches(sample_patches(images, n_patches, patch_size, random_state=seed))


def timed(function, *arguments, clock=time.perf_counter, **options):
    """The seconds that a call takes, and what it returns; ``clock=time.process_time`` for those of the processor."""
    started = clock()
    result = function(*arguments, **options)
    return clock() - started, result


def peak_gibibytes():
    """The largest memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)


def results_in(path, otherwise):
    """The results of an earlier run in a JSON file, if there are any, to continue from."""
    return json.loads(path.read_text()) if path and path.exists() else otherwise
