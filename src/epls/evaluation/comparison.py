"""Several learners and encoders on the same images, under the same protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..encoders import NaturalEncoder
from ..images.features import ImageFeatures
from ..images.patches import normalize_patches, sample_patches
from ..learners import LEARNERS
from .cache import Cache
from .experiment import LabelledImages, Progress, Settings, run_experiment

_PATCHES = 10_000  # that a unit may answer to
_ANSWER = 0.1  # of the typical largest answer

# Learners that want whitened patches: with them, the paper's and Coates and Ng's figures are better.
WHITENED = frozenset({"ica", "kmeans", "omp", "random_patches"})
# The encoder that belongs to a learner, where it is not its natural one.
OWN_ENCODERS = {"kmeans": "triangle"}


@dataclass(frozen=True)
class Entry:
    """One row of a comparison: accuracy in percent, seconds, what there is to tune, and what was learned in vain."""

    learner: str
    encoder: str
    split_sign: bool
    whiten: bool
    accuracy: float
    std: float
    learn_seconds: float
    encode_seconds: float
    n_meta_parameters: int
    n_units: int
    n_dead: int

    @property
    def name(self) -> str:
        """How the row is called."""
        parts = [self.learner, "whitened" if self.whiten else "", self.encoder, "x2" if self.split_sign else ""]
        return ", ".join(part for part in parts if part)


def compare(
    all_settings: Sequence[Settings],
    unlabelled: Any,
    train: LabelledImages,
    folds: Sequence[NDArray[np.int64]],
    test: LabelledImages | None,
    cache: Cache,
    progress: Progress,
) -> list[Entry]:
    """An entry for each of the settings, in their order; see :func:`run_experiment`."""
    entries = []
    for number, settings in enumerate(all_settings, 1):
        prefix = f"{number}/{len(all_settings)} {settings.learner}, {settings.encoder}: "

        def told(stage: str, done: int, total: int, prefix: str = prefix) -> None:
            progress(prefix + stage, done, total)

        outcome = run_experiment(settings, unlabelled, train, folds, test, cache, told)
        (n_dead,) = cache.items("dead", outcome.learn_inputs, [partial(dead_units, outcome.features, unlabelled)])
        entries.append(
            Entry(
                learner=settings.learner,
                encoder=settings.encoder,
                split_sign=settings.split_sign,
                whiten=settings.whiten,
                accuracy=float(outcome.accuracies.mean()),
                std=float(outcome.accuracies.std()),
                learn_seconds=outcome.seconds["learn"],
                encode_seconds=outcome.seconds["encode"],
                n_meta_parameters=len(LEARNERS[settings.learner].meta_parameters),
                n_units=len(outcome.features.encoder_.bases()),
                n_dead=n_dead,
            )
        )
    return entries


def dead_units(features: ImageFeatures, images: Any) -> int:
    """How many units of the learner answer to none of 10,000 patches with a tenth of the typical largest answer."""
    pixels = sample_patches(images, _PATCHES, features.patch_size, random_state=0)
    patches = normalize_patches(pixels, contrast_floor=features.contrast_floor_)
    if features.whitening_ is not None:
        patches = features.whitening_.transform(patches)
    largest = NaturalEncoder(features.learner_).transform(patches).max(axis=0)
    return int(np.sum(largest < _ANSWER * np.median(largest)))


def as_plain(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Entries for a JSON file."""
    return [asdict(entry) | {"name": entry.name} for entry in entries]
