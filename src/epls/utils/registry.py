"""Classes by file name: a new learner or encoder is one new file."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any


class Registry(Mapping[str, Any]):
    """The public classes of a package's modules, by the names of the modules.

    Listing the names loads nothing; a class is loaded when it is looked up. Modules called ``base``, or with a leading
    underscore, contain shared code. ``path`` is the ``__path__`` of the package.
    """

    def __init__(self, package: str, path: Iterable[str]) -> None:
        self._package = package
        names = (module.name for module in pkgutil.iter_modules(path))
        self._names = sorted(name for name in names if name != "base" and not name.startswith("_"))

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        module = import_module(f"{self._package}.{name}")
        found = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "meta_parameters")
        ]
        if len(found) != 1:
            raise TypeError(f"{module.__file__} must define one class with meta_parameters, but defines {len(found)}")
        return found[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
