"""Learners of the user's own for ``epls compare``: loaded from a module or a file, which runs its code on purpose."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import click


class LearnerType(click.Choice):  # type: ignore[type-arg]
    """A learner of the library by its name, or MODULE:CLASS or FILE.py:CLASS."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the name; it is loaded later."""
        return value if ":" in str(value) else super().convert(value, parameter, context)


def load_own(names: Iterable[str], taken: Iterable[str]) -> dict[str, Any]:
    """Return a new estimator for each MODULE:CLASS or FILE.py:CLASS, by the name of its class.

    Names that are ``taken`` belong to learners of the library in the same comparison. Importing the module runs its
    code. Modules are found as by ``python -m``: in the current folder first.
    """
    found: dict[str, Any] = {}
    taken = set(taken)
    for given in names:
        where, _, name = given.rpartition(":")
        if not where or not name.isidentifier():
            raise click.UsageError(f"--learner {given}: write it as MODULE:CLASS or FILE.py:CLASS")
        if name in found or name in taken:
            raise click.UsageError(
                f"--learner {given}: another learner is called {name}; give one of them another name"
            )
        found[name] = _estimator(_module(where, given), name, given)
    return found


def _module(where: str, given: str) -> ModuleType:
    path = Path(where)
    if path.suffix == ".py" and not path.is_file():
        raise click.UsageError(f"--learner {given}: there is no file {where}")
    if path.suffix != ".py" and (path.is_file() or not all(part.isidentifier() for part in where.split("."))):
        raise click.UsageError(f"--learner {given}: {where} is neither a module nor a .py file")
    folder = str(path.resolve().parent) if path.suffix == ".py" else os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        if path.suffix != ".py":
            return import_module(where)
        name = f"own_{path.stem}"  # a file may be called like a module that is loaded already
        spec = spec_from_file_location(name, path)
        assert spec is not None  # for a name that ends in .py
        assert spec.loader is not None
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise click.ClickException(f"--learner {given}: importing {where} failed: {_reason(error)}") from error
    return module


def _estimator(module: ModuleType, name: str, given: str) -> Any:
    kind = getattr(module, name, None)
    if not inspect.isclass(kind):
        there = [
            key for key, value in vars(module).items() if _is_learner(value) and value.__module__ == module.__name__
        ]
        has = ", ".join(there) or "none"
        raise click.UsageError(f"--learner {given}: there is no class {name}; classes with fit and transform: {has}")
    if not _is_learner(kind) or not hasattr(kind, "get_params"):
        raise click.UsageError(
            f"--learner {given}: {name} must have fit, transform and get_params, as a subclass of epls.Learner or of "
            f"scikit-learn's BaseEstimator and TransformerMixin has"
        )
    try:
        learner: Any = kind()
    except (Exception, SystemExit) as error:
        raise click.ClickException(f"--learner {given}: {name}() failed: {_reason(error)}") from error
    try:
        learner.get_params()
    except (Exception, SystemExit) as error:
        raise click.ClickException(
            f"--learner {given}: get_params of {name} failed: {_reason(error)}; its __init__ must store each parameter "
            f"under its own name"
        ) from error
    return learner


def _is_learner(value: Any) -> bool:
    return inspect.isclass(value) and hasattr(value, "fit") and hasattr(value, "transform")


def _reason(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it called sys.exit({error.code!r})"
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
