"""``epls compare`` on vectors: learners beside PCA and the unchanged columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..learners import LEARNERS
from . import options
from .compare_files import CHART, FILES, TABLE, chart, write_files
from .options import StageProgress

if TYPE_CHECKING:
    from ..evaluation.comparing import Comparison

#: Options that do not apply to vectors.
_OF_IMAGES = (
    "encoders", "split_sign", "whiten", "n_patches", "patch_size", "stride", "grid", "mirror", "layers", "pooling",
    "channels", "skip_bad",
)  # fmt: skip


def compare_vectors(
    context: click.Context, data: Path, learners: Sequence[str], own: dict[str, Any], settings: tuple[str, ...],
    output: Path, *, labels: str | None, n_labels: int | None, scale: bool | None, columns: tuple[str, ...],
    drop: tuple[str, ...], key: str | None, n_components: int, n_folds: int, random_state: int, threads: int | None,
    force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compare, print, and write the table and a chart."""
    import numpy as np

    from ..evaluation.comparing import compare
    from ..evaluation.labelled_vectors import load_labelled_vectors

    options.refuse(context, dict.fromkeys(_OF_IMAGES, f"is for images, but {data} holds vectors: leave it out"))
    names = [*learners, *own]
    given = learner_settings(settings, names)
    check_new(output, force)
    with options.limited(threads), StageProgress() as progress:
        with options.opening():
            vectors, found = load_labelled_vectors(data, labels, key=key, columns=columns or None, drop=drop)
        options.tell_columns(vectors)
        X = np.asarray(vectors.X)
        scale = vectors.names is not None if scale is None else scale
        result = compare(
            _scaled(X) if scale else X, found, _learners(learners, own, given, X.shape, n_components),
            n_labels=n_labels, n_folds=n_folds, random_state=random_state, progress=progress,
        )  # fmt: skip
    facts = {"data": str(data), "vectors": len(vectors), "labels for each class": n_labels}
    write_and_print(result, facts, output, as_json)


def learner_settings(assignments: tuple[str, ...], learners: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parse LEARNER.NAME=VALUE into the settings of each learner."""
    form = f"LEARNER.NAME=VALUE, LEARNER being one of {', '.join(learners)}"
    given = options.settings_of(assignments, list(learners), form)
    for learner, settings in given.items():
        if "" in settings:
            raise click.UsageError(f"--set {learner}.={settings['']}: write it as {form}")
    return given


def check_new(output: Path, force: bool) -> None:
    """Refuse an output folder that has a comparison, unless it may be overwritten."""
    options.check_output_folder(output, *FILES)
    if (output / TABLE).exists() and not force:
        raise click.ClickException(
            f"{output / TABLE} already exists: give another --output, or --force to overwrite it"
        )


def write_and_print(result: Comparison, facts: dict[str, Any], output: Path, as_json: bool) -> None:
    """Write the table and a chart, and print the table, even if writing fails. Fail if all learners failed."""
    rows = [asdict(row) | ({"accuracy": None, "std": None} if row.failed is not None else {}) for row in result]
    report = facts | {"entries": rows}
    files: list[str] = []
    try:
        table = json.dumps(report, indent=1, allow_nan=False).encode()
        files = write_files(output, table, {CHART: partial(chart, result)})
    finally:
        if as_json:
            options.print_json(report)
        else:
            options.tell("\n".join([repr(result), *files]))
    if all(row.failed is not None for row in result):
        raise click.ClickException("all learners failed: the reasons are in the table above")


def _scaled(X: Any) -> Any:
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit_transform(X)


def _learners(
    names: Sequence[str], own: dict[str, Any], given: dict[str, dict[str, Any]], shape: tuple[int, int],
    n_components: int,
) -> dict[str, Any]:  # fmt: skip
    """Return the learners by name. Unchanged columns and PCA are always among them, since many tables need no more."""
    from sklearn.decomposition import PCA

    n_pca = min(n_components, *shape)
    raw = with_components(LEARNERS["raw"](), given["raw"] if "raw" in names else {}, "raw", n_components)
    found: dict[str, Any] = {"raw columns": raw, f"pca, {n_pca}": PCA(n_pca)}
    for name, learner in ({name: LEARNERS[name]() for name in names if name != "raw"} | own).items():
        title = ", ".join([name, *(f"{key}={value}" for key, value in given[name].items())])
        found[title] = with_components(learner, given[name], name, n_components)
    return found


def with_components(learner: Any, settings: dict[str, Any], name: str, n_components: int) -> Any:
    """Return a learner with these settings and, if it can be chosen, this number of components."""
    from ..utils.settings import with_settings

    can_choose = "n_components" in learner.get_params() and not getattr(learner, "complete", False)
    return with_settings(learner, ({"n_components": n_components} if can_choose else {}) | settings, name)
