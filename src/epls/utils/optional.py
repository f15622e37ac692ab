"""Optional libraries: where they are missing, an error says what to install."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def torch_room(name: str) -> ModuleType:
    """Return the module ``epls.torch.NAME``, for rooms below ``torch`` that compute on a ``device``.

    Parameters
    ----------
    name : str
        The name of the module, such as "coder".

    Raises
    ------
    ImportError
        If torch is not installed.
    """
    try:
        import_module("torch")
    except ImportError as error:
        raise ImportError('epls.torch, and device=... of a model, need torch: pip install "epls[torch]"') from error
    return import_module(f"epls.torch.{name}")
