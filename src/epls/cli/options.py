"""Options that several commands share, each named after the parameter that it sets; and what commands print."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ..encoders import ENCODERS
from ..learners import LEARNERS
from ..utils.processes import rank
from ..utils.wording import counted, listed

if TYPE_CHECKING:
    from rich.console import Console

Option: TypeAlias = Callable[[Any], Any]

_SECONDS_BETWEEN_LINES = 30.0  # of progress
_SHORT_NAMES = {"sc": "sparse_coding"}

learner_choice = click.Choice(list(LEARNERS))
encoder_choice = click.Choice([*ENCODERS, *_SHORT_NAMES])


class _GivenPath(click.Path):
    """A path that is not empty: Python would read an empty one as the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty: give the path of a file or a folder", param, context)
        return super().convert(value, param, context)


class _InputPath(_GivenPath):
    """A path that something is at: a wrong one is reported before any library is loaded."""

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        path = super().convert(value, param, context)
        if not path.exists():
            kind = "file" if path.suffix or (param and param.name != "data") else "file or folder"
            raise click.ClickException(f"there is no {kind} {path}: check the path")
        return path


path_type, input_path = _GivenPath(path_type=Path), _InputPath(path_type=Path)


def together(*options: Option) -> Option:
    """Return several options as one, in the order of the help."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _option(*names: str, help: str, default: Any = None, usual: str = "", **settings: Any) -> Option:
    """Return an option whose help ends with its default; ``usual`` describes it if there is no value."""
    told = f"  [default: {usual}]" if usual else ""
    return click.option(*names, default=default, show_default=default is not None, help=help + told, **settings)


def output(help: str, ending: str = "") -> Option:
    """Return the option for the file to write, whose name must have the given ending."""

    def check(context: click.Context, parameter: click.Parameter, path: Path) -> Path:
        if ending and path.suffix.lower() != ending:
            raise click.UsageError(f"--output {path}: choose a name that ends in {ending}", context)
        return path

    return click.option("-o", "--output", type=path_type, required=True, help=help, callback=check)


# Options whose default or help differs from command to command.
learner = partial(
    _option, "--learner", type=learner_choice, metavar="NAME",
    help=f"What learns the components: {', '.join(LEARNERS)}.",
)  # fmt: skip
n_components = partial(
    _option, "--n-components", "--units", "n_components", type=click.IntRange(min=1), help="Components to learn."
)
n_patches = partial(
    _option, "--n-patches", "--patches", "n_patches", type=click.IntRange(min=2), help="Patches to learn from."
)
n_folds = partial(_option, "--n-folds", "--folds", "n_folds", type=click.IntRange(1, 10))
#: For what has no option of its own, see :func:`settings_of`.
settings = partial(click.option, "--set", "settings", multiple=True)
longest_side = partial(
    _option, "--longest-side", type=click.IntRange(min=1),
    help="Shrink images so that no side has more pixels than this.",
)  # fmt: skip

random_state = _option(
    "--random-state", "--seed", "random_state", type=click.IntRange(0, 2**32 - 1), default=0,
    help="Seed of all random choices.",
)  # fmt: skip
threads = _option("--threads", type=click.IntRange(min=1), help="Threads to use.", usual="all cores")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
force = click.option("--force", is_flag=True, help="Overwrite existing files.")
array_key = _option("--key", help="Name of the array in a .npz file.", usual="the only one, or X, images or features")
model = _option(
    "--model", type=input_path, metavar="FILE",
    help="Compute the features with this model, which `epls fit` wrote.",
    usual="learn features from images, use vectors unchanged",
)  # fmt: skip
cache = _option("--cache/--no-cache", default=True,
                help="Keep features of images for the next command on the same files; see `epls cache`.")  # fmt: skip
grid = _option("--grid", type=click.IntRange(min=1), default=2, help="Pool over grid x grid regions.")
#: What is learned from images.
recipe = together(
    _option("--layers", type=click.IntRange(min=1, max=5), help="Layers to learn, each from the maps of the one below.",
            usual="2 for up to 1,000 images of 96 x 96 pixels, or as many pixels in other sizes, otherwise 1"),
    _option("--mirror/--no-mirror", default=True,
            help="Treat an image and its mirror image as the same. Not for digits and letters."),
)  # fmt: skip
#: A single layer, which the recipe chooses unless they are given.
patches = together(
    _option("--patch-size", type=click.IntRange(min=1), help="Width and height of patches, in pixels.",
            usual="follows from the images, at most 10"),
    n_patches(usual="follows from the images"),
    _option("--stride", type=click.IntRange(min=1), help="Pixels from one patch to the next.",
            usual="follows from the images"),
)  # fmt: skip
#: How a folder of images is read.
image_folder = together(
    click.option("--skip-bad", is_flag=True, help="Skip images that cannot be read, and list them."),
    click.option("--follow-links", is_flag=True, help="Follow links that lead out of the folder, too."),
    _option("--channels", type=click.Choice(["gray", "color", "all"]), usual="unchanged",
            help="Convert all images; all: read every band of TIFF files as it is stored."),
)  # fmt: skip
drop = click.option("--drop", multiple=True, metavar="COLUMN",
                    help="A column of a table to leave out; may be given several times.")  # fmt: skip
#: How vectors are read.
vectors = together(
    _option("--scale/--no-scale", help="Standardise the columns of vectors first.", usual="only those of tables"),
    click.option("--columns", multiple=True, metavar="COLUMN",
                 help="A column of a table to use; may be given several times.  [default: all]"),
    drop,
    array_key,
)  # fmt: skip
#: How a command runs that writes one file.
running = together(random_state, threads, force, as_json)


def full_name(encoder: str) -> str:
    """Return the full name of an encoder, which may be given by its short name."""
    return _SHORT_NAMES.get(encoder, encoder)


def settings_of(assignments: tuple[str, ...], parts: list[str], named: str) -> dict[str, dict[str, Any]]:
    """Parse PART.NAME=VALUE into the settings of each part; without PART, they belong to the part "" if allowed.

    Numbers, true, false and null are as in JSON, everything else is text.
    """
    found: dict[str, dict[str, Any]] = {part: {} for part in parts}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        part, _, setting = name.rpartition(".")
        if not equals or part not in found or not setting:
            raise click.UsageError(f"--set {assignment}: write it as {named}")
        try:
            found[part][setting] = json.loads(value)
            json.dumps(found[part][setting], allow_nan=False)  # as it will be written
        except json.JSONDecodeError:
            found[part][setting] = value
        except ValueError as error:
            raise click.UsageError(f"--set {assignment}: numbers must be finite") from error
    return found


def refuse(context: click.Context, reasons: dict[str, str]) -> None:
    """Refuse options that were given but do not apply: ``reasons`` has the text that follows the name of each."""
    for name, reason in reasons.items():
        if context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
            parameter = next(parameter for parameter in context.command.params if parameter.name == name)
            negated = context.params[name] is False and parameter.secondary_opts
            raise click.UsageError(f"{(negated or parameter.opts)[0]} {reason}")


def one_line(text: str) -> str:
    """Escape control characters, which a terminal would obey: file names and notes may be untrusted."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def tell(text: str, err: bool = False, *, anywhere: bool = False) -> None:
    """Print lines on stdout or stderr with control characters escaped. All output of commands goes through here.

    Of several processes, only the first prints, unless ``anywhere``.
    """
    if anywhere or rank() == 0:
        _echo("\n".join(map(one_line, text.split("\n"))), err)


