"""
Vectors that are not images
===========================

EPLS accepts any vectors. Here they are 30 measurements of cell nuclei in each of 569 samples of breast tissue. Eight
units learn from them without the diagnoses. The weights of a unit show what it stands for, and each unit has an equal
share of the samples.

The second half of the picture is a warning. A linear classifier works well on the measurements themselves, and EPLS
loses some of their information: with five labels per class, logistic regression classifies 90.2 % correctly from the
scaled measurements, and 87.0 % from the units.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from epls import EPLS

N_UNITS = 8

# %%
# What the units stand for
# ------------------------
#
# The features have different units, so they are standardised first. ``winners`` divides the samples among the units as
# equally as possible. The labels are only used to look at the result.

data = load_breast_cancer()
X = StandardScaler().fit_transform(data.data)
malignant = data.target == 0

model = EPLS(N_UNITS, random_state=0).fit(X)
winners = model.winners(X)
share = np.array([malignant[winners == unit].mean() for unit in range(N_UNITS)])
order = np.argsort(share)[::-1]

print(f"malignant in all: {malignant.mean():.0%}; samples of a unit: {sorted(set(np.bincount(winners).tolist()))}")
for unit in order:
    weights = model.components_[unit]
    largest = np.argsort(np.abs(weights))[::-1][:3]
    words = ", ".join(f"{'more' if weights[k] > 0 else 'less'} {data.feature_names[k]}" for k in largest)
    print(f"unit {unit}: {share[unit]:4.0%} malignant: {words}")

# %%
# The groups agree well with the diagnosis, though this depends on the start. K-means agrees as well or better, with
# groups of very different sizes.


def in_majority(groups):
    """The share of samples with the most frequent diagnosis of their group."""
    rates = np.array([malignant[groups == group].mean() for group in groups])
    return np.mean(malignant == (rates > 0.5))


for name, all_groups in {
    "EPLS": [EPLS(N_UNITS, random_state=seed).fit(X).winners(X) for seed in range(4)],
    "k-means": [KMeans(N_UNITS, n_init=3, random_state=seed).fit_predict(X) for seed in range(4)],
}.items():
    agreement = ", ".join(f"{100 * in_majority(groups):.1f}" for groups in all_groups)
    sizes = np.array([np.bincount(groups, minlength=N_UNITS) for groups in all_groups])
    print(f"{name}: {agreement} % agree with their group (four starts); sizes {sizes.min()} to {sizes.max()}")

# %%
# Are they useful?
# ----------------
#
# Features are learned from two thirds of the samples, and a classifier from a few labelled ones among them. The rest
# are for testing. There are three splits, with eight draws of labels each.

LABELS_PER_CLASS = [2, 5, 10, 20]
scores = {}
for seed, (pool, test) in enumerate(StratifiedShuffleSplit(3, train_size=0.67, random_state=0).split(X, malignant)):
    scaler = StandardScaler().fit(data.data[pool])
    known, unseen = scaler.transform(data.data[pool]), scaler.transform(data.data[test])
    features = {"scaled measurements": (known, unseen)}
    for name, learner in {
        "PCA, 8 components": PCA(N_UNITS, random_state=seed),
        "k-means, 8 distances": KMeans(N_UNITS, n_init=3, random_state=seed),
        "EPLS, 8 units": EPLS(N_UNITS, random_state=seed),
    }.items():
        features[name] = learner.fit_transform(known), learner.transform(unseen)
    for name, (inputs, test_inputs) in features.items():
        classifier = LogisticRegression(C=10 / inputs.var(axis=0).sum(), max_iter=1000)
        for n_labels in LABELS_PER_CLASS:
            draws = StratifiedShuffleSplit(8, train_size=2 * n_labels, random_state=seed)
            for labelled, _ in draws.split(inputs, malignant[pool]):
                classifier.fit(inputs[labelled], malignant[pool][labelled])
                right = 100 * classifier.score(test_inputs, malignant[test])
                scores.setdefault(name, {}).setdefault(n_labels, []).append(right)

print(f"\n{'% correct (standard deviation)':30}" + "".join(f"{n:>12}" for n in LABELS_PER_CLASS) + "  labels per class")
for name, by_labels in scores.items():
    cells = [f"{np.mean(values):.1f} ({np.std(values):.1f})" for values in by_labels.values()]
    print(f"{name:30}" + "".join(f"{cell:>12}" for cell in cells))

# %%
# The picture
# -----------

figure, (weights, curves) = plt.subplots(1, 2, figsize=(12, 4.8), width_ratios=[1.6, 1], layout="constrained")
limit = np.abs(model.components_).max()
picture = weights.imshow(model.components_[order], cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
figure.colorbar(picture, ax=weights, label="weight", pad=0.02)
weights.set_yticks(range(N_UNITS), [f"{share[unit]:.0%}" for unit in order])
weights.set_ylabel("unit, by its share of malignant samples")
weights.set_xticks(range(30), [name.replace("mean ", "").replace("worst ", "").replace(" error", "")
                               for name in data.feature_names], rotation=90, fontsize=8)  # fmt: skip
for start, group in zip((0, 10, 20), ("mean", "standard error", "worst"), strict=True):
    weights.text(start + 4.5, -0.65, group, ha="center", va="bottom")
    weights.axvline(start - 0.5, color="black", linewidth=1)
weights.set_title("what each unit looks for", pad=22)

styles = {
    "scaled measurements": {"color": "0.35", "marker": "o"},
    "PCA, 8 components": {"color": "tab:green", "marker": "^", "linestyle": "--"},
    "k-means, 8 distances": {"color": "tab:blue", "marker": "v"},
    "EPLS, 8 units": {"color": "tab:red", "marker": "D"},
}
for shift, (name, style) in enumerate(styles.items()):
    values = np.array(list(scores[name].values()))
    places = np.array(LABELS_PER_CLASS) * 1.03 ** (shift - 1.5)
    curves.errorbar(places, values.mean(axis=1), values.std(axis=1), label=name, capsize=2, markersize=5, **style)
curves.set(xscale="log", xlabel="labelled samples of each class", ylabel="% correct (bar: standard deviation)")
curves.set_xticks(LABELS_PER_CLASS, LABELS_PER_CLASS)
curves.minorticks_off()
curves.grid(alpha=0.3)
curves.legend(loc="lower right")
curves.set_title("logistic regression on few labels")
plt.show()

# %%
# Some units respond to malignant samples, the others to benign ones, and each has its own meaning: one stands for a
# radius and a perimeter that vary much, one for high and one for low texture, and one for high smoothness. This is what
# EPLS is good for here. For classification, use the measurements.
