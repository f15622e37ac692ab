"""
Groups of equal size
====================

The groups of k-means can have any size, and you cannot control it. ``BalancedKMeans`` makes groups of the same size, or
of sizes within limits. Here 3,000 customers are divided among 12 depots, each of which can serve 250.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from epls import BalancedKMeans

# %%
# Two towns and the countryside
# -----------------------------

random = np.random.RandomState(0)
customers = np.concatenate(
    [
        random.normal([2, 2], 0.35, size=(1400, 2)),
        random.normal([5, 4], 0.5, size=(900, 2)),
        random.uniform([0, 0], [8, 6], size=(700, 2)),
    ]
)

methods = {
    "k-means": KMeans(12, n_init=3, random_state=0),
    "size_min=150, size_max=350": BalancedKMeans(12, size_min=150, size_max=350, n_init=3, random_state=0),
    "equal sizes": BalancedKMeans(12, n_init=3, random_state=0),
}
for name, method in methods.items():
    method.fit(customers)
    sizes = np.bincount(method.labels_)
    distance = np.sqrt(method.inertia_ / len(customers))
    print(f"{name:28} sizes {sizes.min():4} to {sizes.max():4}, root mean squared distance {distance:.2f}")

# %%
# The picture
# -----------
#
# Each color is a group, each cross is the mean of a group, and the bars show the sizes.

figure, panels = plt.subplots(2, 3, figsize=(11, 5.2), height_ratios=[3, 1], layout="constrained")
colors = plt.get_cmap("tab20").colors
for (name, method), (places, bars) in zip(methods.items(), panels.T, strict=True):
    places.scatter(*customers.T, s=2, c=[colors[label] for label in method.labels_])
    places.scatter(*method.cluster_centers_.T, marker="x", color="black", s=30)
    places.set(title=name, xticks=[], yticks=[], aspect="equal")
    bars.bar(range(12), np.sort(np.bincount(method.labels_)), color="0.5")
    bars.set(xticks=[], ylim=(0, 1000))
panels[1, 0].set_ylabel("customers")
plt.show()

# %%
# Equal sizes increase the distances: towns are divided among many depots, and some depots must serve customers far
# away. Limits are a compromise.
