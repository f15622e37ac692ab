"""Optional libraries: their absence is an error that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def require(module: str, extra: str, purpose: str = "this") -> Any:
    """Return a module of an optional library, or raise an error that names what needs it and the extra to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # the library is installed, but one of its own dependencies is missing
        raise ImportError(f'{purpose} needs {module.partition(".")[0]}: pip install "epls[{extra}]"') from error


def torch_room(name: str) -> Any:
    """Return the module ``epls.torch.NAME``. Earlier rooms import torch only through this function."""
    return import_module(f"epls.torch.{name}")
