"""
Which learners have dead units?
===============================

A unit that responds to nothing is useless. Here k-means, dictionary learning and EPLS learn 100 units each from the
same patches of two photographs. New patches of the same photographs show how often each unit is used.

The rule is the same for all: a patch uses the unit that responds to it most strongly, which is the nearest centre, the
component with the largest coefficient, or the unit with the largest output. **A unit is dead if none of 10,000 new
patches uses it.** By this rule, every learner has some dead units on some data: k-means has 19 of 100 on whitened
patches, and EPLS has 2 on patches in color.
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
# There are three kinds, because the answer depends on the kind: gray, in color, and in color and whitened, as is usual
# for k-means. All are normalised for brightness and contrast.

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
# The sparsity penalty of the dictionary is proportional to the mean norm of a patch. It makes one pass over the
# patches, because it is the slowest of the three. The exact codes of its objective show which components a patch uses.


def learn(patches):
    """Fitted learners, and the responses of their units. A patch uses the unit with the strongest response."""
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
# On gray patches, no learner has dead units. The units of EPLS are used most evenly, except for a few that win the flat
# patches. On whitened patches, many centres of k-means, which start at samples, are left with the outliers where they
# started; EPLS has no dead units. The dictionary has few dead components anywhere, and had none in color with three
# passes instead of one. Its curve is low where its penalty leaves many patches without any code.
#
# In color, EPLS also has dead units by this rule. None of them is never active: each has an output above a tenth for
# some new patch. But half of the patches, of sky and blurred background, are almost flat. Several units share these,
# and one of them may be weaker than another for every patch. If every unit should get its share of samples, use
# ``EPLS.winners``, which divides them evenly.
#
# With two more seeds, EPLS had 1 and 2 dead units in color, the dictionary 4 and 6, and k-means none. On whitened
# patches, EPLS had none, the dictionary 1 and 0, and k-means 18 and 18. With 10,000 patches to learn from, EPLS had 4
# in color and 2 whitened, and k-means 0 and 11.
