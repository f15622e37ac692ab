"""``epls compare``: accuracy and cost of learners on one's own images or vectors."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..learners import LEARNERS
from ..utils.wording import counted
from . import inputs, options
from .options import StageProgress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..datasets.labels import Label
    from ..evaluation.comparison import ComparedLearner

_TABLE, _PAGE = "compare.json", "compare.html"
_FOR_IMAGES, _FOR_VECTORS = ("epls", "kmeans", "omp", "random_patches", "raw"), ("prototypes", "kmeans")
_OF_PATCHES = "epls is for patches of images: of a vector, its code keeps little more than the winner; use prototypes"


@click.command("compare")
@click.argument("data", type=options.input_path)
@click.option("--learner", "learners", type=options.learner_choice, multiple=True, metavar="NAME",
              help=f"One of {', '.join(LEARNERS)}. May be given several times.  [default: {', '.join(_FOR_IMAGES)} "
              f"for images, {' and '.join(_FOR_VECTORS)} for vectors]")  # fmt: skip
@click.option("--all", "all_learners", is_flag=True, help="Compare all learners of the library.")
@options.settings(metavar="LEARNER.NAME=VALUE", help="A setting of a learner, such as omp.n_nonzero_coefs=5.")
@options.n_components(usual="up to 400 for images; for vectors, those of prototypes")
@options.patches
@options.n_folds(default=5, help="Folds of cross-validation, or with --n-labels draws of labelled samples.")
@click.option("--output", type=options.path_type, default=Path("epls-compare"), show_default=True,
              help="Folder for the table, the page and finished rows.")  # fmt: skip
@options.image_folder
@click.option("--labels", metavar="COLUMN|FILE",
              help="The labels: a column of the table, or a .npy, .csv or .parquet file, in the order of DATA unless "
              "it has a column file or row (counted from 0).  [default: the sub-folder of an image; the column named "
              "label, class, target or y; in a .npz file, the array labels or y]")  # fmt: skip
@click.option("--n-labels", type=click.IntRange(min=2),
              help="Labelled samples of each class to train the classifier on.  [default: all but a fold]")  # fmt: skip
@options.vectors
@options.running
def command(
    data: Path, learners: tuple[str, ...], all_learners: bool, settings: tuple[str, ...],
    n_folds: int, output: Path, n_labels: int | None, random_state: int, threads: int | None, force: bool,
    as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Compare learners on DATA, which has a label for each image or vector.

    DATA is a folder with a sub-folder of images for each class, or an .npz file with arrays "images" and "labels".
    Labels are used only to evaluate the features. Each finished row is kept in the output folder: an interrupted run
    continues with the next learner.

    DATA may also be vectors: a .csv or .parquet table, a .npy array with --labels, or an .npz file with "X" and
    "labels". Then the unchanged columns, a logistic regression on the vectors scaled to unit length, and PCA are
    compared, too: features should beat these.

    Features of images have one layer, with the encoder and the whitening that suit the learner. To compare other
    features, or a learner of your own, use epls.evaluation.compare in Python.
    """
    from sklearn.preprocessing import StandardScaler

    from ..evaluation.cache import Cache
    from ..evaluation.comparison import ComparedLearner, Comparison, check_classes, class_numbers, compare
    from ..report import comparison_page
    from ..utils.files import read_json

    options.check_output_folder(output, _TABLE, _PAGE)
    with options.limited(threads), StageProgress() as progress:
        found, labels = _opened(data, chosen, progress)
        numbers = class_numbers(labels)
        check_classes(numbers, n_labels)
        names = LEARNERS if all_learners else learners or (_FOR_IMAGES if found.vectors is None else _FOR_VECTORS)
        form = f"LEARNER.NAME=VALUE, LEARNER being one of {', '.join(names)}"
        given = options.settings_of(settings, list(dict.fromkeys(names)), form)
        X = found.samples()
        if found.scales(chosen):
            X = StandardScaler().fit_transform(X)
        if found.vectors is None:
            wanted = _image_learners(given, X, chosen)
        else:
            wanted = _vector_learners(given, X, numbers, n_labels, chosen["n_components"])
        protocol: dict[str, Any] = {"n_labels": n_labels, "folds": n_folds, "random_state": random_state}
        row_inputs = _inputs_of_rows(X, labels, protocol, wanted)
        cache = Cache(output / "stages")
        identity = {"data": str(data), "rows": [cache.path("row", each, ".json").stem for each in row_inputs.values()]}
        table = output / _TABLE
        if not force and table.exists() and read_json(table).get("wanted") != identity:
            raise click.ClickException(
                f"{table} belongs to another comparison: give another --output, or --force to replace it "
                f"(finished rows are kept)"
            )
        records = {name: kept[0] for name, each in row_inputs.items() if (kept := cache.found("row", each))}

        def keep(row: ComparedLearner, learner: Any) -> None:
            """Keep a row and its picture. If it failed, another run tries it again."""
            records[row.name] = {"row": asdict(row), "filters": _filters(learner)}
            try:
                if row.failed is None:
                    cache.keep("row", row_inputs[row.name], [records[row.name]])
            except OSError as error:  # the comparison goes on, and its table is shown
                options.tell(f"the row of {row.name} is not kept: {error.strerror}", err=True)

        todo = {name: learner for name, learner in wanted.items() if name not in records}
        with options.going_on(), cache.locked():
            compare(X, labels, todo, **protocol, progress=progress, on_row=keep)
    rows = [ComparedLearner(**records[name]["row"]) for name in wanted]
    plain = {name: _plain_settings(learner) for name, learner in wanted.items()}
    report = {
        "data": str(data), found.kind: len(labels), "skipped": found.n_skipped, "n_labels": n_labels,
        "wanted": identity, "entries": [row.as_json() | {"settings": plain[row.name]} for row in rows],
    }  # fmt: skip
    n_classes, n_tests = len(set(labels)), max(len(row.folds) for row in rows)
    tests = f"{n_tests} folds" if n_labels is None else f"{n_tests} draws of {n_labels} labels of each class"
    facts = [
        ("Data", f"{data.name}, {len(labels):,} {found.kind} of {n_classes} classes"),
        ("Protocol", f"{tests}, an L2-SVM whose C is cross-validated, seed {random_state}"),
    ]
    notes = [] if found.vectors is None or "epls" not in given else [_OF_PATCHES]
    facts += [("Note", note) for note in notes]
    if found.vectors is None:
        features = "patches of {patch_size} x {patch_size}, stride {stride}, {pooling} pooling"
        facts.append(("Features", features.format(**plain[rows[0].name])))
    files: list[str] = []
    try:
        filters = {name: record["filters"] for name, record in records.items()}
        page = comparison_page(rows, facts, settings=plain, filters=filters, title="Learners compared")
        files = _write(output, {_TABLE: json.dumps(report, indent=1, allow_nan=False), _PAGE: page})
    finally:  # the figures may have taken hours: show them even if the disk is full
        options.print_result(as_json, report | {"files": files}, "\n".join([repr(Comparison(rows)), *notes, *files]))
    if all(row.failed is not None for row in rows):
        raise click.ClickException("all learners failed: the reasons are in the table above")


