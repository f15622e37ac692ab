"""The parts of training that change from step to step, for checkpoints."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np


class Stateful:
    """Names the attributes that training depends on. With these restored, it continues as if it had not stopped."""

    state_names: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, Any]:
        """Return the arrays and numbers that change from step to step, by name."""
        return {name: getattr(self, name) for name in self.state_names}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state of a part with the same settings."""
        check_state(state, self.state())
        for name in self.state_names:
            setattr(self, name, state[name])


def check_state(state: dict[str, Any], own: dict[str, Any]) -> None:
    """Raise an error unless a state has the names, types and shapes of another one, and only finite numbers."""
    if state.keys() != own.keys():
        raise ValueError("the state belongs to a training with other parts")
    for name, value in own.items():
        if isinstance(value, np.ndarray):
            given = np.asarray(state[name])
            if given.shape != value.shape or given.dtype.kind != value.dtype.kind:
                raise ValueError(
                    f"{name} has shape {given.shape} and type {given.dtype}, but must have {value.shape} and "
                    f"{value.dtype}"
                )
            if not np.isfinite(given).all():
                raise ValueError(f"{name} must be finite")
        elif type(state[name]) is not type(value) or not np.isfinite(state[name]):
            raise ValueError(f"{name}={state[name]!r} is not a finite number of type {type(value).__name__}")
