"""
Six learners side by side
=========================

The library has the methods that EPLS is usually compared with. They have the same interface, so you only change the
name of the class. Here six of them learn 36 filters each from the same 3,000 patches of two photographs: first from
patches that are normalised for brightness and contrast, then from whitened ones, which have the same variance in all
directions.

The picture shows which learners depend on whitening. It does not show which features are best for a task. To find out,
run ``epls compare`` on your own labelled images.
"""

import time

import matplotlib.pyplot as plt
from sklearn.datasets import load_sample_images

from epls import EPLS, OMP, RICA, KMeansTriangle, SparseAutoencoder, SparseFiltering, ZCAWhitening
from epls.images.patches import normalize_patches, sample_patches
from epls.metrics import noise_filters
from epls.plotting import plot_filters

N_UNITS, SIZE = 36, 8

# %%
# Patches, normalised and whitened
# --------------------------------

patches = normalize_patches(sample_patches(load_sample_images().images, 3_000, SIZE, random_state=0))
kinds = {"normalised": patches, "whitened": ZCAWhitening().fit_transform(patches)}

# %%
# The learners
# ------------
#
# All have their default settings, except that the auto-encoder has smaller batches, for speed.

learners = {
    "EPLS": EPLS(N_UNITS, random_state=0),
    "k-means": KMeansTriangle(N_UNITS, random_state=0),
    "OMP-1": OMP(N_UNITS, random_state=0),
    "sparse auto-encoder": SparseAutoencoder(N_UNITS, batch_size=100, random_state=0),
    "sparse filtering": SparseFiltering(N_UNITS, random_state=0),
    "RICA": RICA(N_UNITS, random_state=0),
}

# %%
# The filters
# -----------
#
# A filter counts as noise if less than half of its energy is in the subspace that has 99 % of the variance of the
# patches. Whitened patches vary equally in all directions, so this is counted only for the others.

figure, cells = plt.subplots(2, len(learners), figsize=(15, 5.6), layout="constrained")
for row, (kind, samples) in zip(cells, kinds.items(), strict=True):
    for cell, (name, learner) in zip(row, learners.items(), strict=True):
        started = time.perf_counter()
        filters = learner.fit(samples).components_
        seconds = time.perf_counter() - started
        noise = f", {len(noise_filters(filters, samples))} of {N_UNITS} are noise" if kind == "normalised" else ""
        print(f"{kind:10}  {name:20} {seconds:4.1f} s{noise}")
        plot_filters(filters, (SIZE, SIZE, 3), n_filters=None, ax=cell)
    row[0].text(-0.08, 0.5, f"{kind} patches", rotation=90, ha="center", va="center", transform=row[0].transAxes)
for cell, name in zip(cells[0], learners, strict=True):
    cell.set_title(name)
plt.show()

# %%
# Without whitening, k-means and OMP-1 use many of their filters for plain colors and slow gradients. RICA uses most of
# its filters for directions in which the patches hardly vary, and those of sparse filtering are speckled. With
# whitening, all four also find edges and stripes. EPLS finds many kinds of filters either way. The auto-encoder, at its
# default settings, behaves in the opposite way: it learns noise from whitened patches.
