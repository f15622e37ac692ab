"""The ``epls`` command. It exits with 0 on success, 1 if it failed or was interrupted, 2 if it was called wrongly."""

from __future__ import annotations

import errno
import io
import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import ClassVar

import click

from .._version import __version__
from ..utils.processes import TOGETHER, n_processes
from .options import one_line, tell


class _LazyGroup(click.Group):
    """Loads a command's module when the command is called: ``epls --help`` must not wait for numba."""

    # The short help of each command; its module has the same name.
    _COMMANDS: ClassVar[dict[str, str]] = {
        "cache": "Show or clear the features of images that are kept for later commands.",
        "classify": "Predict the labels of images or vectors from a few known ones.",
        "cluster": "Divide images or vectors into groups of equal or limited size.",
        "compare": "Compare the accuracy and cost of learners on your images or vectors.",
        "demo": "Learn from bundled data: draw filters, classify digits with few labels.",
        "explore": "Write a web page to look through images or vectors.",
        "fit": "Learn features from images or vectors.",
        "inspect": "Show what is in a model file.",
        "report": "Write a web page about a model.",
        "reproduce": "Run the paper's experiment on STL-10 or CIFAR-10.",
        "transform": "Compute the features of images or vectors with a model.",
    }

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(self._COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._COMMANDS:
            return None
        return import_module(f".{name}", __package__).command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(context, arguments)
        except click.UsageError as error:
            similar = get_close_matches(arguments[0].lower(), self._COMMANDS, n=1)
            if not similar:
                raise
            raise click.UsageError(f"{error.message} Did you mean {similar[0]}?", context) from error

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self._COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="epls")
@click.pass_context
def epls(context: click.Context) -> None:
    """Learn features from unlabelled data with nothing to tune."""
    if n_processes() > 1 and context.invoked_subcommand not in TOGETHER:
        raise click.UsageError(
            f"{context.invoked_subcommand} runs in one process, but {n_processes()} were started: several can run "
            f"{' and '.join(TOGETHER)}"
        )


def run(arguments: list[str] | None = None) -> int:
    """Run the command. Errors are one line on stderr; EPLS_DEBUG=1 shows the traceback of an unexpected one."""
    try:
        with _told_warnings(), _ended_like_ctrl_c():
            epls.main(arguments, prog_name="epls", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        shown = io.StringIO()
        error.show(shown)
        _tell_error(shown.getvalue().rstrip("\n"))
        return 2
    except (KeyboardInterrupt, click.Abort):
        _tell_error("epls: interrupted; no file was left half-written. Run the same command to start again")
        return 1
    except OSError as error:
        _tell_error(f"epls: {one_line(_explain(error))}")
        return 1
    except (click.ClickException, ValueError, TypeError, RuntimeError, ImportError, MemoryError) as error:
        _tell_error(f"epls: {one_line(str(error).strip() or type(error).__name__)}")
        return 1
    except Exception as error:
        if os.environ.get("EPLS_DEBUG"):
            raise
        told = one_line(f"{type(error).__name__}: {error}")
        _tell_error(f"epls: {told}; this is a bug in epls, please report it")
        return 1
    return 0


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """End the command on SIGTERM as on Ctrl-C: half-written files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _TellingHandler(logging.Handler):
    """Prints what the library logs."""

    def emit(self, record: logging.LogRecord) -> None:
        _tell_warning(record.getMessage())


def _tell_error(message: str) -> None:
    tell(message, err=True, anywhere=True)


def _tell_warning(message: str) -> None:
    tell(f"epls: warning: {one_line(message)}", err=True)


@contextmanager
def _told_warnings() -> Iterator[None]:
    """Print each warning and log message as one line on stderr."""
    handler, logger = _TellingHandler(logging.WARNING), logging.getLogger("epls")
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _tell_warning(str(message))
            # The command has already matched columns by name.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            yield
    finally:
        logger.removeHandler(handler)


def _explain(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"the disk is full{where}: free some space, then run the same command again"
    if error.errno in (errno.EFBIG, errno.EDQUOT):
        return f"no room for a file of this size{where}: free some space or raise the limit, then run it again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"not allowed to read or write{where}: check the permissions"
    return str(error)
