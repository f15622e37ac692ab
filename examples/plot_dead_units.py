"""
Dead units: who has them?
=========================

A unit that answers to nothing is a waste. Here k-means, dictionary learning and EPLS learn 100 units each from the same
patches of two photographs, and new patches of the same photographs tell how often each unit is used.

One rule for all: a patch uses the unit that answers it most strongly, which is the nearest centre, the component with
the largest coefficient, or the unit with the largest output. **A unit is dead if none of 10,000 new patches uses it.**
By this rule no learner is always free of dead units: k-means has 19 of 100 on whitened patches, EPLS has 2 on patches
in color.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_images
from sklearn.decomposition import MiniBatchDictionaryLearning

from epls import EPLS, SparseCodingEncoder, ZCAWhitening
from epls.images.patches import normalize_patches, sample_patches
from epls.metrics import never_active

N_UNITS, SIZE = 100, 6
N_OLD, N_NEW = 8_000, 10_000

# %%
# The patches
# -----------
#
# Three kinds, as the answer depends on it: gray, in color, and in color with all directions made equally wide
# (whitened), which is what k-means is usually given. All are normalised for brightness and contrast.

photographs = load_sample_images().images
gray = [photograph.mean(axis=2).astype(np.uint8) for photograph in photographs]


def old_and_new(images):
    """Patches to learn from, and others to see which units they use."""
    old = sample_patches(images, N_OLD, SIZE, random_state=0)
    new = sample_patches(images, N_NEW, SIZE, random_state=1)
    return normalize_patches(old), normalize_patches(new)


kinds = {"gray": old_and_new(gray), "color": old_and_new(photographs)}
whitening = ZCAWhitening().fit(kinds["color"][0])
kinds["color, whitened"] = [whitening.transform(patches) for patches in kinds["color"]]

# %%
# The learners
# ------------
#
# The dictionary gets a sparsity penalty in proportion to the mean norm of a patch, and goes once through the patches:
# it is the slowest of the three. The exact codes of its objective say which of its components a patch uses.


def learn(patches):
    """Fitted learners, and for each how strongly its units answer: most strongly where a patch uses them."""
    penalty = 0.5 * np.linalg.norm(patches, axis=1).mean()
    centres = KMeans(N_UNITS, n_init=1, random_state=0).fit(patches)
    components = MiniBatchDictionaryLearning(N_UNITS, alpha=penalty, max_iter=1, random_state=0).fit(patches)
    codes = SparseCodingEncoder(components.components_, alpha=penalty, split_sign=False)
    units = EPLS(N_UNITS, random_state=0).fit(patches)
    return {
        "k-means": lambda samples: -centres.transform(samples),
        "dictionary": lambda samples: np.abs(codes.transform(samples)),
        "EPLS": units.transform,
    }


usage = {}
for kind, (old, new) in kinds.items():
    for name, answers in learn(old).items():
        strengths = answers(new)
        strengths = strengths[strengths.any(axis=1)]  # a patch to which no unit answers uses none
        used = np.bincount(strengths.argmax(axis=1), minlength=N_UNITS)
        shares = np.sort(used)[::-1] * N_UNITS / N_NEW
        usage[kind, name] = shares
        print(f"{kind:16} {name:10} dead: {np.sum(used == 0)} of {N_UNITS}, most used: {shares[0]:.1f} equal shares")
    n_silent = len(never_active(strengths, "logistic"))
    print(f"{kind:16} EPLS units whose output stays below 0.1 for all new patches: {n_silent}")

# %%
# How often each unit is used
# ---------------------------

styles = {"k-means": "tab:blue", "dictionary": "tab:green", "EPLS": "tab:red"}
figure, panels = plt.subplots(1, 3, figsize=(12, 4.2), sharey=True, layout="constrained")
for panel, kind in zip(panels, kinds, strict=True):
    for name, line in styles.items():
        n_dead = np.sum(usage[kind, name] == 0)
        panel.plot(range(1, N_UNITS + 1), usage[kind, name], color=line, label=f"{name}, {n_dead} dead")
    panel.axhline(1, color="0.5", linewidth=1, linestyle=":")
    panel.set(title=f"{kind} patches", xlabel="unit, from most to least used")
    panel.set_yscale("symlog", linthresh=0.01, linscale=0.3)
    panel.set_yticks([0, 0.01, 0.1, 1, 10], ["never", "0.01", "0.1", "1", "10"])
    panel.set_ylim(-0.002, 40)
    panel.grid(alpha=0.3)
    panel.legend(loc="lower left")
panels[0].set_ylabel("patches that use the unit,\nin equal shares (dotted: all alike)")
plt.show()

# %%
# What it shows
# -------------
#
# On gray patches nobody has dead units, and those of EPLS are used most evenly, but for a few that take the flat
# patches. On whitened patches k-means, which starts at samples, leaves many centres with the few outliers at which they
# started; EPLS has none. The dictionary has few dead components anywhere, and had none in color when it was given
# three passes instead of one. Its curve is low where its penalty leaves many patches with no code at all.
#
# In color, EPLS has dead units too by this rule. None is silent: the output of each comes above a tenth for some new
# patch. But half of the patches are all but flat, of sky and of blurred background; several units share these, and one
# of them may be weaker than another for every patch. Where every unit should get its share of samples, ``EPLS.winners``
# divides them evenly, by construction.
#
# Two more draws of patches and starts gave 1 and 2 dead units of EPLS in color, 4 and 6 of the dictionary, none of
# k-means; and whitened 0 of EPLS, 1 and 0 of the dictionary, 18 and 18 of k-means. With 10,000 patches to learn from,
# EPLS had 4 in color and 2 whitened, and k-means 0 and 11.
