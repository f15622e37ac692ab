"""
OMP-1 as a special case of EPLS
===============================

The paper notes that OMP-1 (gain-shape k-means) is EPLS with the activation ``|w·x|`` and without lifetime sparsity: a
sample goes to the component with the largest ``|w·x|``, and there is no balance. This example shows to what extent this
is true, on whitened digits, with 30 components.

One addition is needed. OMP-1 rescales its components to length 1 after each step. Without this *and* without balance, a
component that wins more becomes longer and then wins even more, until 28 of 30 units are dead. With balance, no unit is
dead, whatever the lengths.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from epls import EPLS, OMP, TrainingSettings
from epls.algorithm.target import LargestTarget

N_UNITS, N_ROUNDS = 30, 100
pca = PCA(20, whiten=True, svd_solver="full")
X = pca.fit_transform(load_digits().data)

# %%
# EPLS's step, with components of length 1
# ----------------------------------------
#
# Each iteration finds the target without balance, takes a step along the gradient of ``||H - T||² / 2`` over all
# samples, and rescales the components to length 1. On white data, the sum of the squares of all outputs is then the
# same for all components. So minimising the error means maximising the sum of ``|w·x|`` over the winners. OMP-1
# maximises the sum of (w·x)². Both start with the same components, which are random samples.


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


omp_1 = OMP(N_UNITS, max_iter=N_ROUNDS, tol=0, random_state=0).fit(X)
other_start = OMP(N_UNITS, max_iter=N_ROUNDS, tol=0, random_state=1).fit(X)

first = np.sort(np.random.RandomState(0).permutation(len(X))[:N_UNITS])  # as OMP chooses them
W = unit(X[first])
for _ in range(N_ROUNDS):
    net = X @ W.T
    target = np.eye(N_UNITS)[LargestTarget(N_UNITS).assign(np.abs(net))]
    gradient = ((np.abs(net) - target) * np.sign(net)).T @ X / len(X)
    W = unit(W - gradient)

# %%
# EPLS itself, without and with balance
# -------------------------------------
#
# Here components may have any length, and start at random.

largest, balanced = (
    EPLS(
        N_UNITS,
        activation="absolute",
        settings=TrainingSettings(target=target, loss="squared", biases="none", max_norm=None),
        random_state=0,
    ).fit(X)
    for target in ("largest", "auction")
)

found = {
    "OMP-1": omp_1.components_,
    "OMP-1, another start": other_start.components_,
    "EPLS, |w·x|, no balance, length 1": W,
    "EPLS, |w·x|, no balance": largest.components_,
    "EPLS, |w·x|, balance": balanced.components_,
}
wins = {}
for name, components in found.items():
    cosines = np.abs(unit(components) @ omp_1.components_.T)
    wins[name] = np.bincount(np.abs(X @ components.T).argmax(axis=1), minlength=N_UNITS)
    print(
        f"{name:34} dead: {np.sum(wins[name] == 0):2}   nearest component of OMP-1, mean |cos|: "
        f"{cosines.max(axis=1).mean():.3f}"
    )
print(f"from the same start, component by component: {np.abs((W * omp_1.components_).sum(axis=1)).mean():.3f}")

# %%
# Components as pictures, and the wins of each unit
# -------------------------------------------------
#
# These are eight components of OMP-1, and for each of them the most similar one of the other methods. The whitening is
# undone, so that a component looks like the digit that it stands for.


def pictures(components, wanted):
    nearest = np.abs(unit(components) @ wanted.T).argmax(axis=0)
    signs = np.sign((components[nearest] * wanted).sum(axis=1, keepdims=True))
    shown = unit(signs * components[nearest]) * np.sqrt(pca.explained_variance_) @ pca.components_
    shown = shown.reshape(-1, 8, 8) / np.abs(shown).max(axis=1)[:, None, None]
    return np.concatenate([np.pad(p, 1, constant_values=np.nan) for p in shown], axis=1)


names = [name for name in found if name != "OMP-1, another start"]
wanted = omp_1.components_[np.argsort(-wins["OMP-1"])[:8]]
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), width_ratios=[1.3, 1], layout="constrained")
left.imshow(np.concatenate([pictures(found[name], wanted) for name in names]), cmap="RdBu_r", vmin=-1, vmax=1)
left.set_yticks(10 * np.arange(4) + 4.5, [name.replace(", ", "\n", 1) for name in names])
left.set_xticks([])
left.spines[:].set_visible(False)
left.tick_params(length=0)
for name, color in zip(names, ("0.4", "tab:blue", "tab:orange", "tab:red"), strict=True):
    n_dead = np.sum(wins[name] == 0)
    right.plot(range(1, N_UNITS + 1), np.sort(wins[name])[::-1], color=color, label=f"{name}: {n_dead} dead")
right.set(xlabel="unit, from most to fewest wins", ylabel="digits with the largest |w·x| there")
right.set_yscale("symlog", linthresh=10)
right.set_ylim(-0.5, 2500)
right.legend(fontsize=8)
right.grid(alpha=0.3)
plt.show()

# %%
# What it shows
# -------------
#
# With length 1, EPLS without balance finds the components of OMP-1: from the same start, the mean ``|cos|`` of
# corresponding components is 0.97. From two more starts, it is 0.88 and 0.96. Two runs of OMP-1 from different starts
# agree less: 0.89, with the best match for each component. This holds only on white data. On other data, the step also
# turns components away from directions in which all samples are large, which OMP-1 does not do.
#
# OMP-1 has no balance, but balance has the same effect as a fixed length: no unit is dead, and the components agree
# with those of OMP-1 to 0.93 (0.91 and 0.92 from two more starts).
