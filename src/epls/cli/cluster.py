"""``epls cluster``: divide data into groups of equal or limited size."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..utils.wording import counted
from . import options
from .progress import StageProgress

if TYPE_CHECKING:
    from ..datasets.opening import Opened, Vectors

_OF_IMAGES = ("n_components", "patch_size", "n_patches", "stride", "grid")


@click.command("cluster")
@click.argument("data", type=options.path_type)
@click.option("-o", "--output", type=options.path_type, required=True, help="The .csv file to write.")
@click.option("--clusters", type=click.IntRange(min=1), required=True, help="The number of groups.")
@click.option("--size-min", type=click.IntRange(min=0), help="The smallest size of a group.  [default: equal sizes]")
@click.option("--size-max", type=click.IntRange(min=1), help="The largest size of a group.  [default: equal sizes]")
@click.option("--n-init", type=click.IntRange(min=1), default=1, show_default=True,
              help="Runs with different starts; the best is kept.")  # fmt: skip
@click.option("--model", type=options.path_type, metavar="FILE",
              help="Group by the features of this model, which `epls fit` wrote.  [default: use vectors unchanged, "
              "learn features from images]")  # fmt: skip
@options.n_components(100, "Components to learn from images.")
@click.option("--patch-size", type=click.IntRange(min=1), default=10, show_default=True,
              help="Width and height of patches, in pixels.")  # fmt: skip
@options.n_patches(1, usual="100 for each component, at least 50,000")
@options.stride(2)
@options.grid
@options.longest_side
@options.image_folder
@options.vectors
@options.random_state
@options.threads
@options.force
@options.as_json
@click.pass_context
def command(
    context: click.Context, /, data: Path, output: Path, clusters: int, model: Path | None, key: str | None,
    threads: int | None, force: bool, as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Divide DATA into groups whose sizes differ by at most one, or are within limits.

    DATA is anything that `epls fit` accepts. The .csv file has a line for each image or vector: its file name, or its
    number (from 0), and the number of its group. Images are grouped by features that are learned from them.
    """
    from ..datasets.opening import Vectors
    from ..utils.files import write_atomically
    from .inputs import check_vectors, names_of

    if output.suffix.lower() != ".csv":
        raise click.UsageError(f"--output {output}: groups are written as CSV; choose a name that ends in .csv")
    options.check_output(output, force, data, *([] if model is None else [model]))
    with options.limited(threads), StageProgress() as progress:
        opened, loaded = _opened(data, model, key, chosen, progress)
        options.tell_skipped(opened)
        _refuse_others(context, data, isinstance(opened, Vectors), model)
        if loaded is None:
            options.tell_columns(opened)
            if isinstance(opened, Vectors):
                check_vectors(data, opened.X)
        what = "vectors" if isinstance(opened, Vectors) else "images"
        _check_sizes(len(opened), what, clusters, chosen["size_min"], chosen["size_max"])
        started = time.perf_counter()
        X = _features(opened, loaded, chosen, progress)
        groups = _groups(X, clusters, chosen, progress)
        seconds = round(time.perf_counter() - started, 1)
    write_atomically(output, _table(groups.labels_, names_of(opened, data, key)))
    sizes = groups.counts_.astype(int)
    facts: dict[str, Any] = {
        "groups": clusters,
        "samples": len(X),
        "smallest": int(sizes.min()),
        "largest": int(sizes.max()),
    }
    facts |= {"inertia": groups.inertia_, "seconds": seconds}
    if as_json:
        options.print_json({"file": str(output), **facts, "skipped": len(getattr(opened, "skipped", ()))})
    else:
        largest = f" to {sizes.max():,}" if sizes.max() > sizes.min() else ""
        options.tell(
            f"{counted(len(X), what)} in {counted(clusters, 'groups')} of {sizes.min():,}{largest} in "
            f"{seconds} s, written to {output}"
        )