def tell_skipped(data: Any, first: int = 0) -> None:
    """List on stderr the files of a folder that were skipped, from the first that has not been listed."""
    for file, reason in getattr(data, "skipped", ())[first:]:
        tell(f"skipped {one_line(str(file))}: {one_line(reason)}", err=True)


def tell_columns(data: Any) -> None:
    """List on stderr the columns of a table that are used, and warn about those that do not look like measurements."""
    from ..datasets.tables import doubtful_columns

    names = getattr(data, "columns", None)
    if names is None:
        return
    are = "is" if len(names) == 1 else "are"
    named = "" if data.names is None else f"; {data.key} names the rows"
    tell(one_line(f"{counted(len(names), 'columns')} {are} used: {listed(names, most=10)}{named}"), err=True)
    told = {
        "label": "look like labels, which features should not be learned from",
        "identifier": "look like identifiers, by their names or because all values are different whole numbers",
        "constant": "have only one value and carry no information",
    }
    for kind, columns in doubtful_columns(data.X, names).items():
        advice = f"leave them out with --drop {shlex.quote(columns[0])}" if kind != "constant" else "they do no harm"
        tell(one_line(f"epls: warning: columns that {told[kind]}: {listed(columns)}; {advice}"), err=True)


@contextmanager
def going_on(checkpoint: Path | None = None) -> Iterator[None]:
    """Say how to continue after Ctrl-C: finished stages are kept, or a checkpoint if one has been written."""
    try:
        yield
    except KeyboardInterrupt as error:
        if checkpoint is not None and not any(checkpoint.rglob("checkpoint-*")):
            raise
        where = "" if checkpoint is None else f" from {checkpoint}"
        raise click.ClickException(f"interrupted; run the same command to continue{where}") from error


