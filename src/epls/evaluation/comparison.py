"""Compare several learners and encoders on the same images, under the same protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders import ENCODERS
from ..images.features import ImageFeatures
from ..learners import LEARNERS
from .cache import Cache, read_dict
from .experiment import Progress, Settings, Task, run_experiment


@dataclass(frozen=True)
class Entry:
    """One row of a comparison: accuracy in percent, seconds, settings to tune, and useless components.

    If the learner or the encoder failed, ``failed`` says why, and there are no figures.
    """

    settings: Settings
    accuracy: float = np.nan
    std: float = np.nan
    folds: tuple[float, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    n_meta_parameters: int = 0
    n_units: int = 0
    n_dead: int = 0
    training: dict[str, Any] = field(default_factory=dict)
    failed: str | None = None

    @property
    def name(self) -> str:
        """The name of the row."""
        settings = self.settings
        parts = [settings.learner, *(f"{name}={value}" for name, value in settings.learner_settings.items())]
        parts += ["whitened"] * settings.whiten + [settings.encoder] + ["x2"] * settings.split_sign
        parts += [f"{settings.layers} layers"] * (settings.layers > 1)
        return ", ".join(parts)


def compare_settings(
    all_settings: Sequence[Settings],
    task: Task,
    cache: Cache,
    progress: Progress,
    on_learned: Callable[[int, ImageFeatures], None] = lambda number, features: None,
) -> list[Entry]:
    """Return an entry for each setting, in order; see :func:`run_experiment`. A failure does not stop the others.

    ``on_learned`` is called with the number of an entry and the fitted features.
    """
    n = len(all_settings)
    return [
        one_entry(settings, task, cache, numbered(progress, k + 1, n, settings), partial(on_learned, k))
        for k, settings in enumerate(all_settings)
    ]


def one_entry(
    settings: Settings,
    task: Task,
    cache: Cache,
    progress: Progress,
    on_learned: Callable[[ImageFeatures], None] = lambda features: None,
) -> Entry:
    """Return the entry of an experiment. If the experiment fails, the entry says why."""
    try:
        outcome = run_experiment(settings, task, cache, progress)
    except ValueError as error:
        return Entry(settings, failed=str(error))
    on_learned(outcome.features)
    return Entry(
        outcome.settings,
        accuracy=float(outcome.accuracies.mean()),
        std=float(outcome.accuracies.std()),
        folds=tuple(outcome.accuracies.tolist()),
        seconds=outcome.seconds,
        n_meta_parameters=len(LEARNERS[settings.learner].meta_parameters)
        + len(ENCODERS[settings.encoder].meta_parameters),
        n_units=outcome.training["n_units"],
        n_dead=outcome.training["n_unresponsive"],
        training=outcome.training,
    )


def numbered(progress: Progress, number: int, total: int, settings: Settings) -> Progress:
    """Progress whose stages name the experiment they belong to."""

    def told(stage: str, done: int, n_steps: int) -> None:
        progress(f"{number}/{total} {settings.learner}, {settings.encoder}: {stage}", done, n_steps)

    return told


def as_plain(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return entries for a JSON file, which does not support NaN."""
    plain = [asdict(entry) | {"name": entry.name} for entry in entries]
    for entry in plain:
        entry |= {name: None for name in ("accuracy", "std") if np.isnan(entry[name])}
    return plain


def is_of(path: Path, data: str, all_settings: Sequence[Settings]) -> bool:
    """Return whether the file of a comparison has the same data and settings."""
    there = read_dict(path)
    return bool(there.get("data") == data and there.get("wanted") == plain_settings(all_settings))


def plain_settings(all_settings: Sequence[Settings]) -> Any:
    """Return settings as they are after a round trip through JSON."""
    return json.loads(json.dumps([asdict(settings) for settings in all_settings], allow_nan=False))
