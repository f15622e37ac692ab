"""Draws the figures of how_it_works.md. Sphinx runs it; by hand: python docs/figures.py FOLDER"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits, load_sample_images

from epls import EPLS
from epls.algorithm.target import AuctionTarget, ExactTarget, LiteralTarget
from epls.images.patches import normalize_patches, sample_patches
from epls.plotting import filter_grid

STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "savefig.dpi": 160,
}
BEFORE, AFTER = "0.6", "tab:orange"


def some_outputs():
    """Outputs of 6 units for 12 samples. The first units respond to most of them, as happens without balance."""
    random = np.random.default_rng(4)
    return expit(random.normal([0.9, 0.6, 0.0, -0.3, -0.6, -1.2], 1.1, size=(12, 6)))


def matrix(panel, values, title, winners=None, **settings):
    """A matrix of samples x units in shades, the winner of each row in a frame."""
    panel.imshow(values, **{"cmap": "Blues", "vmin": 0, "vmax": 1, "aspect": "auto"} | settings)
    panel.set(title=title, xticks=range(values.shape[1]), yticks=[], xlabel="unit")
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)
    if winners is not None:
        for row, unit in enumerate(winners):
            box = plt.Rectangle((unit - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor="tab:orange", lw=2)
            panel.add_patch(box)


def wins_under(panel, winners):
    """How often each unit won, under its column."""
    panel.set_xticks(range(6), np.bincount(winners, minlength=6))
    panel.set_xlabel("wins of each unit")


def draw_target():
    """The outputs, what is largest in each row, and the nearest balanced target."""
    outputs = some_outputs()
    largest, balanced = outputs.argmax(axis=1), ExactTarget(6).assign(outputs)
    figure, panels = plt.subplots(1, 3, figsize=(8, 3.8))
    matrix(panels[0], outputs, "outputs: 12 samples, 6 units")
    panels[0].set_ylabel("sample")
    for panel, winners, title in (
        (panels[1], largest, "the largest of each row"),
        (panels[2], balanced, "the target"),
    ):
        matrix(panel, outputs, title, winners)
        wins_under(panel, winners)
    return figure


def draw_inhibitor():
    """The paper's rule row by row: the outputs, less an inhibitor that grows with every win."""
    outputs = some_outputs()
    target = LiteralTarget(6)
    target.start_epoch(len(outputs))
    held_back, winners = np.empty_like(outputs), np.empty(len(outputs), np.intp)
    for row in range(len(outputs)):
        held_back[row] = target.inhibitor
        winners[row] = target.assign(outputs[row : row + 1])[0]
    figure, panels = plt.subplots(1, 3, figsize=(8, 3.8))
    matrix(panels[0], outputs, "outputs")
    panels[0].set_ylabel("sample, in the order of the rule")
    matrix(panels[1], held_back, "inhibitor at that moment", cmap="Purples")
    matrix(panels[2], outputs - held_back, "outputs less inhibitor", winners, vmin=-1)
    wins_under(panels[2], winners)
    return figure


def draw_wins():
    """How often each unit wins after the loop of how_it_works.md: the largest output as the target, or the balanced."""
    X = load_digits().data
    X = (X - X.mean(axis=0)) / np.sqrt(X.var(axis=0).mean())
    rules = {
        "largest output wins": lambda outputs: outputs.argmax(axis=1),
        "balanced target": lambda outputs: AuctionTarget(50).assign(outputs),
    }
    figure, panels = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
    for panel, colour, (name, assign) in zip(panels, (BEFORE, AFTER), rules.items(), strict=True):
        outputs = outputs_of_plain_loop(X, assign, n_units=50)
        wins = np.sort(np.bincount(assign(outputs), minlength=50))[::-1]
        panel.bar(range(50), wins, color=colour)
        n_dead = int(np.sum(outputs.max(axis=0) < 0.1))
        panel.set(title=f"{name}: {n_dead} of 50 units never active", xlabel="unit, by wins")
        panel.axhline(len(X) / 50, color="black", lw=0.8, ls="--")
    panels[0].set_ylabel("wins among 1,797 digits")
    panels[0].annotate("an equal share", (49, len(X) / 50), (0, 4), textcoords="offset points", ha="right")
    return figure


