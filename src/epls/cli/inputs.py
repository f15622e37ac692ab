"""What a command is given: images or vectors, and the model or the file of features that belongs to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options

if TYPE_CHECKING:
    from ..datasets.labels import Label
    from ..datasets.opening import Opened, Vectors
    from ..utils.types import Array

_OF_LEARNING = ("layers", "mirror")
_OF_IMAGES: tuple[str, ...] = (*_OF_LEARNING, "patch_size", "n_patches", "encoder", "stride", "grid")
_OF_VECTORS = ("scale",)
_OF_A_MODEL = (*_OF_IMAGES, *_OF_VECTORS, "n_components", "longest_side", "columns", "drop")
_LONGEST_SIDE = 256  # pixels: the largest size of pictures on a page


@dataclass(frozen=True)
class Inputs:
    """The inputs of a command: data, and the model that computes features or the features from a file, if given."""

    path: Path
    data: Opened
    names: list[str] | None  # of image files, or those that `epls transform` wrote beside features
    model: Any
    notes: dict[str, Any]
    features: Array | None = None  # a row for each sample
    features_path: Path | None = None

    @property
    def vectors(self) -> Vectors | None:
        from ..datasets.opening import Vectors

        return self.data if isinstance(self.data, Vectors) else None

    @property
    def kind(self) -> str:
        """What a sample is, in the plural."""
        return "images" if self.vectors is None else "vectors"

    @property
    def name_column(self) -> str:
        """What a table calls the samples: "file", or "row" if they have only numbers."""
        return "row" if self.names is None else "file"

    @property
    def sample_names(self) -> list[str]:
        """The name or the number of each sample."""
        return [str(number) for number in range(len(self.data))] if self.names is None else self.names

    @property
    def columns(self) -> list[str] | None:
        return None if self.vectors is None else self.vectors.names

    @property
    def n_skipped(self) -> int:
        return len(getattr(self.data, "skipped", ()))

    def samples(self) -> Any:
        """Return images as they were opened, and all vectors as an array."""
        from ..data.blocks import as_blocks
        from ..data.samples import BlockSamples

        if self.vectors is None:
            return self.data
        blocks = as_blocks(self.vectors.X)
        return self.vectors.X if blocks is None else BlockSamples(blocks).array()

    def check_distances(self, dtype: Any = None) -> None:
        """Refuse vectors or features between which distances cannot be computed in this type, or in their own."""
        from ..data.blocks import as_blocks
        from ..data.moments import check_squares

        X: Any = self.features
        if X is None and self.model is None and self.vectors is not None:
            X = self.vectors.X
        if X is not None and as_blocks(X) is None:  # reading more than fits in memory twice would take too long
            check_squares(X, f"{self.features_path or self.path} has", dtype)


#: Where features come from, and how data are read.
sources = options.together(
    options.model,
    click.option("--features", type=options.path_type, metavar="FILE",
                 help="Features of DATA, a .npz file that `epls transform` wrote."),
    options.recipe,
    options.longest_side(usual=f"{_LONGEST_SIDE}, or the model's"),
    options.image_folder,
    options.drop,
    options.array_key,
)  # fmt: skip


def open_inputs(
    path: Path,
    chosen: dict[str, Any],
    progress: options.StageProgress,
    *,
    smallest_side: int = 1,
    grid: int | None = None,
    for_page: bool = False,
) -> Inputs:
    """Open data, and the model or the file of features that belongs to them. Refuse options that do not apply.

    ``chosen`` has the values of the command's options. Images in a folder must have the smallest side, or be large
    enough for the model, with its own grid unless another is given. ``for_page`` shrinks them to the size of pictures
    on a page, unless the options say otherwise.
    """
    from ..datasets.arrays import archived_names
    from ..datasets.opening import Vectors
    from ..images.models import image_features, open_data_for
    from ..persistence import load_with_notes

    context, model, features = click.get_current_context(), chosen.get("model"), chosen.get("features")
    if model is not None and features is not None:
        raise click.UsageError("--model and --features: give only one of them")
    if model is not None:
        options.refuse(context, dict.fromkeys(_OF_A_MODEL, "is set by the model: leave it out"))
    elif features is not None:
        reason = "is for learning features, but --features gives them: leave it out"
        options.refuse(context, dict.fromkeys(_OF_LEARNING, reason))
    loaded, notes = (None, {}) if model is None else load_with_notes(model)
    if model is not None and not hasattr(loaded, "transform"):
        raise click.ClickException(
            f"{model} holds a {type(loaded).__name__}, which has no features: give a model that `epls fit` wrote"
        )
    with options.opening():
        if model is None:
            opened = _opened(path, chosen, progress, smallest_side, for_page)
        else:
            of_images = image_features(loaded)
            side = 1 if of_images is None else of_images.smallest_side(grid)
            folder = {name: chosen[name] for name in ("channels", "skip_bad", "follow_links", "key")}
            opened = open_data_for(loaded, notes, path, smallest_side=side, progress=progress, **folder)
    options.tell_skipped(opened)
    if isinstance(opened, Vectors):
        names = archived_names(path, len(opened)) if chosen.get("key") in (None, "features") else None
        others, reason = _OF_IMAGES, f"is for images, but {path} holds vectors: leave it out"
    else:
        names = getattr(opened, "names", None)
        others, reason = _OF_VECTORS, f"is for vectors, but {path} holds images: leave it out"
    options.refuse(context, dict.fromkeys(others, reason))
    if model is None and features is None:
        options.tell_columns(opened)
    found = Inputs(path, opened, names, loaded, notes)
    if features is None:
        return found
    return replace(found, features=_features_from(features, found), features_path=features)


def _opened(
    path: Path, chosen: dict[str, Any], progress: options.StageProgress, smallest_side: int, for_page: bool
) -> Opened:
    """Open data that features are learned from. A mixture of gray and color images becomes color."""
    from ..datasets.opening import open_data, rows_have_names

    side, channels = chosen["longest_side"], chosen["channels"]
    if rows_have_names(path):
        channels = channels or "auto"
        if for_page and side is None:
            side = _LONGEST_SIDE
        if side is not None and side < smallest_side:
            raise click.UsageError(f"--longest-side {side} is too small: patches and grid need {smallest_side} pixels")
    opened = open_data(
        path, smallest_side=smallest_side, longest_side=side, channels=channels, skip_bad=chosen["skip_bad"],
        follow_links=chosen["follow_links"], key=chosen["key"], columns=chosen.get("columns") or None,
        drop=chosen["drop"], progress=progress,
    )  # fmt: skip
    if channels == "auto" and getattr(opened, "channels", None) == "color":
        options.tell(f"{path} has gray and color images; all are converted to color", err=True)
    return opened


def _features_from(path: Path, found: Inputs) -> Array:
    """Return the rows of a file of features, in the order of the samples."""
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
    named = None if found.names is None else archived_names(path, len(rows))
    if named is not None and found.names is not None:
        place = {name: k for k, name in enumerate(named)}
        if missing := [name for name in found.names if name not in place]:
            raise click.ClickException(
                f"{path} lacks the features of {len(missing)} of {len(found.names)} images, such as {missing[0]!r}: "
                f"compute them again with epls transform"
            )
        return rows[[place[name] for name in found.names]]
    if len(rows) != len(found.data):
        raise click.ClickException(
            f"{path} has features of {len(rows)} samples, but the data have {len(found.data)}: use the features of "
            f"these data"
        )
    return rows


def labels_for(found: Inputs, path: Path | None) -> list[Label | None] | None:
    """Return the labels of the samples from a .csv file."""
    from ..datasets.labels import labels_of, read_labels

    return None if path is None else labels_of(read_labels(path), found.sample_names, found.path)


def features_of(found: Inputs, chosen: dict[str, Any], progress: options.StageProgress) -> Any:
    """Return a row for each sample: given features, those of a model or learned from images, or vectors as they are."""
    from ..images.models import feature_rows
    from ..images.recipes import learned_features

    if found.features is not None:
        return found.features
    if found.model is not None:
        return feature_rows(found.model, found.data, progress)
    if found.vectors is not None:
        return found.samples()
    learning = {name: chosen[name] for name in ("layers", "mirror", "random_state")}
    return learned_features(found.data, **learning, progress=progress)[0]  # type: ignore[arg-type]
