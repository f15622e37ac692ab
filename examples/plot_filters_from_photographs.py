"""
Filters from two photographs
============================

EPLS learns what small pieces of photographs are made of: edges at all angles, stripes, patches of color. Here 100 units
learn from 50,000 patches of 10 x 10 pixels, drawn from the two photographs that come with scikit-learn, a temple under
a blue sky and a flower. Only the number of units is chosen.

The picture shows the filters and, for some of the units, the patches that excite them most.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

from epls import EPLS
from epls.images.patches import normalize_patches, sample_patches
from epls.metrics import never_active, noise_filters, population_sparsity
from epls.plotting import plot_filters

SIZE = 10
N_UNITS = 100

# %%
# Learning
# --------
#
# Each patch is normalised for brightness and contrast. ``ImageFeatures(EPLS(100)).fit(photographs)`` does all of this
# in one step; here we also need the patches themselves.

photographs = load_sample_images().images
patches = normalize_patches(sample_patches(photographs, 50_000, SIZE, random_state=0))
model = EPLS(N_UNITS, random_state=0).fit(patches)

# %%
# A unit is never active if its output stays below a tenth of its range for all patches. A filter is noise if it
# responds mostly to directions in which the patches hardly vary.

codes = model.transform(patches)
print(f"epochs: {model.n_iter_}")
print(f"wins of any two units differ by at most {np.ptp(np.bincount(model.winners(patches), minlength=N_UNITS))}")
print(f"units that are never active: {len(never_active(codes, model.activation))} of {N_UNITS}")
print(f"noise filters: {len(noise_filters(model.components_, patches))} of {N_UNITS}")
print(f"population sparsity: {population_sparsity(codes).mean():.2f} (1: a single unit is active for a patch)")

# %%
# What excites the units
# ----------------------
#
# We draw other patches of the same photographs, sort the filters by how much of them is color rather than brightness,
# and take ten, evenly spaced.

pixels = sample_patches(photographs, 10_000, SIZE, random_state=1)
outputs = model.transform(normalize_patches(pixels))

filters = model.components_.reshape(N_UNITS, -1, 3)
brightness = filters.mean(axis=2, keepdims=True)
color = np.square(filters - brightness).sum(axis=(1, 2)) / np.square(filters).sum(axis=(1, 2))
order = np.argsort(color)
shown = order[np.linspace(0, N_UNITS - 1, 10).astype(int)]

# %%
# Next to each filter are the eight patches for which the output of its unit is largest. Each patch is stretched to full
# contrast, because many are dark. In a filter, gray is zero.


def stretched(patch):
    low, high = patch.min(), patch.max()
    return ((patch.astype(float) - low) / max(high - low, 1)).reshape(SIZE, SIZE, 3)


N_BEST = 8
figure = plt.figure(figsize=(11.5, 6), layout="constrained")
figure.get_layout_engine().set(w_pad=0.03, h_pad=0.015, wspace=0, hspace=0)
left, right = figure.subfigures(1, 2, width_ratios=[1, 0.9], wspace=0.02)
plot_filters(model.components_[order], (SIZE, SIZE, 3), n_filters=None, ax=left.subplots())
left.suptitle("100 filters, from those of brightness to those of color")

cells = right.subplots(len(shown), 1 + N_BEST, width_ratios=[1.4] + [1] * N_BEST)
right.suptitle("ten units, and the patches that excite them most")
for row, unit in zip(cells, shown, strict=True):
    plot_filters(model.components_[[unit]], (SIZE, SIZE, 3), ax=row[0]).set_anchor("W")
    best = np.argsort(outputs[:, unit])[::-1][:N_BEST]
    for cell, patch in zip(row[1:], pixels[best], strict=True):
        cell.imshow(stretched(patch))
        cell.set_axis_off()
plt.show()

# %%
# There are units for edges of roofs and columns, for rows of tiles, for the petals of the flower, for the soft green
# behind it, and for the blue of the sky. Sky and background fill much of the two photographs, and all units have an
# equal share of the patches, so many units respond to these.
