"""
A convolutional network that learns without labels
==================================================

The ideal target of EPLS is not tied to one layer of units. ``epls.torch.EPLSLoss`` is a criterion for any network. Here
the network has two convolutional layers and returns 36 outputs for every position of a photograph. Each mini-batch is
one piece of a photograph, and each position in it is a sample. The target has exactly one active unit at each position,
and all units are active equally often.

The picture shows which patches excite each unit most, and how often each is the strongest. In the random network one
unit is the strongest at half of all positions and some hardly anywhere; after training they are used more evenly.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_sample_images
from torch import nn

from epls.torch import EPLSLoss

N_UNITS, N_STEPS = 36, 400
torch.manual_seed(0)

# %%
# The network
# -----------
#
# For EPLS, patches are normalised for brightness and contrast. Here, a layer of the network does this around every
# pixel. A position of the map sees 13 x 13 pixels, with 2 more on each side for their contrast.

photographs = [torch.tensor(image).movedim(2, 0).float() for image in load_sample_images().images]
SIZE, STRIDE, MARGIN = 13, 2, 2


class LocalContrast(nn.Module):
    """Pixels less the mean of their surroundings, divided by the standard deviation there."""

    def forward(self, images):
        mean = nn.functional.avg_pool2d(images.mean(1, keepdim=True), 2 * MARGIN + 1, stride=1)
        square = nn.functional.avg_pool2d(images.square().mean(1, keepdim=True), 2 * MARGIN + 1, stride=1)
        inner = images[:, :, MARGIN:-MARGIN, MARGIN:-MARGIN]
        return (inner - mean) / (square - mean.square() + 30).sqrt()


network = nn.Sequential(LocalContrast(), nn.Conv2d(3, 24, 5, stride=STRIDE), nn.Tanh(), nn.Conv2d(24, N_UNITS, 5))

# %%
# Training
# --------
#
# This is the usual loop in torch. The criterion owns the biases of the units and steers them: outputs are dense at
# first and sparse after the first quarter of training, so it needs the number of steps. As in EPLS, the norms of the
# filters are limited, which keeps outputs graded.


def piece(size=80):
    """A random piece of one of the photographs, as a batch of one image."""
    image = photographs[torch.randint(2, ())]
    top, left = (int(torch.randint(side - size, ())) for side in image.shape[1:])
    return image[None, :, top : top + size, left : left + size]


def output_maps():
    """The outputs at all positions of each photograph."""
    with torch.no_grad():
        return [criterion.activate(network(image[None]))[0] for image in photographs]


def strongest(maps):
    """How often each unit is the strongest, in equal shares, from the most to the least often."""
    used = sum(torch.bincount(outputs.flatten(1).argmax(0), minlength=N_UNITS) for outputs in maps)
    return np.sort((used * N_UNITS / used.sum()).numpy())[::-1]


criterion = EPLSLoss(N_UNITS, n_steps=N_STEPS)
before = strongest(output_maps())
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, N_STEPS)
losses = []
for _ in range(N_STEPS):
    optimizer.zero_grad()
    loss = criterion(network(piece()))
    loss.backward()
    optimizer.step()
    schedule.step()
    with torch.no_grad():
        for layer in (network[1], network[3]):
            layer.weight.renorm_(2, 0, 2.0)
    losses.append(loss.item())
maps = output_maps()
after = strongest(maps)
outputs, wins = torch.cat([m.flatten(1) for m in maps], dim=1), criterion.counts
print(f"loss: {losses[0]:.1f} at first, {np.mean(losses[-50:]):.2f} at the end")
print(f"wins of any two units in training differ by {int(wins.max() - wins.min())}, of {int(wins.min())}")
print(f"mean output: {outputs.mean():.3f}, a unit's share is {1 / N_UNITS:.3f}")
print(f"dead units: {int((outputs.amax(dim=1) < 0.1).sum())} of {N_UNITS}")
print(
    f"most and least often the strongest: {before[0]:.1f} and {before[-1]:.2f} equal shares before training, ", end=""
)
print(f"{after[0]:.1f} and {after[-1]:.2f} after")

# %%
# What excites the units
# ----------------------


def favourites(unit, n_best=4):
    """The patches with the largest outputs of a unit, no two of them overlapping much."""
    found = []
    for image, outputs in zip(photographs, maps, strict=True):
        answer = outputs[unit].clone()
        for _ in range(n_best):
            row, column = divmod(int(answer.argmax()), answer.shape[1])
            top, left = MARGIN + row * STRIDE, MARGIN + column * STRIDE
            found.append((float(answer[row, column]), image[:, top : top + SIZE, left : left + SIZE]))
            answer[max(row - 4, 0) : row + 5, max(column - 4, 0) : column + 5] = 0
    found.sort(key=lambda pair: -pair[0])
    return [patch for _, patch in found[:n_best]]


def stretched(patch):
    low, high = patch.min(), patch.max()
    return ((patch - low) / (high - low).clamp(min=1)).movedim(0, 2).numpy()


rows = []
for first in range(0, N_UNITS, 4):
    cells = []
    for unit in range(first, first + 4):
        cells += [np.pad(stretched(p), ((1, 1), (1, 0), (0, 0)), constant_values=1) for p in favourites(unit)]
        cells.append(np.ones((SIZE + 2, 5, 3)))
    rows.append(np.concatenate(cells[:-1], axis=1))

figure, (patches, curves) = plt.subplots(1, 2, figsize=(11.5, 3.9), width_ratios=[1.7, 1], layout="constrained")
patches.imshow(np.concatenate(rows))
patches.set_axis_off()
patches.set_title(f"the patches that excite each of the {N_UNITS} units most")
curves.plot(range(1, N_UNITS + 1), before, color="0.5", label="before training")
curves.plot(range(1, N_UNITS + 1), after, color="tab:red", label="after")
curves.axhline(1, color="0.5", linewidth=1, linestyle=":")
curves.set(xlabel="unit, from most to least often", ylabel="positions where it is the strongest,\nin equal shares")
curves.set_yscale("symlog", linthresh=0.01, linscale=0.3)
curves.set_yticks([0, 0.01, 0.1, 1, 10], ["never", "0.01", "0.1", "1", "10"])
curves.set_ylim(-0.002, 40)
curves.grid(alpha=0.3)
curves.legend()
plt.show()

# %%
# There are units for rows of tiles in either direction, for columns, for leaves, and for the rim of a petal. The wins
# in the target are balanced, but the largest outputs are not: one unit still has five times its share, mostly sky and
# blurred background, where patches hardly differ.
