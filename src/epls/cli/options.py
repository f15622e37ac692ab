"""Options that several commands have."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def open_images(
    path: Path, smallest_side: int, channels: str | None, skip_bad: bool, expected: str | None = None
) -> Any:
    """The images of a folder, or of a .npy file as a memory map; tells on stderr what is left out."""
    import numpy as np

    from ..datasets.folder import ImageFolder

    if path.suffix == ".npy" and path.is_file():
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path} is not an array of images that NumPy can read ({error})") from error
    folder = ImageFolder(
        path,
        channels=channels,  # type: ignore[arg-type]
        expected=expected,  # type: ignore[arg-type]
        smallest_side=smallest_side,
        skip_bad=skip_bad,
    )
    for file, reason in folder.skipped:
        click.echo(f"skipped {file}: {reason}", err=True)
    return folder


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
