"""``epls cluster``: divide data into groups of equal or limited size."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from ..utils.wording import counted
from . import inputs, options


@click.command("cluster")
@click.argument("data", type=options.input_path)
@options.output("The .csv file to write.", ".csv")
@click.option("--clusters", type=click.IntRange(min=1), required=True, help="The number of groups.")
@click.option("--size-min", type=click.IntRange(min=0), help="The smallest size of a group.  [default: equal sizes]")
@click.option("--size-max", type=click.IntRange(min=1), help="The largest size of a group.  [default: equal sizes]")
@click.option("--n-init", type=click.IntRange(min=1), default=1, show_default=True,
              help="Runs with different starts; the best is kept.")  # fmt: skip
@click.option("--metric", type=click.Choice(["euclidean", "cosine"]), default="euclidean", show_default=True,
              help="cosine: only the directions of vectors or features count, as for embeddings.")  # fmt: skip
@inputs.sources
@options.vectors
@options.running
def command(
    data: Path, output: Path, clusters: int, threads: int | None, force: bool, as_json: bool, **chosen: Any
) -> None:  # fmt: skip
    """Divide DATA into groups whose sizes differ by at most one, or are within limits.

    DATA is anything that `epls fit` accepts. The .csv file has a line for each image or vector: its file name, or its
    number (from 0), and the number of its group.

    Images are grouped by features that are learned from them, those of `epls explore`: large images and images of
    different sizes are resized for this. For other features, give a --model that `epls fit` wrote.
    """
    from sklearn.preprocessing import StandardScaler

    from ..balanced.kmeans import BalancedKMeans
    from ..callbacks import report_epochs
    from ..datasets.writing import samples_table
    from ..utils.files import write_atomically

    options.check_output(output, force, data, chosen["model"], chosen["features"])
    with options.limited(threads), options.StageProgress() as progress:
        found = inputs.open_inputs(data, chosen, progress, for_page=True)
        found.check_distances()
        _check_sizes(len(found.data), found.kind, clusters, chosen["size_min"], chosen["size_max"])
        started = time.perf_counter()
        X = inputs.features_of(found, chosen, progress).rows
        # Cosines are of vectors as they are, unless the options say otherwise.
        if found.model is None and (chosen["scale"] if chosen["metric"] == "cosine" else found.scales(chosen)):
            X = StandardScaler().fit_transform(X)
        settings = {name: chosen[name] for name in ("size_min", "size_max", "metric", "n_init", "random_state")}
        groups = BalancedKMeans(clusters, **settings)
        report_epochs(groups, lambda done, total: progress("group", done, total))
        groups.fit(X)
        seconds = round(time.perf_counter() - started, 1)
    write_atomically(output, samples_table(found.names, found.key, group=groups.labels_.astype(str).tolist()))
    sizes = groups.counts_.astype(int)
    facts = {
        "file": str(output), "groups": clusters, "samples": len(X), "smallest": int(sizes.min()),
        "largest": int(sizes.max()), "inertia": groups.inertia_, "seconds": seconds, "skipped": found.n_skipped,
    }  # fmt: skip
    largest = f" to {sizes.max():,}" if sizes.max() > sizes.min() else ""
    text = (
        f"{counted(len(X), found.kind)} in {counted(clusters, 'groups')} of {sizes.min():,}{largest} in {seconds} s, "
        f"written to {output}"
    )
    options.print_result(as_json, facts, text)


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
