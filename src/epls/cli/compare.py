"""``epls compare``: accuracy and cost of learners on one's own images or vectors."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..learners import LEARNERS
from . import options
from .options import StageProgress

if TYPE_CHECKING:
    from ..evaluation.comparison import ComparedLearner
    from ..evaluation.labelled import Labelled

_TABLE, _PAGE, _CHART = _FILES = ("compare.json", "compare.html", "compare.png")
#: Options that do not apply to vectors, and options that do not apply to images.
_OF_IMAGES = (
    "encoders", "split_sign", "whiten", "n_patches", "patch_size", "stride", "grid", "mirror", "layers", "pooling",
    "channels", "skip_bad",
)  # fmt: skip
_OF_VECTORS = ("labels", "n_labels", "scale", "columns", "drop", "key")
_UNITS_FOR_VECTORS = 100


@click.command("compare")
@click.argument("data", type=options.path_type)
@click.option("--learner", "learners", type=options.learner_choice, multiple=True, metavar="NAME",
              default=("epls", "kmeans", "omp", "random_patches", "raw"), show_default=True,
              help=f"One of {', '.join(LEARNERS)}. May be given several times.")  # fmt: skip
@click.option("--all", "all_learners", is_flag=True, help="Compare all learners of the library.")
@click.option("--encoder", "encoders", type=options.encoder_choice, multiple=True,
              help="Encoder to compare; may be given several times.  [default: each learner's own]")  # fmt: skip
@options.split_sign
@options.settings("LEARNER.NAME=VALUE", "A setting of a learner, such as omp.n_nonzero_coefs=5.")
@click.option("--whiten", type=click.Choice(["auto", "yes", "no"]), default="auto", show_default=True,
              help="Whiten the patches (ZCA); auto: if the learner needs it.")  # fmt: skip
@options.n_components(None, "Components to learn.  [default: up to 400 for images, 100 for vectors]")
@options.n_patches(2, usual="up to 40,000")
@click.option("--patch-size", type=click.IntRange(min=1),
              help="Width and height of patches, in pixels.  [default: up to 10, less for small images]")  # fmt: skip
@click.option("--stride", type=click.IntRange(min=1),
              help="Pixels from one patch to the next.  [default: about 24 patches across an image]")  # fmt: skip
@options.grid
@click.option("--mirror", is_flag=True,
              help="Average the features of an image and its mirror image. Not for digits and letters.")  # fmt: skip
@options.layers
@options.pooling("log")
@options.n_folds(5, "Folds of cross-validation, or how many of STL-10's folds to use.")
@click.option("--output", type=options.path_type, default=Path("epls-compare"), show_default=True,
              help="Folder for the table, the page, the chart and finished rows.")  # fmt: skip
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
    context: click.Context, /, data: Path, learners: tuple[str, ...], all_learners: bool, settings: tuple[str, ...],
    n_folds: int, output: Path, n_labels: int | None, random_state: int, threads: int | None, force: bool,
    as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Compare learners and encoders on DATA, which has a label for each image or vector.

    DATA is a folder with a sub-folder of images for each class, an .npz file with arrays "images" and "labels", or the
    folder of STL-10 or CIFAR-10. All images must have the same size. Labels are used only to evaluate the features.
    Each finished row is kept in the output folder: an interrupted run continues with the next learner.

    DATA may also be vectors: a .csv or .parquet table, a .npy array with --labels, or an .npz file with "X" and
    "labels". Then the unchanged columns and PCA are compared, too.

    To compare a learner of your own, use epls.evaluation.compare in Python.
    """
    from ..evaluation.comparison import Comparison, check_classes, compare
    from ..evaluation.labelled import are_vectors
    from ..utils.files import FolderLock

    if not data.exists():
        raise click.ClickException(f"there is no file{'' if data.suffix else ' or folder'} {data}: check the path")
    names = list(LEARNERS) if all_learners else list(dict.fromkeys(learners))
    given = _learner_settings(settings, names)
    vectors = are_vectors(data)
    kinds = ("images", "vectors") if vectors else ("vectors", "images")
    reason = f"is for {kinds[0]}, but {data} holds {kinds[1]}: leave it out"
    options.refuse(context, dict.fromkeys(_OF_IMAGES if vectors else _OF_VECTORS, reason))
    options.check_output_folder(output, *_FILES)
    with options.limited(threads), StageProgress() as progress:
        labelled = _opened(data, vectors, chosen, progress)
        wanted = _vector_learners(given, labelled, chosen) if vectors else _image_learners(given, labelled, chosen)
        folds = n_folds if labelled.folds is None else labelled.folds[:n_folds]
        protocol: dict[str, Any] = {"n_labels": n_labels, "n_folds": folds, "random_state": random_state}
        check_classes(labelled.labels, n_labels)
        kept = _KeptRows(output, data, labelled, protocol, wanted)
        if not (force or kept.belong_to_the_table):
            raise click.ClickException(
                f"{output / _TABLE} belongs to another comparison: give another --output, or --force to replace it "
                f"(finished rows are kept)"
            )
        known = kept.rows()
        todo = {name: learner for name, learner in wanted.items() if name not in known}
        with options.going_on(), FolderLock(kept.folder, "run", "give another output folder"):
            found = compare(labelled.X, labelled.labels, todo, **protocol, progress=progress, on_row=kept.keep)
    known |= {row.name: row for row in found}
    rows = [known[name] for name in wanted]
    what = "vectors" if vectors else "images"
    report = {
        "data": str(data), what: len(labelled.labels), "skipped": len(labelled.skipped), "n_labels": n_labels,
        "wanted": kept.wanted, "entries": [row.as_json() | {"settings": kept.settings[row.name]} for row in rows],
    }  # fmt: skip
    n_classes, n_tests = labelled.labels.max() + 1, max(len(row.folds) for row in rows)
    facts = [
        ("Data", f"{data.name}, {len(labelled.labels):,} {what} of {n_classes} classes"),
        ("Protocol", f"{n_tests} folds, an L2-SVM whose C is cross-validated, seed {random_state}"),
    ]
    if not vectors:
        features = "patches of {patch_size} x {patch_size}, stride {stride}, {pooling} pooling"
        facts.append(("Features", features.format(**kept.settings[rows[0].name])))
    files: list[str] = []
    try:
        files = _write(report, rows, facts, kept, output)
    finally:  # the figures may have taken hours: show them even if the disk is full
        if as_json:
            options.print_json(report | {"files": files})
        else:
            options.tell("\n".join([repr(Comparison(rows)), *files]))
    if all(row.failed is not None for row in rows):
        raise click.ClickException("all learners failed: the reasons are in the table above")