def _opened(data: Path, chosen: dict[str, Any], progress: StageProgress) -> tuple[inputs.Inputs, NDArray[Any]]:
    """Open the samples, and return them and their labels, none of which may be missing or predicted."""
    import numpy as np

    from ..datasets.labels import LABEL_FILES, labels_beside
    from ..datasets.tables import TABLES

    given, ending, labels, source = chosen["labels"], data.suffix.lower(), None, data
    advice = "name a .npy, .csv or .parquet file with a label for each sample (--labels)"
    if given is not None and Path(given).suffix.lower() in LABEL_FILES and Path(given).is_file():
        source = Path(given)
    elif data.is_file() and ending in (*TABLES, ".npz"):
        labels, name = labels_beside(data, given)
        if ending in TABLES and name in (chosen["columns"] or [name]):
            chosen["drop"] = [*chosen["drop"], name]
    elif given is not None:
        told = f"{given} has another ending" if Path(given).exists() else f"there is no file {given}"
        raise click.ClickException(f"{told}: {advice}")
    found = inputs.open_inputs(data, chosen, progress)
    if labels is None:
        labels = inputs.labels_for(found, None if source == data else source)
        if labels is None:
            raise click.ClickException(f"{data} has no labels: {advice}")
        if source == data:
            _check_folders(found, labels)
    if len(labels) != len(found.data):
        raise click.ClickException(
            f"{data} has {len(found.data):,} {found.kind}, but {len(labels):,} labels: give one label for each"
        )
    known = [label for label in labels if label is not None]
    if len(known) < len(labels):
        raise click.ClickException(
            f"{source} has labels for {len(known):,} of the {len(labels):,} {found.kind} of {data}: label all of them, "
            f"or give only {found.kind} that have a label"
        )
    if n_predicted := sum(not label.given for label in known):
        raise click.ClickException(
            f"{source} has {counted(n_predicted, 'labels')} that a classifier predicted, by its column source: compare "
            f"by labels that people gave"
        )
    return found, np.array([label.label for label in known])


