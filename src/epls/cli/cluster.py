"""``epls cluster``: divide data into groups of equal or limited size."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from ..utils.wording import counted
from . import inputs, options


@click.command("cluster")
@click.argument("data", type=options.path_type)
@click.option("-o", "--output", type=options.path_type, required=True, help="The .csv file to write.")
@click.option("--clusters", type=click.IntRange(min=1), required=True, help="The number of groups.")
@click.option("--size-min", type=click.IntRange(min=0), help="The smallest size of a group.  [default: equal sizes]")
@click.option("--size-max", type=click.IntRange(min=1), help="The largest size of a group.  [default: equal sizes]")
@click.option("--n-init", type=click.IntRange(min=1), default=1, show_default=True,
              help="Runs with different starts; the best is kept.")  # fmt: skip
@options.model
@options.n_components(None, "Components to learn from images.  [default: up to 400]")
@options.recipe
@options.patches
@options.longest_side
@options.image_folder
@options.vectors
@options.random_state
@options.threads
@options.force
@options.as_json
def command(
    data: Path, output: Path, clusters: int, model: Path | None, threads: int | None, force: bool, as_json: bool,
    **chosen: Any,
) -> None:  # fmt: skip
    """Divide DATA into groups whose sizes differ by at most one, or are within limits.

    DATA is anything that `epls fit` accepts. The .csv file has a line for each image or vector: its file name, or its
    number (from 0), and the number of its group.

    Images are grouped by features that are learned from them, those of `epls explore`: large images and images of
    different sizes are resized for this. Options such as --n-components, --patch-size and --stride replace what
    follows from the number and the size of the images, and learn one layer.
    """
    from ..images.models import feature_rows
    from ..utils.files import write_atomically

    if output.suffix.lower() != ".csv":
        raise click.UsageError(f"--output {output}: groups are written as CSV; choose a name that ends in .csv")
    options.check_output(output, force, data, *([] if model is None else [model]))
    with options.limited(threads), options.StageProgress() as progress:
        found = inputs.open_inputs(data, chosen | {"model": model}, progress, not_of_vectors=("n_components",))
        found.check_distances()
        _check_sizes(len(found.data), found.kind, clusters, chosen["size_min"], chosen["size_max"])
        started = time.perf_counter()
        if model is not None:
            X = feature_rows(found.model, found.data, progress)
        elif found.vectors is None:
            X = _features(found, chosen, progress)
        else:
            X = _vectors(found, chosen["scale"])
        groups = _groups(X, clusters, chosen, progress)
        seconds = round(time.perf_counter() - started, 1)
    write_atomically(output, _table(groups.labels_, found))
    sizes = groups.counts_.astype(int)
    facts = {
        "groups": clusters, "samples": len(X), "smallest": int(sizes.min()), "largest": int(sizes.max()),
        "inertia": groups.inertia_, "seconds": seconds,
    }  # fmt: skip
    if as_json:
        options.print_json({"file": str(output), **facts, "skipped": found.n_skipped})
    else:
        largest = f" to {sizes.max():,}" if sizes.max() > sizes.min() else ""
        options.tell(
            f"{counted(len(X), found.kind)} in {counted(clusters, 'groups')} of {sizes.min():,}{largest} in "
            f"{seconds} s, written to {output}"
        )


def _check_sizes(n_samples: int, what: str, clusters: int, size_min: int | None, size_max: int | None) -> None:
    """Refuse sizes that no groups can have, before features are learned."""
    there_are = f"there {'is' if n_samples == 1 else 'are'} {counted(n_samples, what)}"
    if clusters > n_samples:
        raise click.ClickException(
            f"--clusters {clusters} is more than the {counted(n_samples, what)}: choose fewer groups"
        )
    if size_min is not None and size_max is not None and size_min > size_max:
        raise click.ClickException(f"--size-min {size_min} is above --size-max {size_max}: choose a smaller --size-min")
    groups = counted(clusters, "groups")
    if size_min is not None and size_min * clusters > n_samples:
        raise click.ClickException(
            f"--size-min {size_min} requires {size_min * clusters:,} {what} in {groups}, but {there_are}: choose a "
            f"--size-min of at most {n_samples // clusters}, or fewer groups"
        )
    if size_max is not None and size_max * clusters < n_samples:
        raise click.ClickException(
            f"--size-max {size_max} leaves room for {size_max * clusters:,} {what} in {groups}, but {there_are}: "
            f"choose a --size-max of at least {-(-n_samples // clusters)}, or more groups"
        )


def _features(found: inputs.Inputs, chosen: dict[str, Any], progress: options.StageProgress) -> Any:
    """Learn features from images, all resized to one size if they have several, and return a row for each."""
    from ..images.models import feature_rows
    from ..images.reading import ImageCollection
    from ..images.recipes import of_one_size

    images = of_one_size(ImageCollection(found.data, 1), progress)  # type: ignore[arg-type]
    model = inputs.image_model(images, chosen)
    inputs.show_learning(model, progress)
    return feature_rows(model.fit(images), images, progress)


def _vectors(found: inputs.Inputs, scale: bool | None) -> Any:
    from sklearn.preprocessing import StandardScaler

    scale = found.columns is not None if scale is None else scale
    return StandardScaler().fit_transform(found.in_memory()) if scale else found.in_memory()


def _groups(X: Any, n_clusters: int, chosen: dict[str, Any], progress: options.StageProgress) -> Any:
    from ..balanced.kmeans import BalancedKMeans
    from ..callbacks import OnEpoch

    parameters = {key: chosen[key] for key in ("size_min", "size_max", "n_init", "random_state")}
    groups = BalancedKMeans(n_clusters, **parameters)
    groups.set_callbacks(OnEpoch(lambda done, total: progress("group", done, total)))
    return groups.fit(X)


def _table(labels: Any, found: inputs.Inputs) -> bytes:
    """Return a line for each sample: its name or its number, and its group."""
    from ..datasets.writing import csv_name

    firsts = found.sample_names if found.names is None else map(csv_name, found.names)
    lines = [f"{first},{group}" for first, group in zip(firsts, labels.tolist(), strict=True)]
    return "\n".join([f"{found.name_column},group", *lines, ""]).encode("utf-8", "surrogateescape")