def _opened(
    data: Path, model: Path | None, key: str | None, chosen: dict[str, Any], progress: StageProgress
) -> tuple[Opened, Any]:
    """Return the data, and the model that computes features, if one is given."""
    from ..datasets.opening import open_data
    from ..images.models import image_features, open_data_for
    from ..images.pooling import Geometry, smallest_side
    from ..persistence import load_with_notes

    folder = {name: chosen[name] for name in ("channels", "skip_bad")}
    with options.opening():
        if model is None:
            side = smallest_side([Geometry(chosen["patch_size"], chosen["stride"])], chosen["grid"])
            options.check_longest_side(data, chosen["longest_side"], side)
            more = {
                "longest_side": chosen["longest_side"],
                "columns": chosen["columns"] or None,
                "drop": chosen["drop"],
            }
            return open_data(data, smallest_side=side, key=key, progress=progress, **folder, **more), None
        loaded, notes = load_with_notes(model)
        if not hasattr(loaded, "transform"):
            raise click.ClickException(
                f"{model} holds a clustering, which has no features: give a model that `epls fit` wrote"
            )
        features = image_features(loaded)
        side = 1 if features is None else features.smallest_side()
        return open_data_for(loaded, notes, data, smallest_side=side, key=key, progress=progress, **folder), loaded


def _refuse_others(context: click.Context, data: Path, vectors: bool, model: Path | None) -> None:
    """Refuse options that do not apply to these data."""
    names = {
        **{name: f"is for images, but {data} holds vectors: leave it out" for name in _OF_IMAGES if vectors},
        **({} if vectors else {"scale": f"is for vectors, but {data} holds images: leave it out"}),
    }
    if model is not None:
        names |= dict.fromkeys(
            (*_OF_IMAGES, "longest_side", "scale", "columns", "drop"), "is set by the model: leave it out"
        )
    options.refuse(context, names)


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


def _features(opened: Opened, model: Any, chosen: dict[str, Any], progress: StageProgress) -> Any:
    """Return what to group by: a row for each image or vector."""
    from ..callbacks import OnEpoch
    from ..datasets.opening import Vectors
    from ..images.features import ImageFeatures
    from ..images.models import feature_rows
    from ..learners.epls import EPLS

    if model is None and isinstance(opened, Vectors):
        return _vectors(opened, chosen["scale"])
    if model is None:
        learner = EPLS(chosen["n_components"], random_state=chosen["random_state"])
        learner.set_callbacks(OnEpoch(lambda done, total: progress("learn", done, total)))
        parameters = {key: chosen[key] for key in ("patch_size", "n_patches", "stride", "grid", "random_state")}
        model = ImageFeatures(learner, **parameters).fit(opened)
    return feature_rows(model, opened, progress)


def _vectors(vectors: Vectors, scale: bool | None) -> Any:
    """Return all vectors in memory."""
    from sklearn.preprocessing import StandardScaler

    from ..data.blocks import as_blocks
    from ..data.samples import BlockSamples

    blocks = as_blocks(vectors.X)
    X = vectors.X if blocks is None else BlockSamples(blocks).array()
    scale = vectors.names is not None if scale is None else scale
    return StandardScaler().fit_transform(X) if scale else X


def _groups(X: Any, n_clusters: int, chosen: dict[str, Any], progress: StageProgress) -> Any:
    from ..balanced.kmeans import BalancedKMeans
    from ..callbacks import OnEpoch

    parameters = {key: chosen[key] for key in ("size_min", "size_max", "n_init", "random_state")}
    groups = BalancedKMeans(n_clusters, **parameters)
    groups.set_callbacks(OnEpoch(lambda done, total: progress("group", done, total)))
    return groups.fit(X)


def _table(labels: Any, names: Sequence[str] | None) -> bytes:
    """Return a line for each sample: its name or its number, and its group."""
    from ..datasets.writing import csv_name

    firsts = map(str, range(len(labels))) if names is None else map(csv_name, names)
    lines = [f"{first},{group}" for first, group in zip(firsts, labels.tolist(), strict=True)]
    return "\n".join(["row,group" if names is None else "file,group", *lines, ""]).encode("utf-8", "surrogateescape")