def check_output(path: Path, force: bool, *inputs: Path | None) -> None:
    """Refuse to overwrite files, above all inputs, and fail before an hour of work if writing is impossible."""
    from ..datasets.opening import is_part_of

    for given in filter(None, inputs):
        if path.exists() and (path.samefile(given) or (given.is_dir() and is_part_of(path, given))):
            raise click.ClickException(f"{path} is an input: choose another output")
    if path.is_dir():
        raise click.ClickException(f"{path} is a folder: choose the name of a file")
    if path.exists() and not path.is_file():
        raise click.ClickException(f"{path} is not a regular file: choose another name")
    if path.exists() and not force:
        raise click.ClickException(f"{path} already exists: choose another name, or overwrite it with --force")
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent  # links are followed
    if not folder.exists():
        raise click.ClickException(f"the folder {folder} does not exist: create it, or choose another folder")
    _check_writable(folder)


def check_output_folder(folder: Path, *names: str) -> None:
    """Do the same for a folder, which is created if missing, and for the stages and files in it that are replaced."""
    _check_writable(next(place for place in (folder, *folder.absolute().parents) if place.exists()))
    for path in (folder / "stages", *(folder / name for name in names)):
        if path.exists() and not (path.is_dir() if path.name == "stages" else path.is_file()):
            found = "is a folder" if path.is_dir() else "is not a folder"
            raise click.ClickException(f"{path} {found}: remove it, or choose another folder to write to")


def _check_writable(folder: Path) -> None:
    if not folder.is_dir():
        raise click.ClickException(f"{folder} is a file, not a folder: choose another folder")
    if not os.access(folder, os.W_OK):
        raise click.ClickException(f"not allowed to write to the folder {folder}: choose another one")


def write_filters(features: Any, path: Path) -> list[str]:
    """Write a picture of the filters of image features, if Pillow is installed; return the names of the files."""
    from ..plotting import filter_grid
    from ..utils.files import write_atomically
    from ..utils.optional import require

    try:
        image = require("PIL.Image", "images", "the picture")
    except ImportError as error:
        tell(f"no picture of the filters: {error}", err=True)
        return []
    shape = (features.patch_size, features.patch_size, features.n_channels_)
    grid = filter_grid(features.encoder_.components(), shape)
    picture = io.BytesIO()
    image.fromarray(grid.repeat(6, axis=0).repeat(6, axis=1)).save(picture, "PNG")
    write_atomically(path, picture.getvalue())
    return [str(path)]


def limited(threads: int | None) -> Any:
    """Limit the number of threads, as a context manager."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(threads)


def print_result(as_json: bool, facts: dict[str, Any], text: str) -> None:
    """Print what a command has done, as JSON or in words."""
    if as_json:
        print_json(facts)
    else:
        tell(text)


def print_json(value: Any) -> None:
    """Print a value as JSON; of several processes, only the first."""
    if rank() == 0:
        _echo(json.dumps(value, indent=1, allow_nan=False, default=str))


def _echo(text: str, err: bool = False) -> None:
    """Print. If stdout is a file on a full disk, say so: the files that the command wrote are complete."""
    try:
        click.echo(text, err=err)
    except OSError as error:
        if err or error.errno == errno.EPIPE:  # click ends the command if the reader has closed the pipe
            raise
        # Python must not try to write the rest again when it exits.
        with suppress(OSError):  # stdout is not a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.ClickException(
            f"the output of the command could not be printed ({error.strerror}): redirect it elsewhere; files that the "
            f"command wrote are complete"
        ) from error


class StageProgress:
    """Shows progress on stderr: in a terminal, bars with the time left; elsewhere, a line now and then.

    It is a context manager that is called with the name of a stage, the steps done and the total number of steps.
    """

    def __init__(self, console: Console | None = None) -> None:
        from rich import progress
        from rich.console import Console

        self._console = console or Console(stderr=True, quiet=rank() > 0)
        columns = (
            progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(), progress.TextColumn("left"), progress.TimeRemainingColumn(),
        )  # fmt: skip
        self._bars = progress.Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._stages: dict[str, Any] = {}
        self._first: dict[str, tuple[float, int]] = {}
        self._last_line = -_SECONDS_BETWEEN_LINES

    def __enter__(self) -> StageProgress:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._console.is_terminal:
            if stage not in self._stages:
                self._stages[stage] = self._bars.add_task(stage, total=total)
            self._bars.update(self._stages[stage], completed=done, total=total)
            return
        now = time.monotonic()
        # Steps done by an earlier run say nothing about the speed of this one.
        started, done_before = self._first.setdefault(stage, (now, done))
        if done == total or now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            left = ""
            if done_before < done < total:
                left = f", {(now - started) * (total - done) / (done - done_before):.0f} s left"
            self._console.print(f"{stage}: {done} of {total}{left}", highlight=False)
