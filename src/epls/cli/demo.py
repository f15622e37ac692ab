"""``epls demo`` (`make demo`): filters of photographs, digits with few labels, and a page to explore them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_sample_images
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import StratifiedShuffleSplit

from epls import EPLS
from epls.evaluation.summary import layer_summary
from epls.images.recipes import quick_features
from epls.metrics import noise_filters
from epls.report import Learned, explore, model_page
from epls.utils.files import write_atomically

from . import options

_LABELS_PER_CLASS = 10
_LEARNED = """\
  {filters} filters from {patches:,} patches of {size} x {size} pixels in {seconds} s
  error {first error:.2f} -> {last error:.3f} in {epochs} epochs
  wins of any two units differ by at most {win spread}
  never active units: {never active units}, noise filters: {noise filters}
  population sparsity {population sparsity:.2f}, lifetime sparsity {lifetime sparsity:.2f} (1 means one unit per \
sample, or one sample per unit)"""


def learn_filters(output: Path, seed: int, *, quick: bool) -> dict[str, float]:
    """Learn from patches of scikit-learn's two photographs; draw the filters and write a page about them."""
    photographs = load_sample_images().images
    features: Any = quick_features(len(photographs), *photographs[0].shape[:2], layers=1, random_state=seed)
    if quick:
        features.set_params(n_patches=3_000, estimator=EPLS(36))
    n_patches, n_components, size = features.n_patches, features.estimator.n_components, features.patch_size
    started = time.perf_counter()
    features.fit(photographs)
    seconds = time.perf_counter() - started
    model, patches = features.estimator_, features.draw_patches(photographs, n_patches, random_state=seed)
    codes, winners = model.transform(patches), model.winners(patches)
    options.write_filters(features, output / "filters.png")
    page = model_page(features, photographs, title="Filters of two photographs")
    write_atomically(output / "report.html", page.encode())
    return {
        "filters": n_components,
        "patches": n_patches,
        "size": size,
        "seconds": round(seconds, 1),
        "first error": model.loss_curve_[0],
        "last error": model.loss_curve_[-1],
        "win spread": int(np.ptp(np.bincount(winners, minlength=n_components))),
        "noise filters": len(noise_filters(model.components_, patches)),
        **layer_summary([model], n_components, codes),
    }


def classify_digits(n_components: int, n_splits: int, seed: int = 0) -> dict[str, NDArray[np.floating]]:
    """Percent of digits classified correctly with few labels, for each kind of features and each split."""
    X, y = load_digits(return_X_y=True)
    kinds = {
        "raw pixels": X,
        f"PCA, {n_components} components": PCA(n_components, random_state=seed).fit_transform(X),
        f"EPLS, {n_components} components": EPLS(n_components, random_state=seed).fit_transform(X),
    }
    splits = StratifiedShuffleSplit(n_splits, train_size=_LABELS_PER_CLASS * 10, random_state=seed)
    scores: dict[str, list[float]] = {name: [] for name in kinds}
    for train, test in splits.split(X, y):
        for name, features in kinds.items():
            # The same classifier for all, its penalty chosen by leave-one-out, relative to the scale of the features.
            penalties = np.logspace(-3, 3, 13) * features.var(axis=0).sum()
            classifier = RidgeClassifierCV(alphas=penalties).fit(features[train], y[train])
            scores[name].append(100 * classifier.score(features[test], y[test]))
    return {name: np.array(values) for name, values in scores.items()}


def explore_digits(output: Path, n_digits: int, seed: int) -> None:
    """Write a page to look through some digits, without their labels."""
    images = load_digits().images[:n_digits]
    features = Learned(mirror=False)  # mirrored digits are not digits
    page = explore(images, features=features, title="Handwritten digits", random_state=seed)
    write_atomically(output / "explore.html", page.encode())


@click.command("demo")
@click.option("--output", type=click.Path(path_type=Path), default=Path("demo_output"), show_default=True,
              help="Folder for the picture and the pages.")  # fmt: skip
@click.option("--quick", is_flag=True, help="Use small sizes, to check that everything runs.")
@options.random_state
@options.threads
@options.as_json
def command(output: Path, quick: bool, random_state: int, threads: int | None, as_json: bool) -> None:
    """Learn filters from two photographs, classify digits with ten labels per class, and write a page of digits."""
    output.mkdir(parents=True, exist_ok=True)
    tell = (lambda text: None) if as_json else options.tell
    with options.limited(threads):
        tell("1. Filters, without labels, from the two photographs that come with scikit-learn")
        filters = learn_filters(output, random_state, quick=quick)
        tell(_LEARNED.format(**filters))
        n_components, n_splits = (20, 3) if quick else (50, 20)
        tell(f"\n2. Digits: features learned without labels, then {_LABELS_PER_CLASS} labels per class")
        tell(f"  {'features':24} {'% correct (std)':>15}   over {n_splits} splits")
        digits = classify_digits(n_components, n_splits, random_state)
        for name, scores in digits.items():
            tell(f"  {name:24} {f'{scores.mean():.1f} ({scores.std():.1f})':>15}")
        n_digits = 200 if quick else 1797
        tell(f"\n3. A page to look through {n_digits:,} digits: a map, groups, neighbours, outliers")
        explore_digits(output, n_digits, random_state)
    files = [str(output / name) for name in ("filters.png", "report.html", "explore.html")]
    means = {name: float(scores.mean()) for name, scores in digits.items()}
    text = f"\nPicture: {files[0]}\nPages to open in a browser: {files[1]}, {files[2]}"
    options.print_result(as_json, {"filters": filters, "digits": means, "files": files}, text)