def _learner_settings(assignments: tuple[str, ...], learners: list[str]) -> dict[str, dict[str, Any]]:
    """Parse LEARNER.NAME=VALUE into the settings of each learner."""
    form = f"LEARNER.NAME=VALUE, LEARNER being one of {', '.join(learners)}"
    given = options.settings_of(assignments, learners, form)
    for learner, settings in given.items():
        if "" in settings:
            raise click.UsageError(f"--set {learner}.={settings['']}: write it as {form}")
    return given


def _opened(data: Path, vectors: bool, chosen: dict[str, Any], progress: StageProgress) -> Labelled:
    """Load the samples and tell what the user should know about them."""
    from dataclasses import replace

    from ..evaluation.labelled import load_labelled_images, load_labelled_vectors

    if not vectors:
        images = load_labelled_images(data, channels=chosen["channels"], skip_bad=chosen["skip_bad"], progress=progress)
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
    """Return features of images by name: each learner with each encoder, or with its own."""
    from sklearn.base import clone

    from ..encoders import ENCODERS
    from ..evaluation.comparison import around_learner, library_learner
    from ..images.pooling import smallest_side

    recipe = around_learner(None, labelled.X)
    names = ("patch_size", "n_patches", "stride", "grid", "mirror", "pooling")
    recipe.set_params(**{name: chosen[name] for name in names if chosen[name] is not None})
    sides, least = labelled.X.shape[1:3], smallest_side([recipe.geometry], recipe.grid)
    if min(sides) < least:
        raise click.ClickException(
            f"images of {sides} pixels are too small for patches of {recipe.patch_size}, stride {recipe.stride} and a "
            f"grid of {recipe.grid}: they must have at least {least} pixels a side; choose a smaller patch size, "
            f"stride or grid"
        )
    n_units = chosen["n_components"] or recipe.estimator.n_components
    found: dict[str, Any] = {}
    for name, settings in given.items():
        whiten = LEARNERS[name].whitens if chosen["whiten"] == "auto" else chosen["whiten"] == "yes"
        for encoder_name in dict.fromkeys(map(options.full_name, chosen["encoders"])) or [LEARNERS[name].own_encoder]:
            encoder = ENCODERS[encoder_name]()
            if chosen["split_sign"] is not None:
                encoder.set_params(split_sign=chosen["split_sign"])
            learner = library_learner(name, settings, n_components=n_units)
            features: Any = clone(recipe).set_params(estimator=learner, encoder=encoder, whiten=whiten)
            parts = [_title(name, settings), *["whitened"] * whiten, encoder_name, *["x2"] * encoder.split_sign]
            if chosen["layers"] > 1:
                features = _with_stack(features, learner, sides, chosen["layers"])
                parts.append(f"{chosen['layers']} layers")
            found[", ".join(parts)] = features
    return found


def _with_stack(features: Any, learner: Any, sides: tuple[int, int], n_layers: int) -> Any:
    """Return these features and, behind them, those of a stack of the same learner."""
    from sklearn.pipeline import FeatureUnion

    from ..images.stack import DeepFeatures, usual_layers

    layers = usual_layers(*sides, n_layers=n_layers, estimator=learner)
    stack = DeepFeatures(layers, grid=features.grid, mirror=features.mirror)
    return FeatureUnion([("single", features), ("stack", stack)])


def _title(name: str, settings: dict[str, Any]) -> str:
    return ", ".join([name, *(f"{key}={value}" for key, value in settings.items())])


