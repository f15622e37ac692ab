"""Options that several commands have."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

seed = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Fixes all that is random."
)
threads = click.option("--threads", type=click.IntRange(min=1), help="Threads to use.  [default: all cores]")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
force = click.option("--force", is_flag=True, help="Overwrite what is there.")


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


array_key = click.option("--key", help="The array of a .npz file.  [default: the only one, X or images]")


@dataclass(frozen=True)
class Vectors:
    """Samples in rows, and the names of the columns if they have some."""

    X: Any
    names: list[str] | None = None

    def __len__(self) -> int:
        return len(self.X)


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
) -> Any:
    """Vectors, or images: those of a folder, or an array of three or four dimensions.

    Tells on stderr what is left out.
    """
    from ..datasets.folder import ImageFolder
    from ..datasets.tables import ARRAYS, TABLES, load_array, load_table

    if path.suffix in TABLES and not path.is_dir():
        return Vectors(*load_table(path, drop, columns))
    if drop:
        raise click.UsageError(f"--drop is for tables ({', '.join(TABLES)}), and {path} is none")
    if path.suffix in ARRAYS and not path.is_dir():
        array = load_array(path, key)
        if array.ndim == 2:
            return Vectors(array)
        if array.ndim not in (3, 4):
            raise ValueError(
                f"{path} has an array of shape {array.shape}; vectors have shape (n, n_features), images (n, height, "
                f"width) or (n, height, width, channels)"
            )
        return array
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
    )
    for file, reason in folder.skipped:
        click.echo(f"skipped {file}: {reason}", err=True)
    return folder


def open_data_of(
    model: Any, notes: dict[str, Any], path: Path, *, channels: str | None, skip_bad: bool, key: str | None,
    smallest_side: int = 1,
) -> Any:  # fmt: skip
    """Data for a model: images for features of images, else vectors, with the columns that it was fitted on
    and images of the size."""
    from ..images.features import ImageFeatures

    of_images = isinstance(model, ImageFeatures)
    expected = {1: "grey", 3: "colour"}.get(model.n_channels_) if of_images else None
    data = open_data(
        path, smallest_side=smallest_side, channels=channels, skip_bad=skip_bad, expected=expected, key=key,
        columns=notes.get("feature_names"), longest_side=notes.get("longest_side"),
    )  # fmt: skip
    if of_images == isinstance(data, Vectors):
        kinds = ("images", "vectors") if of_images else ("vectors", "images")
        raise ValueError(f"the model was learned from {kinds[0]}, but {path} holds {kinds[1]}")
    return data


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


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """No more than so many threads."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(threads):
        yield


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=1))
