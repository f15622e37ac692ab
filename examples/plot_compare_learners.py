"""
Six learners side by side
=========================

The library has the methods that EPLS is usually compared with, as estimators of the same form: change the name of the
class, and all else stays. Here six of them learn 36 filters each from the same 3,000 patches of two photographs, once
as they are (normalised for brightness and contrast) and once whitened, that is, with all directions made equally wide.

The picture tells who depends on whitening. It does not tell whose features are best for a task; for that there is
``epls compare``, which runs on labelled images of your own.
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
# Patches, as they are and whitened
# ---------------------------------

patches = normalize_patches(sample_patches(load_sample_images().images, 3_000, SIZE, random_state=0))
kinds = {"normalised": patches, "whitened": ZCAWhitening().fit_transform(patches)}

# %%
# The learners
# ------------
#
# All have their default settings; only the auto-encoder is given smaller batches, for speed.

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
# A filter is called noise here if less than half its energy lies where the patches have 99 % of their variance.
# Whitened patches vary in all directions alike, so that this is counted for the others only.

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
# Without whitening, k-means and OMP-1 spend many of their filters on plain colors and slow gradients, RICA spends most
# of its on directions in which the patches hardly vary, and those of sparse filtering are speckled. With whitening,
# edges and stripes appear among those of all four. The filters of EPLS are of many kinds either way. With the
# auto-encoder, at its default settings, it is the other way round: whitened patches give it noise.
