"""
Learning from whole images
==========================

A mini-batch of EPLS usually holds random patches of all images. It can also hold the patches of one image, which the
paper suggests for convolutional networks: ``ImageFeatures(sampling="images")``. Memory then does not grow with the
number of patches, and every image is read once per epoch.

This has a cost. The target is balanced in every mini-batch, so all units win equally often in *every* image, even if an
image of sky needs few of them. The example learns 64 filters both ways from pieces of two photographs. It shows the
filters, how close the outputs are to the target on new patches, and how well such features classify digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_sample_images
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, ImageFeatures
from epls.metrics import redundancy
from epls.plotting import plot_filters

N_UNITS, SIZE = 64, 8
WAYS = {"patches": "random patches", "images": "whole images"}

# %%
# Filters of photographs
# ----------------------
#
# The images are 48 pieces of 96 x 96 pixels. With ``sampling="images"`` a mini-batch is 256 patches from random
# positions of one piece, the default size for 64 units. So an epoch has 48 mini-batches.

photographs = load_sample_images().images
pieces = np.stack(
    [photo[top : top + 96, left : left + 96] for photo in photographs for top in range(0, 332, 96)
     for left in range(0, 545, 96)]
)  # fmt: skip


def learn(sampling, images, n_units, size, n_patches, n_epochs):
    estimator = EPLS(n_units, max_iter=n_epochs)
    return ImageFeatures(
        estimator, patch_size=size, n_patches=n_patches, sampling=sampling, grid=2, random_state=0
    ).fit(images)


learned = {way: learn(way, pieces, N_UNITS, SIZE, 48 * 256, n_epochs=40) for way in WAYS}
new = learned["patches"].draw_patches(photographs, 5_000, random_state=1)
outputs, at_winner = {}, {}
for way, features in learned.items():
    model = features.estimator_
    outputs[way] = model.transform(new)
    at_winner[way] = outputs[way][np.arange(len(new)), model.winners(new)]
    print(
        f"photographs, {WAYS[way]}: output at the winners {at_winner[way].mean():.2f}, mean output "
        f"{outputs[way].mean():.3f}, dead {np.sum(outputs[way].max(axis=0) < 0.1)}, "
        f"|cos| to the most similar filter {redundancy(model.components_).mean():.2f}"
    )

# %%
# A classifier with few labels
# ----------------------------
#
# Digits of 8 x 8 pixels have 16 patches of 5 x 5 each, so a mini-batch consists of several whole images. A classifier
# is trained with 10 labels of each digit and tested on all others, for ten draws of the labels.

digits = load_digits()
accuracy = {}
for way in WAYS:
    table = learn(way, digits.images, 50, 5, 10_000, n_epochs=20).transform(digits.images)
    scores = []
    for draw in range(10):
        X_few, X_rest, y_few, y_rest = train_test_split(
            table, digits.target, train_size=100, stratify=digits.target, random_state=draw
        )
        classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
        scores.append(100 * classifier.fit(X_few, y_few).score(X_rest, y_rest))
    accuracy[way] = np.mean(scores), np.std(scores)
    print(f"digits, {WAYS[way]}: {accuracy[way][0]:.1f} % ({accuracy[way][1]:.1f}) with 100 labels")

# %%
# The filters
# -----------

figure, panels = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained")
for panel, (way, features) in zip(panels, learned.items(), strict=False):
    plot_filters(features.estimator_.components_, (SIZE, SIZE, 3), ax=panel)
    panel.set_title(f"{WAYS[way]}\noutput at the winners {at_winner[way].mean():.2f}, digits {accuracy[way][0]:.1f} %")
for way, color in zip(WAYS, ("0.4", "tab:red"), strict=True):
    used = np.bincount(outputs[way].argmax(axis=1), minlength=N_UNITS) * N_UNITS / len(new)
    panels[2].plot(range(1, N_UNITS + 1), np.sort(used)[::-1], color=color, label=WAYS[way])
panels[2].axhline(1, color="0.5", linewidth=1, linestyle=":")
panels[2].set(xlabel="unit, from most to least often", ylabel="new patches where it is the strongest, in equal shares")
panels[2].set_yscale("log")
panels[2].grid(alpha=0.3)
panels[2].legend()
plt.show()

# %%
# What it shows
# -------------
#
# Filters from random patches fit better: on new patches, the outputs of the winners are more than twice as large. With
# whole images, all units have to win equally often in every image, even in one that shows only sky. So they become
# filters for what all images have in common: less similar to each other, noisier, and used more evenly.
#
# Digits are all alike, and eighteen of them share a mini-batch. Here the difference is within the spread between draws.
# So use random patches for photographs if they fit in memory, and whole images if the images are alike.