class _KeptRows:
    """Finished rows in the output folder, each in a file that is named by everything that determines it."""

    def __init__(
        self, output: Path, data: Path, labelled: Labelled, protocol: dict[str, Any], wanted: dict[str, Any]
    ) -> None:
        import numpy as np

        from .._version import __version__
        from ..utils.files import read_json

        self.folder = output / "stages"
        self.settings = {name: _plain_settings(learner) for name, learner in wanted.items()}
        samples = hashlib.sha256(np.ascontiguousarray(labelled.X).data).hexdigest()
        inputs = [__version__, samples, labelled.X.shape, labelled.labels.tolist(), protocol]
        self._files = {
            name: self.folder / f"row-{_digest([*inputs, name, sorted(learner.get_params().items(), key=str)])}.json"
            for name, learner in wanted.items()
        }
        self.wanted = {"data": str(data), "rows": [path.stem for path in self._files.values()]}
        self.filters: dict[str, str | None] = {}
        table = output / _TABLE
        self.belong_to_the_table = not table.exists() or read_json(table).get("wanted") == self.wanted

    def rows(self) -> dict[str, ComparedLearner]:
        """Return the rows that earlier runs finished."""
        from ..evaluation.comparison import ComparedLearner
        from ..utils.files import read_json

        found = {}
        for name, path in self._files.items():
            try:
                record = read_json(path)
                row = ComparedLearner(**record["row"] | {"folds": tuple(record["row"]["folds"])})
                self.filters[name] = record["filters"]
            except (KeyError, TypeError):  # not finished, or damaged
                continue
            found[name] = row
        return found

    def keep(self, row: ComparedLearner, learner: Any) -> None:
        """Write a row and its picture, unless it failed: another run tries it again."""
        from ..utils.files import write_atomically

        if row.failed is None:
            self.filters[row.name] = _filters(_single_layer(learner))
            record = {"row": asdict(row), "filters": self.filters[row.name]}
            try:
                write_atomically(self._files[row.name], json.dumps(record, allow_nan=False).encode())
            except OSError as error:  # the comparison goes on, and its table is shown
                options.tell(f"the row of {row.name} is not kept: {error.strerror}", err=True)


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


def _single_layer(learner: Any) -> Any:
    """Return the features of one layer, which may stand beside a stack."""
    return learner.transformer_list[0][1] if hasattr(learner, "transformer_list") else learner


def _plain_settings(learner: Any) -> dict[str, Any]:
    """Return the settings of a learner, and of the image features around it, as plain values."""
    params = _single_layer(learner).get_params(deep=False)
    inner = params.pop("estimator", None)
    if inner is not None:
        params = {"learner": type(inner).__name__} | inner.get_params(deep=False) | params
    plain = (bool, int, float, str, type(None))
    return {name: value if isinstance(value, plain) else str(value) for name, value in params.items()}


def _digest(inputs: Any) -> str:
    """Return a name for arrays, plain values, and estimators, which are shown as text."""

    def plain(value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else str(value)

    return hashlib.sha256(json.dumps(inputs, allow_nan=False, default=plain).encode()).hexdigest()[:16]


def _write(
    report: dict[str, Any], rows: Sequence[ComparedLearner], facts: list[tuple[str, str]], kept: _KeptRows, output: Path
) -> list[str]:
    """Write the table as JSON and, if their libraries are installed, as a page and a chart; return the file names.

    Files of an earlier comparison in the same folder are replaced or removed.
    """
    from ..report import comparison_page
    from ..utils.files import atomic_file

    def page() -> bytes:
        title = "Learners compared"
        return comparison_page(rows, facts, settings=kept.settings, filters=kept.filters, title=title).encode()

    contents = {output / _TABLE: json.dumps(report, indent=1, allow_nan=False).encode()}
    makers: dict[str, Callable[[], bytes]] = {_PAGE: page, _CHART: partial(_chart, rows)}
    for name, made in makers.items():
        try:
            contents[output / name] = made()
        except ImportError as error:
            options.tell(f"no {name}: {error}", err=True)
    stale = [output / name for name in _FILES if output / name not in contents and (output / _TABLE).exists()]
    with ExitStack() as files:  # all files, or on an error none: they replace earlier ones when all are on the disk
        for path, content in contents.items():
            file = files.enter_context(atomic_file(path))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    for path in stale:
        path.unlink(missing_ok=True)
    return [str(path) for path in contents]


def _chart(rows: Sequence[ComparedLearner]) -> bytes:
    """Return a chart of the accuracies as a PNG file."""
    from ..plotting import plot_comparison

    done = [row for row in rows if row.failed is None]
    axes = plot_comparison([row.name for row in done], [row.accuracy for row in done], [row.std for row in done])
    figure = axes.get_figure(root=True)
    assert figure is not None  # it was made for these axes
    import matplotlib.pyplot as plt  # plot_comparison has said so if it is missing

    try:
        return options.png_of(figure, dpi=150)
    finally:
        plt.close(figure)
