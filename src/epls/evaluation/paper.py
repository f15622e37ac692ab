"""Table 2 of Romero, Radeva and Gatta (2014), accuracy on the test set of STL-10 as mean (std) over folds, and ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .cache import Cache
from .comparison import as_plain, compare
from .experiment import Progress, Settings, Task

# Of each data set: how it is written, the side of its patches, and its folds.
TITLES = {"stl10": "STL-10", "cifar10": "CIFAR-10"}
PATCH_SIZES = {"stl10": 10, "cifar10": 6}
_FOLDS = {"stl10": 10, "cifar10": 1}


@dataclass(frozen=True)
class Row:
    """A row of the table; with a plain learner's name, encoder, and whether the signs were split."""

    method: str
    learner: str
    encoder: str
    split_sign: bool
    whiten: bool
    accuracy: float
    std: float | None


TABLE_2 = (
    Row("RICA, 1600, natural", "rica", "natural", False, False, 52.9, None),
    Row("OMP-1, 1600, natural", "omp", "natural", False, False, 51.8, 0.47),
    Row("OMP-1, whitening, 1600, natural", "omp", "natural", False, True, 53.1, 0.52),
    Row("OMP-1, whitening, 1600x2, natural", "omp", "natural", True, True, 54.5, 0.66),
    Row("OMP-1, whitening, 1600x2, SC", "omp", "sparse_coding", True, True, 59.0, 0.80),
    Row("Raw pixels", "raw", "natural", False, False, 31.8, 0.62),
    Row("ICA, whitening, complete, natural", "ica", "natural", False, True, 48.0, 1.47),
    Row("K-means-tri, whitening, 1600", "kmeans", "triangle", False, True, 51.5, 1.73),
    Row("Sparse filtering, 1600, natural", "sparse_filtering", "natural", False, False, 53.5, 0.53),
    Row("EPLS, 1600, natural", "epls", "natural", False, False, 56.6, 0.66),
    Row("EPLS, 1600x2, natural", "epls", "natural", True, False, 56.9, 0.50),
    Row("EPLS, 1600x2, SC", "epls", "sparse_coding", True, False, 61.0, 0.58),
)


def row_for(learner: str, encoder: str, split_sign: bool, whiten: bool) -> Row | None:
    """The paper's row for such an experiment, if it has one."""
    wanted = (learner, encoder, split_sign, whiten)
    return next((row for row in TABLE_2 if (row.learner, row.encoder, row.split_sign, row.whiten) == wanted), None)


def row_of(dataset: str, settings: Settings) -> Row | None:
    """The paper's row for an experiment with these settings, if it has one."""
    if (dataset, settings.n_components, settings.patch_size) != ("stl10", 1600, 10) or settings.learner_settings:
        return None
    return row_for(settings.learner, settings.encoder, settings.split_sign, settings.whiten)


def run_table(
    settings: Settings, n_patches: int | None, task: Task, cache: Cache, progress: Progress
) -> list[dict[str, Any]]:
    """The paper's rows with our figures, as plain values; learners and encoders are those of the rows.

    ``n_patches=None`` takes the usual number of each learner.
    """
    wanted = [
        replace(
            settings,
            learner=row.learner,
            learner_settings={},
            n_patches=n_patches,
            encoder=row.encoder,
            alpha=None,
            split_sign=row.split_sign,
            whiten=row.whiten,
        )
        for row in TABLE_2
    ]
    entries = as_plain(compare(wanted, task, cache, progress))
    return [{"paper": asdict(row)} | entry for row, entry in zip(TABLE_2, entries, strict=True)]


def result_name(dataset: str, settings: Settings, task: Task) -> str:
    """A name for the files of a result. It says all that is not as usual, so that no other result has it."""
    parts = [dataset, task.protocol, settings.learner]
    parts += [f"{settings.n_components}{'x2' if settings.split_sign else ''}"]
    parts += ["whitened"] * settings.whiten + [settings.encoder, settings.pooling]
    parts += [] if settings.alpha is None else [f"alpha{settings.alpha}"]
    parts += [f"{name}={value}".replace("/", "_") for name, value in settings.learner_settings.items()]
    usual = Settings(learner=settings.learner, patch_size=PATCH_SIZES[dataset])
    unusual = _unusual(settings, usual, ("n_patches", "patch_size", "stride", "grid", "seed"))
    parts += [part.removeprefix("n_") for part in unusual] + _folds(dataset, task)
    return "-".join(parts)


def table_name(settings: Settings, task: Task) -> str:
    """A name for the file of a table. It says all that is not as usual, so that no other table has it."""
    unusual = _unusual(settings, Settings(), ("n_components", "stride", "grid", "seed"))
    return "-".join(["stl10", task.protocol, "table", settings.pooling, *unusual, *_folds("stl10", task)])


def _unusual(settings: Settings, usual: Settings, names: Sequence[str]) -> list[str]:
    return [f"{name}{getattr(settings, name)}" for name in names if getattr(settings, name) != getattr(usual, name)]


def _folds(dataset: str, task: Task) -> list[str]:
    return [] if len(task.folds) == _FOLDS[dataset] else [f"folds{len(task.folds)}"]
