"""
Fine-tuning a learned stack
===========================

A stack of two layers is learned from 1,200 images of digits, without labels. As a torch network, it is then trained
further with ten labelled images of each digit. For comparison, the same network is trained in the same way from random
weights. Both are tested on 597 other images, which were not used before.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from epls import EPLS, L2SVMCV, DeepFeatures, Layer
from epls.torch import to_module

images, labels = load_digits().images.astype(np.float32), load_digits().target
pool, test_images, pool_labels, test_labels = train_test_split(images, labels, train_size=1200, random_state=0)

# %%
# Learn without labels
# --------------------
#
# A unit of the first layer sees 3 x 3 pixels of the image. A unit of the second sees 3 x 3 pixels of the first layer's
# map, and so 6 x 6 of the image.

first = Layer(EPLS(32), patch_size=3, pool=2, pool_stride=1, n_patches=5000)
second = Layer(EPLS(64), patch_size=3, n_patches=5000)
features = DeepFeatures([first, second], random_state=0).fit(pool)

# %%
# Train with ten labels a class
# -----------------------------
#
# ``to_module`` returns a network whose outputs are those of ``transform``. A linear layer follows; the normalisation in
# between brings all features to one scale.

N_EPOCHS, DRAWS = 20, 3


def as_tensor(some_images):
    return torch.tensor(some_images[:, None])


def with_random_weights(network):
    """Such that the inputs of all units have variance 1."""
    for name, parameter in network.named_parameters():
        if name.endswith("weight"):
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
        else:
            nn.init.zeros_(parameter)
    return network


def fine_tuning_curve(network, pixels, targets):
    """Percent of the test images that are classified correctly after each epoch."""
    normalize, head = nn.BatchNorm1d(network.n_features, affine=False), nn.Linear(network.n_features, 10)
    model = nn.Sequential(network, normalize, head)
    optimizer = torch.optim.AdamW(
        [{"params": network.parameters(), "lr": 1e-3}, {"params": head.parameters(), "lr": 3e-3}]
    )
    curve = []
    for _ in range(N_EPOCHS):
        model.train()
        for batch in torch.randperm(len(targets)).split(25):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pixels[batch]), targets[batch]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            found = model(as_tensor(test_images)).argmax(dim=1).numpy()
        curve.append(100 * np.mean(found == test_labels))
    return curve


curves = {"from learned weights": [], "from random weights": []}
frozen = []
for draw in range(DRAWS):
    some, _, targets, _ = train_test_split(pool, pool_labels, train_size=100, stratify=pool_labels, random_state=draw)
    torch.manual_seed(draw)
    starts = {
        "from learned weights": to_module(features),
        "from random weights": with_random_weights(to_module(features)),
    }
    for name, network in starts.items():
        curves[name].append(fine_tuning_curve(network, as_tensor(some), torch.tensor(targets)))
    classifier = make_pipeline(StandardScaler(), L2SVMCV()).fit(features.transform(some), targets)
    frozen.append(100 * classifier.score(features.transform(test_images), test_labels))

# %%
# The result
# ----------

for name, found in curves.items():
    print(f"network {name}: {np.mean(found, axis=0)[-1]:.1f} % correct after {N_EPOCHS} epochs")
print(f"linear SVM on the learned features as they are: {np.mean(frozen):.1f} %")

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for (name, found), color in zip(curves.items(), ("tab:red", "0.4"), strict=True):
    epochs = np.arange(1, N_EPOCHS + 1)
    axes.plot(epochs, np.mean(found, axis=0), color=color, label=f"network, {name}")
    axes.fill_between(epochs, np.min(found, axis=0), np.max(found, axis=0), color=color, alpha=0.2, linewidth=0)
axes.axhline(np.mean(frozen), color="tab:blue", linestyle="--", label="linear SVM on learned features")
axes.set(xlabel="epochs with 100 labelled images", ylabel="% of unseen digits classified correctly", ylim=(50, 100))
axes.set_xticks([1, 5, 10, 15, 20])
axes.legend(loc="lower right")
plt.show()

# %%
# The learned weights are a good start: their network is ahead from the first epoch. The network from random weights
# does not catch up, neither in these epochs nor with other learning rates from 0.0003 to 0.01. With so few labels,
# fine-tuning is no better than a linear classifier on the unchanged features, which needs no learning rate and no
# number of epochs. :doc:`/guide/networks` has figures for more labels.
