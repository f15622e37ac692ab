"""Options that several commands have, each named as the parameter that it sets, and what commands do with them."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from ..encoders import ENCODERS
from ..learners import LEARNERS

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]

_SHORT_NAMES = {"sc": "sparse_coding"}

learner_choice = click.Choice(list(LEARNERS))
encoder_choice = click.Choice([*ENCODERS, *_SHORT_NAMES])
path_type = click.Path(path_type=Path)

random_state = click.option(
    "--random-state", "--seed", "random_state", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True,
    help="Fixes all that is random.",
)  # fmt: skip
threads = click.option("--threads", type=click.IntRange(min=1), help="Threads to use.  [default: all cores]")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
force = click.option("--force", is_flag=True, help="Overwrite what is there.")
learner = click.option("--learner", type=learner_choice, default="epls", show_default=True, metavar="NAME",
                       help=f"What learns the components: {', '.join(LEARNERS)}.")  # fmt: skip
array_key = click.option("--key", help="The array of a .npz file.  [default: the only one, X or images]")
longest_side = click.option(
    "--longest-side", type=click.IntRange(min=1), help="Shrink larger images to so many pixels.  [default: as they are]"
)
split_sign = click.option("--split-sign/--no-split-sign", default=None,
                          help="Codes with the negated components, too: twice as many features.  "
                          "[default: the encoder's]")  # fmt: skip
grid = click.option(
    "--grid", type=click.IntRange(min=1), default=2, show_default=True, help="Pool over grid x grid regions."
)


def n_components(default: int | None, help: str = "Components to learn.") -> Option[Any]:
    """The option of the number of components."""
    return click.option(
        "--n-components", "--units", "n_components", type=click.IntRange(min=1), default=default,
        show_default=default is not None, help=help,
    )  # fmt: skip


def n_patches(least: int, default: int | None = None, usual: str = "") -> Option[Any]:
    """The option of the number of patches; ``usual`` says what it is if there is no default."""
    return click.option(
        "--n-patches", "--patches", "n_patches", type=click.IntRange(min=least), default=default,
        show_default=default is not None, help="Patches to learn from." + (f"  [default: {usual}]" if usual else ""),
    )  # fmt: skip


def n_folds(default: int, help: str) -> Option[Any]:
    """The option of the number of folds."""
    return click.option(
        "--n-folds", "--folds", "n_folds", type=click.IntRange(1, 10), default=default, show_default=True, help=help
    )


def pooling(default: str | None, usual: str = "") -> Option[Any]:
    """The option of how codes are pooled; ``usual`` says what it is if there is no default."""
    return click.option(
        "--pooling", type=click.Choice(["log", "sum", "mean"]), default=default, show_default=default is not None,
        help="How codes are pooled; sum is the paper's." + (f"  [default: {usual}]" if usual else ""),
    )  # fmt: skip


def settings(metavar: str, help: str) -> Option[Any]:
    """The option of settings that have no option of their own, see :func:`parsed_settings`."""
    return click.option("--set", "settings", multiple=True, metavar=metavar, help=help)


def stride(default: int) -> Option[Any]:
    """The option of the pixels from one encoded patch to the next."""
    return click.option(
        "--stride", type=click.IntRange(min=1), default=default, show_default=True, help="Pixels from patch to patch."
    )


def image_folder(command: Command) -> Command:
    """The options that say how a folder of images is read."""
    skip_bad = click.option("--skip-bad", is_flag=True, help="Leave out images that cannot be used, and list them.")
    channels = click.option(
        "--channels", type=click.Choice(["gray", "color"]), help="Convert all images.  [default: as they are]"
    )
    return skip_bad(channels(command))


def full_name(encoder: str) -> str:
    """The name of an encoder, which may be given by its short name."""
    return _SHORT_NAMES.get(encoder, encoder)


def parsed_settings(assignments: tuple[str, ...]) -> dict[str, Any]:
    """Settings from NAME=VALUE: numbers, true, false and null as in JSON, all else as text."""
    found: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"--set {assignment}: give NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def settings_of(assignments: tuple[str, ...], parts: list[str], named: str) -> dict[str, dict[str, Any]]:
    """Settings of each part from PART.NAME=VALUE; those without a part are of the part "", if that is one."""
    found: dict[str, dict[str, Any]] = {part: {} for part in parts}
    for name, value in parsed_settings(assignments).items():
        part, _, setting = name.rpartition(".")
        if part not in found:
            raise click.UsageError(f"--set {name}: give {named}")
        found[part][setting] = value
    return found


@contextmanager
def opening() -> Iterator[None]:
    """An error about a parameter that the data have no use for names the option that sets it."""
    from ..datasets.opening import ParameterError

    try:
        yield
    except ParameterError as error:
        raise click.UsageError(f"--{error.parameter.replace('_', '-')} {error.reason}") from error


def printable(text: str) -> str:
    """Text without control characters, which a terminal would obey: file names and notes come from strangers."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def tell_skipped(data: Any) -> None:
    """Lists on stderr the files of a folder that were left out."""
    for file, reason in getattr(data, "skipped", ()):
        click.echo(printable(f"skipped {file}: {reason}"), err=True)


@contextmanager
def going_on() -> Iterator[None]:
    """Tells how to go on after Ctrl-C: stages that are done are kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise click.ClickException("interrupted; the same command goes on from what is done") from error


def check_output(path: Path, force: bool, *inputs: Path) -> None:
    """Refuse to overwrite, above all what is read, or to work for an hour for a place that cannot be written to."""
    for given in inputs:
        if path.exists() and given.exists() and path.samefile(given):
            raise click.ClickException(f"{path} is what is read from: give another name to write to")
    if path.is_dir():
        raise click.ClickException(f"{path} is a folder: give the name of a file")
    if path.exists() and not path.is_file():
        raise click.ClickException(f"{path} is not a regular file: give another name")
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