def outputs_of_plain_loop(X, assign, n_units):
    """The loop of how_it_works.md."""
    random = np.random.default_rng(0)
    weights, biases = random.normal(scale=0.1, size=(n_units, X.shape[1])), np.zeros(n_units)
    for _ in range(20):
        for rows in np.array_split(random.permutation(len(X)), len(X) // n_units):
            outputs = expit(X[rows] @ weights.T + biases)
            difference = outputs - np.eye(n_units)[assign(outputs)]
            weights -= 0.3 * difference.T @ X[rows] / len(rows)
            biases -= 0.3 * difference.mean(axis=0)
    return expit(X @ weights.T + biases)


class Keep:
    """Keeps the model as it is after each epoch."""

    def __init__(self):
        self.models = []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name == "epoch":
            self.models.append(fitted_estimator)


def models_by_epoch(n_units=64):
    """Patches of photographs, and a model for each epoch on them."""
    images = load_sample_images().images
    patches = normalize_patches(sample_patches(images, 20_000, 8, random_state=0))
    keep = Keep()
    EPLS(n_units, max_iter=32, random_state=0).set_callbacks(keep).fit(patches)
    return patches, keep.models


def draw_path(patches, models):
    """From dense to sparse: the mean output of each unit, and the distribution of outputs, over the epochs."""
    n_units, epochs = len(models[0].components_), np.arange(1, len(models) + 1)
    means = np.array([model.transform(patches).mean(axis=0) for model in models])
    figure, panels = plt.subplots(1, 2, figsize=(8, 2.9))
    panels[0].plot(epochs, means, color=BEFORE, lw=0.4, alpha=0.6)
    panels[0].plot(epochs, means.mean(axis=1), color=AFTER, lw=2)
    panels[0].axhline(1 / n_units, color="black", lw=0.8, ls="--")
    panels[0].annotate(f"1 / {n_units}", (epochs[-1], 1 / n_units), (0, 4), textcoords="offset points", ha="right")
    panels[0].set(title="mean output of each unit", xlabel="epoch", yscale="log", ylim=(0.002, 1))
    panels[0].set_xticks([1, 8, 16, 24, 32])
    chosen = {1: "0.75", 4: "tab:blue", 32: AFTER}
    for epoch, colour in chosen.items():
        outputs = models[epoch - 1].transform(patches).ravel()
        shares = np.histogram(outputs, bins=20, range=(0, 1))[0] / len(outputs)
        panels[1].stairs(shares, np.linspace(0, 1, 21), baseline=None, color=colour, lw=2, label=f"epoch {epoch}")
    panels[1].set(title="all outputs", xlabel="output", ylabel="share", yscale="log")
    panels[1].legend(frameon=False)
    return figure


def draw_filters(models):
    """The filters over the epochs."""
    chosen = [1, 2, 4, 8, 32]
    figure, panels = plt.subplots(1, len(chosen), figsize=(8, 1.9))
    for panel, epoch in zip(panels, chosen, strict=True):
        panel.imshow(filter_grid(models[epoch - 1].components_[:36], (8, 8, 3), n_filters=None))
        panel.set(title=f"epoch {epoch}")
        panel.set_axis_off()
    return figure


def draw_all(folder):
    """Draw all figures to a folder, as PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        patches, models = models_by_epoch()
        figures = {
            "target": draw_target(),
            "inhibitor": draw_inhibitor(),
            "wins": draw_wins(),
            "path": draw_path(patches, models),
            "filters": draw_filters(models),
        }
        for name, figure in figures.items():
            figure.savefig(folder / f"{name}.png")
            plt.close(figure)


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]))
