"""Options that several commands have."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ..images.features import ImageFeatures

LEARNER_NAMES = [
    "epls", "ica", "kmeans", "omp", "psd", "random_patches", "raw", "rica", "sparse_autoencoder", "sparse_coding",
    "sparse_filtering", "sparse_rbm",
]  # fmt: skip
ENCODER_NAMES = ["natural", "soft_threshold", "sparse_coding", "triangle", "sc"]

_BYTES_OF_BLOCKS = 2**28

Command = TypeVar("Command", bound=Callable[..., Any])

seed = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Fixes all that is random."
)
threads = click.option("--threads", type=click.IntRange(min=1), help="Threads to use.  [default: all cores]")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
force = click.option("--force", is_flag=True, help="Overwrite what is there.")


learner = click.option(
    "--learner", type=click.Choice(LEARNER_NAMES), default="epls", show_default=True, help="What learns the bases."
)
split_sign = click.option("--split-sign/--no-split-sign", default=None,
                          help="Codes with the mirrored bases, too: twice as many features.  "
                          "[default: the encoder's]")  # fmt: skip
grid = click.option(
    "--grid", type=click.IntRange(min=1), default=2, show_default=True, help="Pool over grid x grid regions."
)
pooling = click.option("--pooling", type=click.Choice(["log", "sum", "mean"]), default="log", show_default=True,
                       help="How codes are pooled; sum is the paper's.")  # fmt: skip


def stride(default: int) -> Callable[[Command], Command]:
    """The option of the pixels from one encoded patch to the next."""
    return click.option(
        "--stride", type=click.IntRange(min=1), default=default, show_default=True, help="Pixels from patch to patch."
    )


def image_folder(command: Command) -> Command:
    """The options that say how a folder of images is read."""
    skip_bad = click.option("--skip-bad", is_flag=True, help="Leave out images that cannot be used, and list them.")
    channels = click.option(
        "--channels", type=click.Choice(["grey", "colour"]), help="Convert all images.  [default: as they are]"
    )
    return skip_bad(channels(command))


longest_side = click.option(
    "--longest-side", type=click.IntRange(min=1), help="Shrink larger images to so many pixels.  [default: as they are]"
)


def full_name(encoder: str) -> str:
    """Of an encoder; sc is short for sparse_coding."""
    return {"sc": "sparse_coding"}.get(encoder, encoder)


array_key = click.option("--key", help="The array of a .npz file.  [default: the only one, X or images]")


@dataclass(frozen=True)
class Vectors:
    """Samples in rows, and the names of the columns if they have some."""

    X: Any
    names: list[str] | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def in_memory(self) -> Any:
        """An array or memory map of them; of data that are read in blocks, as many as take a quarter of a gigabyte."""
        from ..data.blocks import as_blocks

        return self.X if as_blocks(self.X) is None else self.some(max(1, _BYTES_OF_BLOCKS // (8 * self.X.shape[1])))

    def some(self, n_rows: int) -> Any:
        """So many samples, from everywhere, or all."""
        import numpy as np

        from ..data.blocks import as_blocks

        blocks = as_blocks(self.X)
        if blocks is None:
            return np.asarray(self.X[np.linspace(0, len(self) - 1, min(n_rows, len(self))).astype(int)])
        numbers = np.random.RandomState(0).permutation(len(blocks.sizes))
        n_blocks = int(np.searchsorted(np.cumsum(blocks.sizes[numbers]), n_rows)) + 1
        return np.concatenate([blocks.read(int(number)) for number in numbers[:n_blocks]])[:n_rows]


def open_data(
    path: Path,
    *,
    smallest_side: int = 1,
    longest_side: int | None = None,
    channels: str | None = None,
    skip_bad: bool = False,
    expected: str | None = None,
    key: str | None = None,
    drop: tuple[str, ...] = (),
    columns: list[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Any:
    """Vectors, or images: those of a folder, or an array of three or four dimensions.

    A folder is one of image files, a zarr array, or one of .npy files that hold vectors.

    Tells on stderr what is left out. Options that have no meaning for the kind of data are refused.
    """
    from ..datasets.folder import ImageFolder
    from ..datasets.tables import ARRAYS, TABLES, load_array, load_table
    from ..images.collection import ChunkedImages

    suffix = path.suffix.lower() if not path.is_dir() else next(iter(_folder_kinds(path)), "")
    for name, given, kinds in (
        ("drop", drop, TABLES),
        ("key", key, (".npz",)),
        ("channels", channels, ("",)),
        ("skip-bad", skip_bad, ("",)),
        ("longest-side", longest_side, ("",)),
    ):
        if given and suffix not in kinds:
            raise click.UsageError(f"--{name} is for {' and '.join(kinds) or 'folders of images'}, not for {path}")
    if suffix in TABLES:
        return Vectors(*load_table(path, drop, columns))
    if suffix == "shards":
        from ..data.blocks import open_shards

        return Vectors(open_shards(path))
    if suffix in (*ARRAYS, "zarr"):
        array = _zarr_array(path) if suffix == "zarr" else load_array(path, key)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{path} holds values of type {array.dtype}: samples and pixels must be real numbers")
        if array.ndim == 2:
            return Vectors(array)
        if array.ndim not in (3, 4):
            raise ValueError(
                f"{path} has an array of shape {array.shape}; vectors have shape (n, n_features), images (n, height, "
                f"width) or (n, height, width, channels)"
            )
        return ChunkedImages(array) if suffix == "zarr" else array
    if path.is_file():
        raise ValueError(
            f"{path} is no folder of images, and its name does not end in {', '.join((*ARRAYS, *TABLES))}: give one of "
            f"these, and a single image in a folder"
        )
    folder = ImageFolder(
        path,
        channels=channels,  # type: ignore[arg-type]
        expected=expected,  # type: ignore[arg-type]
        smallest_side=smallest_side,
        longest_side=longest_side,
        skip_bad=skip_bad,
        progress=progress,
    )
    for file, reason in folder.skipped:
        click.echo(f"skipped {file}: {reason}", err=True)
    return folder


def _folder_kinds(path: Path) -> Iterator[str]:
    if any((path / name).exists() for name in ("zarr.json", ".zarray")):
        yield "zarr"
        return
    files = [file for file in path.iterdir() if not file.name.startswith(".")]
    if files and all(file.suffix == ".npy" and file.is_file() for file in files):
        yield "shards"


def _zarr_array(path: Path) -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError(f'{path} is a zarr array, and reading it needs zarr: pip install "epls[zarr]"') from error
    try:
        return zarr.open_array(path, mode="r")
    except Exception as error:  # zarr, its codecs and JSON have errors of their own
        raise ValueError(f"{path} is not a zarr array that can be read ({error})") from error


def open_data_of(
    model: Any, notes: dict[str, Any], path: Path, *, channels: str | None, skip_bad: bool, key: str | None,
    smallest_side: int, progress: Callable[[str, int, int], None],
) -> Any:  # fmt: skip
    """Data for a model: images for features of images, else vectors, with the columns that it was fitted on.

    Images are read as those were that the model was learned from, unless that is asked for otherwise.
    """
    features = image_features(model)
    folder: dict[str, Any] = {"channels": channels, "skip_bad": skip_bad}
    if features is not None and path.is_dir():
        folder["channels"] = channels or notes.get("channels")
        folder["expected"] = {1: "grey", 3: "colour"}.get(features.n_channels_)
        folder["longest_side"] = notes.get("longest_side")
    names = getattr(model, "feature_names_in_", None)
    columns = notes.get("feature_names") or (None if names is None else [str(name) for name in names])
    data = open_data(path, smallest_side=smallest_side, key=key, columns=columns, progress=progress, **folder)
    if (features is not None) == isinstance(data, Vectors):
        kinds = ("vectors", "images") if features is None else ("images", "vectors")
        raise ValueError(f"the model was learned from {kinds[0]}, but {path} holds {kinds[1]}")
    return data


def image_features(model: Any) -> ImageFeatures | None:
    """The features of images in a model, which may be the first step of a pipeline; None for a model of vectors."""
    from ..images.features import ImageFeatures

    first = model[0] if hasattr(model, "steps") else model
    return first if isinstance(first, ImageFeatures) else None


def learner_of(model: Any) -> Any:
    """The learner in a model, which may be the last step of a pipeline."""
    features = image_features(model)
    if features is not None:
        return features.estimator_
    return model[-1] if hasattr(model, "steps") else model


def check_output(path: Path, force: bool) -> None:
    """Refuse to overwrite, or to work for an hour for a place that cannot be written to."""
    if path.is_dir():
        raise click.ClickException(f"{path} is a folder: give the name of a file")
    if path.exists() and not force:
        raise click.ClickException(f"{path} is there already: give another name, or --force to overwrite it")
    if not path.parent.is_dir():
        raise click.ClickException(f"there is no folder {path.parent}: make it, or give another place")
    if not os.access(path.parent, os.W_OK):
        raise click.ClickException(f"not allowed to write to the folder {path.parent}: give another place")


def png_of(figure: Any, dpi: int) -> bytes:
    """A picture of matplotlib as the content of a file, to be written as a whole."""
    picture = io.BytesIO()
    figure.savefig(picture, dpi=dpi)
    return picture.getvalue()


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """No more than so many threads."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(threads):
        yield


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=1, allow_nan=False, default=str))
