"""``epls compare``: accuracy and cost of learners on one's own images or vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..learners import LEARNERS
from . import options
from .compare_files import CHART, FILES, PAGE, TABLE, chart, write_files
from .options import StageProgress
from .own_learners import LearnerType, load_own

if TYPE_CHECKING:
    from ..evaluation.comparison import Entry
    from ..evaluation.experiment import Settings
    from ..images.features import ImageFeatures


@click.command("compare")
@click.argument("data", type=options.path_type)
@click.option("--learner", "learners", type=LearnerType(list(LEARNERS)), multiple=True, metavar="NAME",
              default=("epls", "kmeans", "omp", "random_patches", "raw"), show_default=True,
              help=f"One of {', '.join(LEARNERS)}; or a class of your own, as MODULE:CLASS or FILE.py:CLASS, whose "
              "code is run. May be given several times.")  # fmt: skip
@click.option("--all", "all_learners", is_flag=True, help="Compare all learners of the library.")
@click.option("--encoder", "encoders", type=options.encoder_choice, multiple=True,
              help="Encoder to compare; may be given several times.  [default: each learner's own]")  # fmt: skip
@options.split_sign
@options.settings("LEARNER.NAME=VALUE", "A setting of a learner, such as omp.n_nonzero_coefs=5.")
@click.option("--whiten", type=click.Choice(["auto", "yes", "no"]), default="auto", show_default=True,
              help="Whiten the patches (ZCA); auto: if the learner needs it.")  # fmt: skip
@options.n_components(None, "Components to learn.  [default: 400 for images, 100 for vectors]")
@options.n_patches(2, default=100_000)
@click.option("--patch-size", type=click.IntRange(min=1), default=10, show_default=True,
              help="Width and height of patches, in pixels.")  # fmt: skip
@options.stride(2)
@options.grid
@options.mirror
@options.layers
@options.pooling("log")
@options.n_folds(5, "Folds of cross-validation, or how many of STL-10's folds to use.")
@click.option("--output", type=options.path_type, default=Path("epls-compare"), show_default=True,
              help="Folder for the table, the chart and cached results.")  # fmt: skip
@options.image_folder
@click.option("--labels", metavar="COLUMN|FILE",
              help="The labels of vectors: a column of the table, or a .npy, .csv or .parquet file. A column row in it "
              "says which vector each label belongs to, counted from 0.  [default: the column named label, "
              "class, target or y; in a .npz file, the array labels or y]")  # fmt: skip
@click.option("--n-labels", type=click.IntRange(min=2),
              help="Labelled vectors of each class to train the classifier on.  [default: all but a fold]")  # fmt: skip
@options.vectors
@options.random_state
@options.threads
@options.force
@options.as_json
@click.pass_context
def command(
    context: click.Context, /, data: Path, learners: tuple[str, ...], all_learners: bool, encoders: tuple[str, ...],
    settings: tuple[str, ...],
    n_folds: int, output: Path, channels: Any, skip_bad: bool, random_state: int, threads: int | None,
    force: bool, as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Compare learners and encoders on DATA, which has a label for each image or vector.

    DATA is a folder with a sub-folder of images for each class, an .npz file with arrays "images" and "labels", or the
    folder of STL-10 or CIFAR-10. All images must have the same size. Labels are used only to evaluate the features.
    Results of each step are cached in the output folder: an interrupted run continues where it stopped.

    DATA may also be vectors: a .csv or .parquet table, a .npy array with --labels, or an .npz file with "X" and
    "labels". Then the unchanged columns and PCA are compared, too.

    A learner of your own is any class with fit and transform that can be created without arguments. Importing it runs
    its code, so name only files that you trust. On images, it learns from patches and must have components_; all
    learners are then compared by epls.evaluation.compare, and nothing is cached.
    """
    from ..evaluation.cache import Cache
    from ..evaluation.comparison import as_plain, compare_settings, is_of, plain_settings
    from ..evaluation.labelled import load_labelled
    from ..evaluation.labelled_vectors import are_vectors
    from .compare_own import compare_own
    from .compare_vectors import compare_vectors, learner_settings

    _check_exists(data)
    names = list(LEARNERS) if all_learners else [name for name in dict.fromkeys(learners) if ":" not in name]
    own = load_own((name for name in dict.fromkeys(learners) if ":" in name), names)
    of_vectors = {name: chosen.pop(name) for name in ("labels", "n_labels", "scale", "columns", "drop", "key")}
    if are_vectors(data):
        chosen["n_components"] = chosen["n_components"] or 100
        compare_vectors(
            context, data, names, own, settings, output, n_components=chosen["n_components"], n_folds=n_folds,
            random_state=random_state, threads=threads, force=force, as_json=as_json, **of_vectors,
        )  # fmt: skip
        return
    _refuse(of_vectors, data)
    chosen["n_components"] = chosen["n_components"] or 400
    if own:
        compare_own(
            context, data, names, own, settings, output, n_folds=n_folds, channels=channels, skip_bad=skip_bad,
            encoders=list(dict.fromkeys(map(options.full_name, encoders))), random_state=random_state, threads=threads,
            force=force, as_json=as_json, **chosen,
        )  # fmt: skip
        return
    given = learner_settings(settings, names)
    wanted = _wanted(given, list(dict.fromkeys(map(options.full_name, encoders))), random_state, chosen)
    options.check_output_folder(output, *FILES)
    with StageProgress() as progress:
        task = load_labelled(data, n_folds, random_state, channels=channels, skip_bad=skip_bad, progress=progress)
    options.tell_skipped(task)
    task.check_size(wanted[0])
    table = output / TABLE
    if table.exists() and not force and not is_of(table, str(data), wanted):
        raise click.ClickException(
            f"{table} belongs to another comparison: give another --output, or --force to replace it "
            f"(cached results are kept)"
        )
    cache = Cache(output / "stages")
    filters: dict[int, Any] = {}
    with options.going_on(), cache.locked(), options.limited(threads), StageProgress() as progress:
        entries = compare_settings(wanted, task, cache, progress, partial(_keep_filters, filters))
    n_images = len(task.train.labels)
    report: dict[str, Any] = {
        "data": str(data),
        "images": n_images,
        "skipped": len(task.skipped),
        "patches": task.origin(),
        "wanted": plain_settings(wanted),
        "entries": as_plain(entries),
    }
    facts = [
        ("Data", f"{data.name}, {n_images:,} images of {len(set(task.train.labels.tolist()))} classes"),
        ("Protocol", f"{len(task.folds)} folds, an L2-SVM whose C is cross-validated, seed {random_state}"),
        ("Features", "{n_components} components, patches of {patch_size} x {patch_size}, stride {stride}, {pooling} "
                     "pooling".format(**chosen)),
    ]  # fmt: skip
    files: list[str] = []
    try:
        files = _write(report, entries, facts, filters, output)
    finally:  # the figures may have taken hours: show them even if the disk is full
        if as_json:
            options.print_json(report | {"files": files})
        else:
            _print(entries)
            for file in files:
                options.tell(file)
    if all(entry.failed is not None for entry in entries):
        raise click.ClickException("all learners failed: the reasons are in the table above")