def _check_folders(found: inputs.Inputs, labels: Sequence[Label | None]) -> None:
    """Refuse images outside of sub-folders, and sub-folders without usable images."""
    path = found.path
    if None in labels:
        raise click.ClickException(
            f"{path} has images outside of sub-folders: give one with a sub-folder of images for each class, or name a "
            f"file of labels (--labels)"
        )
    skipped = {file.relative_to(path).parts[0] for file, _ in getattr(found.data, "skipped", ()) if file.parent != path}
    if lost := sorted(skipped - {label.label for label in labels if label is not None}):
        raise click.ClickException(
            f"{path} has no image of the class {lost[0]} that can be used: repair its images, or remove this sub-folder"
        )


def _vector_learners(
    given: dict[str, dict[str, Any]], X: Any, labels: NDArray[Any], n_labels: int | None, n_units: int | None
) -> dict[str, Any]:
    """Return the learners by name, after what they should beat. All have the same number of components."""
    from ..evaluation.comparison import library_learner, vector_learners
    from ..learners.prototypes import Prototypes

    library_learner("raw", given.pop("raw", {}))  # it has no settings, and is always among them
    n_units = n_units or Prototypes().checked_n_components(len(X))
    found = vector_learners(X, labels, n_labels, n_units)
    for name, settings in given.items():
        found[_title(name, settings)] = library_learner(name, settings, n_components=n_units)
    return found


def _image_learners(given: dict[str, dict[str, Any]], X: Any, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return features of images by name, each with the encoder and the whitening of its learner."""
    from ..evaluation.comparison import around_learner, library_learner
    from ..images.pooling import smallest_side
    from ..images.reading import ImageCollection

    sizes = {name: chosen[name] for name in ("patch_size", "n_patches", "stride") if chosen[name] is not None}
    recipe = around_learner(None, X).set_params(**sizes)
    sides = tuple(int(side) for side in min((shape[:2] for shape in ImageCollection(X, 1).shapes()), key=min))
    least = smallest_side([recipe.geometry], recipe.grid)
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
        features = around_learner(learner, X).set_params(**sizes)
        found[", ".join([_title(name, settings), *["whitened"] * features.whiten, features.encoder])] = features
    return found


def _title(name: str, settings: dict[str, Any]) -> str:
    return ", ".join([name, *(f"{key}={value}" for key, value in settings.items())])


def _inputs_of_rows(X: Any, labels: Any, protocol: dict[str, Any], wanted: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return everything that determines the row of each learner."""
    from .._version import __version__
    from ..evaluation.cache import fingerprint

    samples = {"samples": fingerprint(X), "labels": fingerprint([labels])}
    shared = protocol | samples | {"version": __version__}
    return {name: shared | {"name": name, "learner": repr(each.get_params())} for name, each in wanted.items()}


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
