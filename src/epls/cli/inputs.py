"""Inputs of commands that work on features: samples, their names, and features learned, from a model or a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options
from .progress import StageProgress

if TYPE_CHECKING:
    from ..datasets.labels import Label
    from ..datasets.opening import Opened
    from ..utils.types import Array

_OF_LEARNING = ("layers", "mirror")
_LONGEST_SIDE = 256  # pixels: the largest size of pictures on a page


@dataclass(frozen=True)
class Samples:
    """The inputs of a command.

    Attributes
    ----------
    data : Vectors or images
        The samples.
    names : list of str
        The file names of images, otherwise row numbers.
    name_column : str
        "file" or "row".
    columns : list of str or None
        The names of the columns of vectors.
    features : ndarray or None
        Features from a file.
    model : model or None
        The model that computes features.
    """

    data: Opened
    names: list[str]
    name_column: str
    columns: list[str] | None
    features: Array | None
    model: Any

    @property
    def is_vectors(self) -> bool:
        """Whether the samples are vectors rather than images."""
        from ..datasets.opening import Vectors

        return isinstance(self.data, Vectors)

    def array_or_images(self) -> Any:
        """Return the samples in the form that the Python functions accept."""
        return _in_memory(self.data) if self.is_vectors else self.data


def sources(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where features come from and how data are read."""
    for option in (
        options.array_key,
        click.option("--drop", multiple=True, metavar="COLUMN",
                     help="A column of a table to leave out; may be given several times."),
        options.image_folder,
        click.option("--longest-side", type=click.IntRange(min=1),
                     help=f"Shrink larger images to this many pixels.  [default: {_LONGEST_SIDE}, or the model's]"),
        click.option("--layers", type=click.IntRange(1, 2),
                     help="Layers to learn from images.  [default: 2 for up to 1,000 images, 1 for more]"),
        click.option("--mirror/--no-mirror", default=True, show_default=True,
                     help="Treat an image and its mirror image as the same when learning features. "
                     "Not for digits and letters."),
        click.option("--features", type=options.path_type, metavar="FILE",
                     help="Features of DATA, a .npz file that `epls transform` wrote."),
        click.option("--model", type=options.path_type, metavar="FILE",
                     help="Compute the features with this model, which `epls fit` wrote.  [default: learn features "
                     "from images, use vectors unchanged]"),
    ):  # fmt: skip
        command = option(command)
    return command


def open_samples(
    data: Path, model: Path | None, features: Path | None, chosen: dict[str, Any], progress: StageProgress,
    *, single_precision: bool = False,
) -> Samples:  # fmt: skip
    """Open data and the model or the file of features that belongs to them.

    Options of the command that do not apply to them are refused, and so are values that cannot be squared: in their own
    type, or in single precision.
    """
    from ..datasets.opening import Vectors

    if model is not None and features is not None:
        raise click.UsageError("--model and --features: give only one of them")
    _refuse_before_opening(model, features)
    loaded = None
    with options.opening():
        if model is None:
            opened = _open(data, chosen, progress)
        else:
            opened, loaded = _open_for(model, data, chosen, progress)
    options.tell_skipped(opened)
    if isinstance(opened, Vectors):
        reason = f"is for images, but {data} holds vectors: leave it out"
        options.refuse(click.get_current_context(), dict.fromkeys(_OF_LEARNING, reason))
        if model is None and features is None:
            options.tell_columns(opened)
            check_vectors(data, opened.X, single_precision)
    names, column = names_of(opened, data, chosen["key"]), "file"
    columns = opened.names if isinstance(opened, Vectors) else None
    if names is None:
        names, column = [str(number) for number in range(len(opened))], "row"
    rows = None if features is None else _features_from(features, names, column, single_precision)
    return Samples(opened, list(names), column, columns, rows, loaded)


def _refuse_before_opening(model: Path | None, features: Path | None) -> None:
    """Refuse options for what is learned, if nothing is learned."""
    reasons = {}
    if model is not None:
        reasons = dict.fromkeys((*_OF_LEARNING, "longest_side", "drop"), "is set by the model: leave it out")
    elif features is not None:
        reasons = dict.fromkeys(_OF_LEARNING, "is for learning features, but --features gives them: leave it out")
    options.refuse(click.get_current_context(), reasons)