def _check_exists(data: Path) -> None:
    if not data.exists():
        raise click.ClickException(f"there is no file{'' if data.suffix else ' or folder'} {data}: check the path")


def _refuse(of_vectors: dict[str, Any], data: Path) -> None:
    for name, value in of_vectors.items():
        if value not in (None, ()):
            raise click.UsageError(f"--{name.replace('_', '-')} is for vectors, but {data} holds images: leave it out")


def _wanted(
    learners: dict[str, dict[str, Any]], encoders: list[str], seed: int, chosen: dict[str, Any]
) -> list[Settings]:
    """Return the settings to compare: each learner with each encoder, or with its own."""
    from ..encoders import ENCODERS
    from ..evaluation.experiment import Settings

    whiten, split_sign = chosen["whiten"], chosen["split_sign"]
    shared = {name: value for name, value in chosen.items() if name not in ("whiten", "split_sign")}
    return [
        Settings(
            learner=learner,
            learner_settings=learner_settings,
            whiten=LEARNERS[learner].whitens if whiten == "auto" else whiten == "yes",
            encoder=encoder,
            split_sign=ENCODERS[encoder]().split_sign if split_sign is None else split_sign,
            seed=seed,
            **shared,
        )
        for learner, learner_settings in learners.items()
        for encoder in encoders or [LEARNERS[learner].own_encoder]
    ]


def _keep_filters(filters: dict[int, Any], number: int, features: ImageFeatures) -> None:
    from ..plotting import filter_grid

    shape = (features.patch_size, features.patch_size, features.n_channels_)
    filters[number] = filter_grid(features.encoder_.components(), shape)


def _write(
    report: dict[str, Any], entries: Sequence[Entry], facts: list[tuple[str, str]], filters: dict[int, Any],
    output: Path,
) -> list[str]:  # fmt: skip
    """Write the table as JSON and, if their libraries are installed, as a page and a chart; return the file names."""
    from ..report import comparison_page

    def page() -> bytes:
        return comparison_page(entries, facts, filters, title="Learners compared").encode()

    table = json.dumps(report, indent=1, allow_nan=False).encode()
    return write_files(output, table, {PAGE: page, CHART: partial(chart, entries)})


def _print(entries: Sequence[Entry]) -> None:
    options.tell(f"{'':42} {'accuracy (std)':>15} {'learn s':>8} {'encode s':>9} {'to tune':>8} {'dead':>10}")
    for entry in sorted(entries, key=lambda entry: (entry.failed is not None, -entry.accuracy)):
        if entry.failed is not None:
            options.tell(f"{entry.name:42} failed: {entry.failed}")
            continue
        figure = f"{entry.accuracy:.1f} ({entry.std:.2f})"
        dead = f"{entry.n_dead} of {entry.n_units}"
        encode = entry.seconds["encode"] + entry.seconds.get("choose", 0.0)
        options.tell(
            f"{entry.name:42} {figure:>15} {entry.seconds['learn']:>8.0f} {encode:>9.0f} "
            f"{entry.n_meta_parameters:>8} {dead:>10}"
        )
