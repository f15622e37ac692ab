"""``epls compare`` on vectors: learners beside PCA and the unchanged columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..learners import LEARNERS
from . import options
from .progress import StageProgress

if TYPE_CHECKING:
    from ..evaluation.comparing import Comparison

#: Options that do not apply to vectors.
_OF_IMAGES = (
    "encoders", "split_sign", "whiten", "n_patches", "patch_size", "stride", "grid", "mirror", "layers", "pooling",
    "channels", "skip_bad",
)  # fmt: skip
_FILES = ("compare.json", "compare.png")


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

    for name in _OF_IMAGES:
        if context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
            option = next(p.opts[0] for p in context.command.params if p.name == name)
            raise click.UsageError(f"{option} is for images, but {data} holds vectors: leave it out")
    names = [*learners, *own]
    given = options.settings_of(settings, names, f"LEARNER.NAME=VALUE, LEARNER being one of {', '.join(names)}")
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
    files = write_result(
        result, {"data": str(data), "vectors": len(vectors), "labels for each class": n_labels}, output
    )
    print_result(result, files, json.loads((output / _FILES[0]).read_text()) if as_json else None)


def check_new(output: Path, force: bool) -> None:
    """Refuse an output folder that has a comparison, unless it may be overwritten."""
    options.check_output_folder(output, *_FILES)
    if (output / _FILES[0]).exists() and not force:
        raise click.ClickException(
            f"{output / _FILES[0]} already exists: give another --output, or --force to overwrite it"
        )


def print_result(result: Comparison, files: list[str], as_json: Any) -> None:
    """Print the table, or the given values as JSON. Fail if all learners failed."""
    if as_json is not None:
        options.print_json(as_json)
    else:
        options.tell(repr(result))
        options.tell("\n".join(files))
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
    found: dict[str, Any] = {"raw columns": LEARNERS["raw"](), f"pca, {n_pca}": PCA(n_pca)}
    for name, learner in ({name: LEARNERS[name]() for name in names if name != "raw"} | own).items():
        title = ", ".join([name, *(f"{key}={value}" for key, value in given[name].items())])
        found[title] = with_components(learner, given[name], name, n_components)
    return found


def with_components(learner: Any, settings: dict[str, Any], name: str, n_components: int) -> Any:
    """Return a learner with these settings and, if it can be chosen, this number of components."""
    from ..evaluation.experiment import with_settings

    can_choose = "n_components" in learner.get_params() and not getattr(learner, "complete", False)
    return with_settings(learner, ({"n_components": n_components} if can_choose else {}) | settings, name)


def write_result(result: Comparison, facts: dict[str, Any], output: Path) -> list[str]:
    """Write the table and, if matplotlib is installed, a chart; return the file names."""
    from ..utils.files import write_atomically

    output.mkdir(parents=True, exist_ok=True)
    rows = [asdict(row) | ({"accuracy": None, "std": None} if row.failed is not None else {}) for row in result]
    content = json.dumps(facts | {"entries": rows}, indent=1, allow_nan=False)
    write_atomically(output / _FILES[0], content.encode())
    done = [row for row in result if row.failed is None]
    files = [str(output / _FILES[0])]
    try:
        from ..plotting import plot_comparison

        axes = plot_comparison([r.name for r in done], [r.accuracy for r in done], [r.std for r in done])
    except ImportError as error:
        options.tell(f"no {_FILES[1]}: {error}", err=True)
        return files
    write_atomically(output / _FILES[1], options.png_of(axes.get_figure(root=True), dpi=150))
    return [*files, str(output / _FILES[1])]
