"""``epls compare``: accuracy and cost of learners on one's own images or vectors."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..learners import LEARNERS
from . import options
from .options import StageProgress

if TYPE_CHECKING:
    from ..evaluation.comparison import ComparedLearner
    from ..evaluation.labelled import Labelled

_TABLE, _PAGE = "compare.json", "compare.html"
#: Options that do not apply to vectors, and options that do not apply to images.
_OF_IMAGES = ("n_patches", "patch_size", "stride", "channels", "skip_bad", "follow_links")
_OF_VECTORS = ("labels", "n_labels", "scale", "columns", "drop", "key")
_UNITS_FOR_VECTORS = 100


@click.command("compare")
@click.argument("data", type=options.path_type)
@click.option("--learner", "learners", type=options.learner_choice, multiple=True, metavar="NAME",
              default=("epls", "kmeans", "omp", "random_patches", "raw"), show_default=True,
              help=f"One of {', '.join(LEARNERS)}. May be given several times.")  # fmt: skip
@click.option("--all", "all_learners", is_flag=True, help="Compare all learners of the library.")
@options.settings("LEARNER.NAME=VALUE", "A setting of a learner, such as omp.n_nonzero_coefs=5.")
@options.n_components(None, "Components to learn.  [default: up to 400 for images, 100 for vectors]")
@options.patches
@options.n_folds(5, "Folds of cross-validation, or with --n-labels draws of labelled vectors.")
@click.option("--output", type=options.path_type, default=Path("epls-compare"), show_default=True,
              help="Folder for the table, the page and finished rows.")  # fmt: skip
@options.image_folder
@click.option("--labels", metavar="COLUMN|FILE",
              help="The labels of vectors: a column of the table, or a .npy, .csv or .parquet file. A column row in it "
              "says which vector each label belongs to, counted from 0.  [default: the column named label, "
              "class, target or y; in a .npz file, the array labels or y]")  # fmt: skip
@click.option("--n-labels", type=click.IntRange(min=2),
              help="Labelled vectors of each class to train the classifier on.  [default: all but a fold]")  # fmt: skip
@options.vectors
@options.running
@click.pass_context
def command(
    context: click.Context, /, data: Path, learners: tuple[str, ...], all_learners: bool, settings: tuple[str, ...],
    n_folds: int, output: Path, n_labels: int | None, random_state: int, threads: int | None, force: bool,
    as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Compare learners on DATA, which has a label for each image or vector.

    DATA is a folder with a sub-folder of images for each class, or an .npz file with arrays "images" and "labels". All
    images must have the same size. Labels are used only to evaluate the features. Each finished row is kept in the
    output folder: an interrupted run continues with the next learner.

    DATA may also be vectors: a .csv or .parquet table, a .npy array with --labels, or an .npz file with "X" and
    "labels". Then the unchanged columns and PCA are compared, too.

    Features of images have one layer, with the encoder and the whitening that suit the learner. To compare other
    features, or a learner of your own, use epls.evaluation.compare in Python.
    """
    from ..evaluation.cache import Cache
    from ..evaluation.comparison import ComparedLearner, Comparison, check_classes, compare
    from ..evaluation.labelled import are_vectors
    from ..report import comparison_page

    if not data.exists():
        raise click.ClickException(f"there is no file{'' if data.suffix else ' or folder'} {data}: check the path")
    names = list(LEARNERS) if all_learners else list(dict.fromkeys(learners))
    form = f"LEARNER.NAME=VALUE, LEARNER being one of {', '.join(names)}"
    given = options.settings_of(settings, names, form)
    vectors = are_vectors(data)
    kinds = ("images", "vectors") if vectors else ("vectors", "images")
    reason = f"is for {kinds[0]}, but {data} holds {kinds[1]}: leave it out"
    options.refuse(context, dict.fromkeys(_OF_IMAGES if vectors else _OF_VECTORS, reason))
    options.check_output_folder(output, _TABLE, _PAGE)
    with options.limited(threads), StageProgress() as progress:
        labelled = _opened(data, vectors, chosen, progress)
        wanted = _vector_learners(given, labelled, chosen) if vectors else _image_learners(given, labelled, chosen)
        protocol: dict[str, Any] = {"n_labels": n_labels, "folds": n_folds, "random_state": random_state}
        check_classes(labelled.labels, n_labels)
        inputs = _inputs_of_rows(labelled, protocol, wanted)
        cache = Cache(output / "stages")
        identity = {"data": str(data), "rows": [cache.path("row", each, ".json").stem for each in inputs.values()]}
        if not (force or _belongs_to(output / _TABLE, identity)):
            raise click.ClickException(
                f"{output / _TABLE} belongs to another comparison: give another --output, or --force to replace it "
                f"(finished rows are kept)"
            )
        records = {name: found[0] for name, each in inputs.items() if (found := cache.found("row", each))}

        def keep(row: ComparedLearner, learner: Any) -> None:
            """Keep a row and its picture. If it failed, another run tries it again."""
            records[row.name] = {"row": asdict(row), "filters": _filters(learner)}
            try:
                if row.failed is None:
                    cache.keep("row", inputs[row.name], [records[row.name]])
            except OSError as error:  # the comparison goes on, and its table is shown
                options.tell(f"the row of {row.name} is not kept: {error.strerror}", err=True)

        todo = {name: learner for name, learner in wanted.items() if name not in records}
        with options.going_on(), cache.locked():
            compare(labelled.X, labelled.labels, todo, **protocol, progress=progress, on_row=keep)
    rows = [ComparedLearner(**records[name]["row"]) for name in wanted]
    plain = {name: _plain_settings(learner) for name, learner in wanted.items()}
    what = "vectors" if vectors else "images"
    report = {
        "data": str(data), what: len(labelled.labels), "skipped": len(labelled.skipped), "n_labels": n_labels,
        "wanted": identity, "entries": [row.as_json() | {"settings": plain[row.name]} for row in rows],
    }  # fmt: skip
    n_classes, n_tests = labelled.labels.max() + 1, max(len(row.folds) for row in rows)
    facts = [
        ("Data", f"{data.name}, {len(labelled.labels):,} {what} of {n_classes} classes"),
        ("Protocol", f"{n_tests} folds, an L2-SVM whose C is cross-validated, seed {random_state}"),
    ]
    if not vectors:
        features = "patches of {patch_size} x {patch_size}, stride {stride}, {pooling} pooling"
        facts.append(("Features", features.format(**plain[rows[0].name])))
    files: list[str] = []
    try:
        filters = {name: record["filters"] for name, record in records.items()}
        page = comparison_page(rows, facts, settings=plain, filters=filters, title="Learners compared")
        files = _write(output, {_TABLE: json.dumps(report, indent=1, allow_nan=False), _PAGE: page})
    finally:  # the figures may have taken hours: show them even if the disk is full
        if as_json:
            options.print_json(report | {"files": files})
        else:
            options.tell("\n".join([repr(Comparison(rows)), *files]))
    if all(row.failed is not None for row in rows):
        raise click.ClickException("all learners failed: the reasons are in the table above")


