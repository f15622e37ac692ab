"""Several learners and encoders on the same images, under the same protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders import ENCODERS
from ..encoders.natural import NaturalEncoder
from ..images.features import ImageFeatures
from ..learners import LEARNERS
from ..metrics import unresponsive_units
from .cache import Cache, read_dict
from .experiment import Progress, Settings, Task, run_experiment

_PATCHES = 10_000  # that a unit may answer to


@dataclass(frozen=True)
class Entry:
    """One row of a comparison: accuracy in percent, seconds, what there is to tune, and what was learned in vain.

    Where the learner or the encoder failed, ``failed`` says why, and there are no figures.
    """

    settings: Settings
    accuracy: float = np.nan
    std: float = np.nan
    folds: tuple[float, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    n_meta_parameters: int = 0
    n_units: int = 0
    n_dead: int = 0
    failed: str | None = None

    @property
    def name(self) -> str:
        """How the row is called."""
        settings = self.settings
        parts = [settings.learner, *(f"{name}={value}" for name, value in settings.learner_settings.items())]
        parts += ["whitened"] * settings.whiten + [settings.encoder] + ["x2"] * settings.split_sign
        return ", ".join(parts)


def compare(
    all_settings: Sequence[Settings],
    task: Task,
    cache: Cache,
    progress: Progress,
    on_learned: Callable[[int, ImageFeatures], None] = lambda number, features: None,
) -> list[Entry]:
    """An entry for each of the settings, in their order; see :func:`run_experiment`. One that fails stops no other.

    ``on_learned`` is given the number of an entry and the fitted features.
    """
    entries: list[Entry] = []
    for number, settings in enumerate(all_settings, 1):
        prefix = f"{number}/{len(all_settings)} {settings.learner}, {settings.encoder}: "

        def told(stage: str, done: int, total: int, prefix: str = prefix) -> None:
            progress(prefix + stage, done, total)

        try:
            outcome = run_experiment(settings, task, cache, told)
            (n_dead,) = cache.items(
                "dead_units", outcome.learn_inputs, [partial(dead_units, outcome.features, task.unlabelled)]
            )
        except ValueError as error:
            entries.append(Entry(settings, failed=str(error)))
            continue
        on_learned(len(entries), outcome.features)
        entries.append(
            Entry(
                outcome.settings,
                accuracy=float(outcome.accuracies.mean()),
                std=float(outcome.accuracies.std()),
                folds=tuple(outcome.accuracies.tolist()),
                seconds=outcome.seconds,
                n_meta_parameters=len(LEARNERS[settings.learner].meta_parameters)
                + len(ENCODERS[settings.encoder].meta_parameters),
                n_units=len(outcome.features.encoder_.components()),
                n_dead=n_dead,
            )
        )
    return entries


def dead_units(features: ImageFeatures, images: Any) -> int:
    """How many units of the learner answer to 10,000 patches all alike; see :func:`epls.metrics.unresponsive_units`."""
    patches = features.draw_patches(images, _PATCHES, random_state=0)
    return len(unresponsive_units(NaturalEncoder(features.estimator_).transform(patches)))


def as_plain(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Entries for a JSON file, which knows no NaN."""
    plain = [asdict(entry) | {"name": entry.name} for entry in entries]
    for entry in plain:
        entry |= {name: None for name in ("accuracy", "std") if np.isnan(entry[name])}
    return plain


def is_of(path: Path, data: str, all_settings: Sequence[Settings]) -> bool:
    """Whether a file that a comparison was written to is of these data and settings."""
    there = read_dict(path)
    return bool(there.get("data") == data and there.get("wanted") == plain_settings(all_settings))


def plain_settings(all_settings: Sequence[Settings]) -> Any:
    """Settings as they are read from a JSON file."""
    return json.loads(json.dumps([asdict(settings) for settings in all_settings], allow_nan=False))