def check_vectors(path: Path, X: Any, single_precision: bool = False) -> None:
    """Refuse vectors in memory that are too large or too small to compute distances between them."""
    from ..data.blocks import as_blocks
    from ..datasets.arrays import check_squares

    if as_blocks(X) is None:  # reading more than fits in memory twice would take too long
        check_squares(path, X, "float32" if single_precision else None)


def _open(data: Path, chosen: dict[str, Any], progress: StageProgress) -> Opened:
    from ..datasets.folder import ImageFolder, MixedImagesError, has_skipped_kind
    from ..datasets.opening import open_data, rows_have_names

    side = chosen["longest_side"]
    if side is None and rows_have_names(data):
        side = _LONGEST_SIDE
    folder = {name: chosen[name] for name in ("channels", "skip_bad")}
    try:
        opened = open_data(data, longest_side=side, key=chosen["key"], drop=chosen["drop"], progress=progress, **folder)
        if not (isinstance(opened, ImageFolder) and has_skipped_kind(opened)):
            return opened
    except MixedImagesError:
        pass
    options.tell(f"{data} has gray and color images; all are converted to color", err=True)
    return open_data(data, longest_side=side, progress=progress, **folder | {"channels": "color"})


def _open_for(model: Path, data: Path, chosen: dict[str, Any], progress: StageProgress) -> tuple[Opened, Any]:
    from ..images.models import image_features, open_data_for
    from ..persistence import load_with_notes

    loaded, notes = load_with_notes(model)
    if not hasattr(loaded, "transform"):
        raise click.ClickException(
            f"{model} holds a clustering, which has no features: give a model that `epls fit` wrote"
        )
    features = image_features(loaded)
    folder = {name: chosen[name] for name in ("channels", "skip_bad", "key")}
    side = 1 if features is None else features.smallest_side()
    return open_data_for(loaded, notes, data, smallest_side=side, progress=progress, **folder), loaded


def names_of(opened: Opened, data: Path, key: str | None) -> list[str] | None:
    """Return the names of the samples: of image files, or those that `epls transform` wrote beside features."""
    from ..datasets.arrays import archived_names
    from ..datasets.opening import Vectors

    if isinstance(opened, Vectors):
        return archived_names(data, len(opened)) if key in (None, "features") else None
    return getattr(opened, "names", None)


def _features_from(path: Path, names: list[str], column: str, single_precision: bool) -> Array:
    """Return the rows of a file of features, in the order of ``names``."""
    from ..datasets.arrays import archived_names, check_finite, load_array

    if path.suffix.lower() not in (".npz", ".npy"):
        raise click.UsageError(f"--features {path}: give a .npz or .npy file that `epls transform` wrote")
    rows = load_array(path, None if path.suffix.lower() == ".npy" else "features")
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise click.ClickException(
            f"{path} has an array of shape {rows.shape} and type {rows.dtype}; features are numbers of shape "
            f"(n_samples, n_features)"
        )
    check_finite(path, rows)
    check_vectors(path, rows, single_precision)
    named = archived_names(path, len(rows)) if column == "file" else None
    if named is not None:
        place = {name: k for k, name in enumerate(named)}
        if missing := [name for name in names if name not in place]:
            raise click.ClickException(
                f"{path} lacks the features of {len(missing)} of {len(names)} images, such as {missing[0]!r}: compute "
                f"them again with epls transform"
            )
        return rows[[place[name] for name in names]]
    if len(rows) != len(names):
        raise click.ClickException(
            f"{path} has features of {len(rows)} samples, but the data have {len(names)}: use the features of these "
            f"data"
        )
    return rows


def _in_memory(vectors: Any) -> Any:
    from ..data.blocks import as_blocks
    from ..data.samples import BlockSamples

    blocks = as_blocks(vectors.X)
    return vectors.X if blocks is None else BlockSamples(blocks).array()


def labels_for(samples: Samples, path: Path | None, data: Path) -> list[Label | None] | None:
    """Return the labels of these samples from a .csv file."""
    from ..datasets.labels import labels_of, read_labels

    return None if path is None else labels_of(read_labels(path), samples.names, data)
