"""
Digits with few labels
======================

Images are cheap, and labels are expensive. Here all of 1,200 images of digits are used to learn features, without
labels. A classifier is then trained on 1 to 20 labelled images of each digit, and tested on 597 other images, which
were not used before.

The example compares raw pixels, principal components and the outputs of EPLS units, each with two linear classifiers.
With ten labels per class, ridge regression classifies 92.9 % of the digits correctly from 50 units, and 88.6 % from
pixels. With one or two labels, few units are better than many, and with logistic regression 50 units are worse than
pixels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import StratifiedShuffleSplit

from epls import EPLS

X, y = load_digits(return_X_y=True)
LABELS_PER_CLASS = [1, 2, 5, 10, 20]

# %%
# What is compared
# ----------------
#
# The penalties of both classifiers are relative to the total variance of the features, so their scale does not matter.
# Ridge regression chooses among 13 penalties by leave-one-out; logistic regression has a fixed one.


def learned_features(pool, test, seed):
    """Each kind of features for the images to learn from, and for those to test on."""
    models = {
        "PCA, 20 components": PCA(20, random_state=seed),
        "EPLS, 20 units": EPLS(20, random_state=seed),
        "EPLS, 50 units": EPLS(50, random_state=seed),
    }
    learned = {name: (model.fit_transform(pool), model.transform(test)) for name, model in models.items()}
    return {"raw pixels": (pool, test), **learned}


def classifiers(features):
    total = features.var(axis=0).sum()
    return {
        "ridge regression": RidgeClassifierCV(alphas=np.logspace(-3, 3, 13) * total),
        "logistic regression": LogisticRegression(C=10 / total, max_iter=1000),
    }


# %%
# The images are split twice, and the features are learned again each time. For each split, labels are drawn six times.

scores = {}
partitions = StratifiedShuffleSplit(2, train_size=1200, random_state=0).split(X, y)
for seed, (pool, test) in enumerate(partitions):
    for name, (features, test_features) in learned_features(X[pool], X[test], seed).items():
        for n_labels in LABELS_PER_CLASS:
            draws = StratifiedShuffleSplit(6, train_size=10 * n_labels, random_state=seed).split(features, y[pool])
            for labelled, _ in draws:
                for kind, classifier in classifiers(features).items():
                    classifier.fit(features[labelled], y[pool][labelled])
                    right = 100 * classifier.score(test_features, y[test])
                    scores.setdefault((kind, name), {}).setdefault(n_labels, []).append(right)

# %%
# The result
# ----------

print(f"{'% correct (standard deviation)':42}" + "".join(f"{n:>12}" for n in LABELS_PER_CLASS) + "  labels per class")
for (kind, name), by_labels in sorted(scores.items(), key=lambda item: item[0][0]):
    cells = [f"{np.mean(values):.1f} ({np.std(values):.1f})" for values in by_labels.values()]
    print(f"{kind + ', ' + name:42}" + "".join(f"{cell:>12}" for cell in cells))

styles = {
    "raw pixels": {"color": "0.35", "marker": "o"},
    "PCA, 20 components": {"color": "tab:green", "marker": "^", "linestyle": "--"},
    "EPLS, 20 units": {"color": "tab:orange", "marker": "s"},
    "EPLS, 50 units": {"color": "tab:red", "marker": "D"},
}
figure, panels = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True, layout="constrained")
for panel, kind in zip(panels, ["ridge regression", "logistic regression"], strict=True):
    for shift, (name, style) in enumerate(styles.items()):
        values = np.array(list(scores[kind, name].values()))
        places = np.array(LABELS_PER_CLASS) * 1.03 ** (shift - 1.5)  # side by side, so that the bars can be told apart
        panel.errorbar(places, values.mean(axis=1), values.std(axis=1), label=name, capsize=2, markersize=5, **style)
    panel.set(title=kind, xlabel="labelled images of each digit", xscale="log")
    panel.set_xticks(LABELS_PER_CLASS, LABELS_PER_CLASS)
    panel.minorticks_off()
    panel.grid(alpha=0.3)
panels[0].set_ylabel("% of unseen digits classified correctly\n(bar: standard deviation over 12 draws)")
panels[0].legend(loc="lower right")
plt.show()

# %%
# With ten or more labels per class, 50 units are well ahead of everything else, with either classifier. Principal
# components are as good as pixels: they are a rotation of the same space with little left out, and a rotation makes no
# difference to a linear classifier.
#
# A unit is active for few images, so a labelled image carries information about only a few units. That is why 20 units
# are better than 50 with one or two labels per class, and why 50 units are worst there with logistic regression. With
# one label per class, leave-one-out says little: the class of the sample that is left out does not occur in the rest.
