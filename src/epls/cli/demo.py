"""``epls demo``, which `make demo` runs: filters from two photographs, then digits with ten labels per class."""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_sample_images
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import StratifiedShuffleSplit

from epls import EPLS
from epls.images.patches import normalize_patches, sample_patches
from epls.metrics import dead_outputs, lifetime_sparsity, noise_filters, population_sparsity, win_spread
from epls.plotting import plot_filters, plot_loss_curve, plot_wins

_PATCH = 10
_LABELS_PER_CLASS = 10


def learn_filters(output: Path, n_patches: int, n_components: int) -> None:
    """Learn from patches of scikit-learn's two photographs; draw the filters, the loss curve and the wins."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    patches = normalize_patches(sample_patches(load_sample_images().images, n_patches, _PATCH, random_state=0))
    started = time.perf_counter()
    model = EPLS(n_components, random_state=0).fit(patches)
    seconds = time.perf_counter() - started
    codes, winners = model.transform(patches), model.winners(patches)
    click.echo(f"  {n_components} filters from {n_patches:,} patches of {_PATCH} x {_PATCH} pixels in {seconds:.1f} s")
    click.echo(f"  error {model.loss_curve_[0]:.2f} -> {model.loss_curve_[-1]:.3f} in {model.n_epochs_} epochs")
    click.echo(f"  wins of any two units differ by at most {win_spread(winners, n_components)}")
    click.echo(
        f"  dead outputs: {len(dead_outputs(codes))}, noise filters: {len(noise_filters(model.components_, patches))}"
    )
    click.echo(
        f"  population sparsity {population_sparsity(codes).mean():.2f}, lifetime sparsity "
        f"{lifetime_sparsity(codes).mean():.2f} (1: a single unit, a single sample)"
    )
    figure, axes = plt.subplots(1, 3, figsize=(15, 5), layout="constrained")
    plot_filters(model.components_, (_PATCH, _PATCH, 3), ax=axes[0]).set_title("100 of the filters")
    plot_loss_curve(model.loss_curve_, ax=axes[1]).set_title("training")
    plot_wins(winners, n_components, ax=axes[2]).set_title("wins per unit")
    figure.savefig(output / "training.png", dpi=110)
    figure, only = plt.subplots(figsize=(6, 6), layout="constrained")
    plot_filters(model.components_, (_PATCH, _PATCH, 3), ax=only)
    figure.savefig(output / "filters.png", dpi=150)
    plt.close("all")


def classify_digits(n_components: int, n_splits: int) -> dict[str, NDArray[np.floating]]:
    """Percent of digits told right with few labels, for each kind of features and each split."""
    X, y = load_digits(return_X_y=True)
    kinds = {
        "raw pixels": X,
        f"PCA, {n_components} components": PCA(n_components, random_state=0).fit_transform(X),
        f"EPLS, {n_components} components": EPLS(n_components, random_state=0).fit_transform(X),
    }
    splits = StratifiedShuffleSplit(n_splits, train_size=_LABELS_PER_CLASS * 10, random_state=0)
    scores: dict[str, list[float]] = {name: [] for name in kinds}
    for train, test in splits.split(X, y):
        for name, features in kinds.items():
            # The same classifier for all, its penalty by leave-one-out, on a scale that does not depend on the units.
            penalties = np.logspace(-3, 3, 13) * features.var(axis=0).sum()
            classifier = RidgeClassifierCV(alphas=penalties).fit(features[train], y[train])
            scores[name].append(100 * classifier.score(features[test], y[test]))
    return {name: np.array(values) for name, values in scores.items()}


@click.command("demo")
@click.option("--output", type=click.Path(path_type=Path), default=Path("demo_output"), show_default=True,
              help="Folder for the pictures.")  # fmt: skip
@click.option("--quick", is_flag=True, help="Small sizes, to see that it runs.")
def command(output: Path, quick: bool) -> None:
    """Learn filters from two photographs, then tell digits apart with ten labels per class."""
    output.mkdir(parents=True, exist_ok=True)
    click.echo("1. Filters, without labels, from the two photographs that come with scikit-learn")
    learn_filters(output, *((3_000, 36) if quick else (50_000, 256)))
    n_components, n_splits = (20, 3) if quick else (50, 20)
    click.echo(f"\n2. Digits: features learned without labels, then {_LABELS_PER_CLASS} labels per class")
    click.echo(f"  {'features':24} {'% right (std)':>15}   over {n_splits} splits")
    for name, scores in classify_digits(n_components, n_splits).items():
        click.echo(f"  {name:24} {f'{scores.mean():.1f} ({scores.std():.1f})':>15}")
    click.echo(f"\nPictures: {output / 'filters.png'}, {output / 'training.png'}")
