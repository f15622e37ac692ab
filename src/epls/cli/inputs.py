"""The inputs of a command: images or vectors, and the model or the file of features that belongs to them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..utils.optional import require_network
from . import options

if TYPE_CHECKING:
    from ..datasets.labels import Label
    from ..datasets.opening import Opened, Vectors
    from ..report import Computed
    from ..utils.types import Array

_OF_LEARNING = ("layers", "mirror")
_OF_IMAGES: tuple[str, ...] = (*_OF_LEARNING, "network", "patch_size", "n_patches", "encoder", "stride", "grid")
_OF_VECTORS = ("scale",)
_OF_A_MODEL = (*_OF_IMAGES, *_OF_VECTORS, "n_components", "longest_side", "columns", "drop")
LONGEST_SIDE = 256  # pixels: the largest size of pictures on a page


@dataclass(frozen=True)
class Inputs:
    """The inputs of a command: data, and the model that computes features or the features from a file, if given."""

    path: Path
    data: Opened
    names: list[str] | None  # of image files or of vectors
    model: Any
    notes: dict[str, Any]
    features: Array | None = None  # a row for each sample
    features_path: Path | None = None
    model_path: Path | None = None
    opened: float = 0.0  # when

    @property
    def vectors(self) -> Vectors | None:
        from ..datasets.opening import Vectors

        return self.data if isinstance(self.data, Vectors) else None

    @property
    def are_features(self) -> bool:
        """Whether the data are vectors that are used as they are."""
        return self.vectors is not None and self.model is None and self.features is None

    @property
    def kind(self) -> str:
        """The noun for the samples, in the plural."""
        return "images" if self.vectors is None else "vectors"

    @property
    def columns(self) -> list[str] | None:
        return None if self.vectors is None else self.vectors.columns

    @property
    def key(self) -> str:
        """The name of the column that holds the names."""
        return "file" if self.vectors is None else self.vectors.key

    @property
    def n_skipped(self) -> int:
        return len(getattr(self.data, "skipped", ()))

    def scales(self, chosen: dict[str, Any]) -> bool:
        """Return whether vectors are standardised: those of tables, unless the options say otherwise."""
        if self.features is not None:
            return bool(chosen["scale"])
        return self.columns is not None if chosen["scale"] is None else bool(chosen["scale"])

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

        X: Any = self.vectors.X if self.vectors is not None and self.are_features else self.features
        if X is not None and as_blocks(X) is None:  # reading more than fits in memory twice would take too long
            check_squares(X, f"{self.features_path or self.path} has", dtype)


_WITH_ROWS = "a .npz, .npy, .parquet or .csv file"
features = click.option(
    "--features", type=options.input_path, metavar="FILE",
    help=f"Features of DATA, such as embeddings of any network or what `epls transform` wrote: {_WITH_ROWS}. Rows are "
    "matched by name (a column file or id, in .npz the array names); without names, they are in the order of DATA.",
)  # fmt: skip


network = click.option(
    "--network", metavar="NAME",
    help="Compute the features of photographs with a pretrained network: efficientnet_lite0, torchvision:NAME or "
    "timm:NAME.",
)  # fmt: skip
#: How features of images are computed, and how images are read.
of_images = options.together(
    network,
    options.cache,
    options.recipe,
    options.longest_side(usual=f"{LONGEST_SIDE}, or the model's"),
    options.image_folder,
)
#: Where features come from.
sources = options.together(options.model, features, of_images)


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
    from ..datasets.opening import ParameterError, Vectors
    from ..images.models import image_features, open_data_for
    from ..persistence import load_with_notes

    context, opened_at = click.get_current_context(), time.time()
    model, features = chosen.get("model"), chosen.get("features")
    if len(given := [name for name in ("model", "features", "network") if chosen.get(name) is not None]) > 1:
        raise click.UsageError(f"--{' and --'.join(given)}: give only one of them")
    if chosen.get("network") is not None:
        require_network(chosen["network"])  # before images are looked through
    if model is not None:
        options.refuse(context, dict.fromkeys(_OF_A_MODEL, "is set by the model: leave it out"))
    elif given:
        reason = f"is for learning features, but --{given[0]} gives them: leave it out"
        options.refuse(context, dict.fromkeys(_OF_LEARNING, reason))
    loaded, notes = (None, {}) if model is None else load_with_notes(model)
    if model is not None and not hasattr(loaded, "transform"):
        raise click.ClickException(
            f"{model} holds a {type(loaded).__name__}, which has no features: give a model that `epls fit` wrote"
        )
    try:
        if model is None:
            opened = _opened(path, chosen, progress, smallest_side, for_page)
        else:
            image_model = image_features(loaded)
            side = 1 if image_model is None else image_model.smallest_side(grid)
            folder = {name: chosen[name] for name in ("channels", "skip_bad", "follow_links", "key")}
            opened = open_data_for(loaded, notes, path, smallest_side=side, progress=progress, **folder)
    except ParameterError as error:
        raise click.UsageError(f"--{error.parameter.replace('_', '-')} {error.reason}") from error
    options.tell_skipped(opened)
    if isinstance(opened, Vectors):
        others, reason = _OF_IMAGES, f"is for images, but {path} holds vectors: leave it out"
    else:
        others, reason = _OF_VECTORS, f"is for vectors, but {path} holds images: leave it out"
    options.refuse(context, dict.fromkeys(others, reason))
    if model is None and features is None:
        options.tell_columns(opened)
    names = getattr(opened, "names", None)
    found = Inputs(path, opened, names, loaded, notes, model_path=model, opened=opened_at)
    if features is None:
        return found
    return replace(found, features=rows_from(features, "--features", found), features_path=features)


def _opened(
    path: Path, chosen: dict[str, Any], progress: options.StageProgress, smallest_side: int, for_page: bool
) -> Opened:
    """Open data that features are learned from. A mixture of gray and color images becomes color."""
    from ..datasets.opening import open_data, rows_have_names

    side, channels = chosen.get("longest_side"), chosen["channels"]
    if rows_have_names(path):
        channels = channels or "auto"
        if for_page and side is None:
            side = LONGEST_SIDE
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


def rows_from(path: Path, option: str, found: Inputs, n_columns: int | None = None) -> Array:
    """Return the rows of a file that an option names, in the order of the samples, and tell what is left out."""
    from ..datasets.opening import matched_rows

    if path.suffix.lower() not in (".npz", ".npy", ".parquet", ".csv"):
        raise click.UsageError(f"{option} {path}: give {_WITH_ROWS}")
    rows, remarks = matched_rows(path, found.names, len(found.data), found.path, n_columns=n_columns)
    for remark in remarks:
        options.tell(remark, err=True)
    return rows


def labels_for(found: Inputs, path: Path | None) -> list[Label | None] | None:
    """Return the labels of the samples from a file; without one, the sub-folder of each image, or None for vectors."""
    from ..datasets.labels import Label, read_labels

    if path is not None:
        return read_labels(path, found.names, len(found.data), found.path)
    if found.names is None or found.vectors is not None:
        return None
    return [Label(name.split("/")[0]) if "/" in name else None for name in found.names]


def features_of(found: Inputs, chosen: dict[str, Any], progress: options.StageProgress) -> Computed:
    """Return a row for each sample: given features, those of a model or a network or learned, or vectors as they are.

    Features of images are kept for later commands, unless the options say otherwise.
    """
    from ..images.models import feature_rows
    from ..report import Computed
    from .cache import kept_features

    network = chosen.get("network")
    data: Any = found.data
    if found.features is not None:
        return Computed(found.features, "from a file")
    if found.are_features:
        return Computed(found.samples())
    if found.vectors is not None:
        return Computed(feature_rows(found.model, data, progress), "of a model")

    def compute() -> tuple[Array, Any]:
        if network is not None:
            from ..torch.network import network_features

            return network_features(data, network, progress=progress), None
        if found.model is not None:
            return feature_rows(found.model, data, progress), None
        from ..images.recipes import learned_features

        learning = {name: chosen[name] for name in (*_OF_LEARNING, "random_state")}
        return learned_features(data, **learning, progress=progress)

    files = [*getattr(data, "paths", [found.path]), *filter(None, [found.model_path])]
    if chosen["cache"] and all(file.is_file() for file in files):
        names = ("network", *_OF_LEARNING, "random_state", "longest_side", "channels", "key")
        settings = {name: chosen.get(name) for name in names} | {"n_samples": len(data)}
        rows, model = kept_features(files, settings, found.opened, compute)
    else:
        rows, model = compute()
    if network is not None:
        return Computed(rows, f"of the network {network}")
    return Computed(rows, "of a model" if model is None else "learned from them without labels", model or found.model)
