"""The contents of model files: every class declares what it saves, and everything is checked before use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


class Floats:
    """An array of finite floating-point numbers, all ``above`` a limit if one is given.

    Its ``shape`` has names of sizes, such as "n_features" or "n_features + 1": the same in all arrays of a model.
    """

    def __init__(self, *shape: str, above: float | None = None) -> None:
        self.shape = shape
        self.above = above

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> Any:
        """Return the value if it is allowed, otherwise raise an error. Add sizes that were unknown before."""
        if not isinstance(value, np.ndarray) or value.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} must be an array of float32 or float64")
        if value.ndim != len(self.shape) or value.size == 0:
            raise ValueError(f"{name} has shape {value.shape}, but must have shape ({', '.join(self.shape)})")
        for length, size in zip(value.shape, self.shape, strict=True):
            base, _, more = size.partition("+")
            expected = sizes.setdefault(base.strip(), length - int(more or 0)) + int(more or 0)
            if length != expected:
                raise ValueError(f"{name} has shape {value.shape}, but {size} is {expected}")
        if not np.isfinite(value).all():
            raise ValueError(f"{name} must be finite")
        if self.above is not None and not (value > self.above).all():
            raise ValueError(f"{name} must be above {self.above:g}")
        return value


@dataclass(frozen=True)
class Number:
    """A finite float, int or bool within limits, or a list of ``many``."""

    kind: type = float
    at_least: float | None = None
    above: float | None = None
    many: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> Any:
        """Return the value if it is allowed, an int as a float where one is expected; otherwise raise an error."""
        if isinstance(value, list) != self.many:
            raise ValueError(f"{name} must be {'a list of numbers' if self.many else 'a number'}")
        for number in value if self.many else [value]:
            right_type = type(number) is self.kind or (self.kind is float and type(number) is int)
            # Python's integers have no limit, and may be too large for a float.
            if not right_type or not (abs(number) < 2**63 if type(number) is int else np.isfinite(number)):
                raise ValueError(f"{name}={number!r:.40} must be a finite number of type {self.kind.__name__}")
            if (self.at_least is not None and number < self.at_least) or (
                self.above is not None and number <= self.above
            ):
                limit = f"at least {self.at_least:g}" if self.above is None else f"above {self.above:g}"
                raise ValueError(f"{name}={number!r} must be {limit}")
        return list(map(self.kind, value)) if self.many else self.kind(value)


COUNT = Number(int, at_least=0)
COUNTS = Number(int, at_least=0, many=True)
CURVE = Number(float, many=True)
#: For the rounds in which unused components are replaced.
ROUNDS = {"n_iter_": COUNT, "loss_curve_": CURVE, "n_redrawn_": COUNTS, "n_unused_": COUNT}


class Saved:
    """A model that declares what it saves."""

    #: The :class:`Floats` or :class:`Number` of each attribute in a model file. The first array sets the sizes.
    saved: ClassVar[dict[str, Any]] = {}

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and plain values that :func:`epls.save_model` writes."""
        values = {name: getattr(self, name) for name in self.saved}
        arrays = {name: value for name, value in values.items() if isinstance(self.saved[name], Floats)}
        plain = {name: value for name, value in values.items() if name not in arrays}
        if hasattr(self, "feature_names_in_"):
            plain["feature_names_in_"] = self.feature_names_in_.tolist()
        return arrays, plain

    def _restore_fitted_state(self, arrays: dict[str, Any], plain: dict[str, Any]) -> None:
        sizes: dict[str, int] = {}
        found = {
            name: field.check(name, (arrays if isinstance(field, Floats) else plain)[name], sizes)
            for name, field in self.saved.items()
        }
        self.__dict__.update(found)
        if "n_features" in sizes:
            self.n_features_in_ = sizes["n_features"]
        if "feature_names_in_" in plain:
            self.feature_names_in_ = checked_names(plain["feature_names_in_"], self.n_features_in_)


def checked_names(names: Any, n_features: int) -> NDArray[Any]:
    """Return names of features as scikit-learn keeps them, if there is a string for each feature."""
    if not isinstance(names, list) or len(names) != n_features or not all(isinstance(name, str) for name in names):
        raise ValueError(f"feature_names_in_ must be {n_features} strings")
    return np.asarray(names, dtype=object)