def _opened(data: Path, vectors: bool, chosen: dict[str, Any], progress: StageProgress) -> Labelled:
    """Load the samples and tell what the user should know about them."""
    from dataclasses import replace

    from ..evaluation.labelled import load_labelled_images, load_labelled_vectors

    if not vectors:
        folder = {name: chosen[name] for name in ("channels", "skip_bad", "follow_links")}
        images = load_labelled_images(data, progress=progress, **folder)
        options.tell_skipped(images)
        return images
    with options.opening():
        labelled = load_labelled_vectors(
            data, chosen["labels"], key=chosen["key"], columns=chosen["columns"] or None, drop=chosen["drop"]
        )
    options.tell_columns(labelled)
    if labelled.names is not None if chosen["scale"] is None else chosen["scale"]:
        from sklearn.preprocessing import StandardScaler

        return replace(labelled, X=StandardScaler().fit_transform(labelled.X))
    return labelled


def _vector_learners(given: dict[str, dict[str, Any]], labelled: Labelled, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the learners by name. Unchanged columns and PCA are always among them, since many tables need no more."""
    from sklearn.decomposition import PCA

    from ..evaluation.comparison import library_learner

    n_units = chosen["n_components"] or _UNITS_FOR_VECTORS
    n_pca = min(n_units, *labelled.X.shape)
    found = {"raw columns": library_learner("raw", given.get("raw", {})), f"pca, {n_pca}": PCA(n_pca)}
    for name, settings in given.items():
        if name != "raw":
            found[_title(name, settings)] = library_learner(name, settings, n_components=n_units)
    return found


def _image_learners(given: dict[str, dict[str, Any]], labelled: Labelled, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return features of images by name, each with the encoder and the whitening of its learner."""
    from ..evaluation.comparison import around_learner, library_learner
    from ..images.pooling import smallest_side

    sizes = {name: chosen[name] for name in ("patch_size", "n_patches", "stride") if chosen[name] is not None}
    recipe = around_learner(None, labelled.X).set_params(**sizes)
    sides, least = labelled.X.shape[1:3], smallest_side([recipe.geometry], recipe.grid)
    if min(sides) < least:
        raise click.ClickException(
            f"images of {sides} pixels are too small for patches of {recipe.patch_size}, stride {recipe.stride} and a "
            f"grid of {recipe.grid}: they must have at least {least} pixels a side; choose a smaller patch size or "
            f"stride"
        )
    n_units = chosen["n_components"] or recipe.estimator.n_components
    found: dict[str, Any] = {}
    for name, settings in given.items():
        learner = library_learner(name, settings, n_components=n_units)
        features = around_learner(learner, labelled.X).set_params(**sizes)
        found[", ".join([_title(name, settings), *["whitened"] * features.whiten, features.encoder])] = features
    return found


def _title(name: str, settings: dict[str, Any]) -> str:
    return ", ".join([name, *(f"{key}={value}" for key, value in settings.items())])


def _inputs_of_rows(labelled: Labelled, protocol: dict[str, Any], wanted: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return everything that determines the row of each learner."""
    from .._version import __version__
    from ..evaluation.cache import fingerprint

    samples = {"samples": fingerprint(labelled.X), "labels": fingerprint(labelled.labels)}
    shared = protocol | samples | {"version": __version__}
    return {name: shared | {"name": name, "learner": repr(each.get_params())} for name, each in wanted.items()}


def _belongs_to(table: Path, identity: dict[str, Any]) -> bool:
    """Return whether the table of an earlier run, if there is one, is that of the same comparison."""
    from ..utils.files import read_json

    return not table.exists() or read_json(table).get("wanted") == identity


def _filters(features: Any) -> str | None:
    """Return a picture of the components of image features, if Pillow is installed."""
    from ..images.features import ImageFeatures
    from ..plotting import filter_grid
    from ..report.page import png

    if not isinstance(features, ImageFeatures):
        return None
    shape = (features.patch_size, features.patch_size, features.n_channels_)
    try:
        return png(filter_grid(features.encoder_.components(), shape))
    except ImportError as error:
        options.tell(f"no pictures of filters: {error}", err=True)
        return None


def _plain_settings(learner: Any) -> dict[str, Any]:
    """Return the settings of a learner, and of the image features around it, as plain values."""
    params = learner.get_params(deep=False)
    inner = params.pop("estimator", None)
    if inner is not None:
        params = {"learner": type(inner).__name__} | inner.get_params(deep=False) | params
    plain = (bool, int, float, str, type(None))
    return {name: value if isinstance(value, plain) else str(value) for name, value in params.items()}


def _write(output: Path, contents: dict[str, str]) -> list[str]:
    """Write some files, all of them or, on an error, none; return their names."""
    from ..utils.files import atomic_file

    with ExitStack() as files:  # they replace earlier ones when all are on the disk
        for name, content in contents.items():
            file = files.enter_context(atomic_file(output / name))
            file.write(content.encode())
            file.flush()
            os.fsync(file.fileno())
    return [str(output / name) for name in contents]
