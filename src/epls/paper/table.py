"""Table 2 of Romero, Radeva and Gatta (2014), accuracy on the test set of STL-10: mean (std) over folds; and ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..algorithm.settings import PAPER, TrainingSettings, batch_rows, norm_limit
from ..evaluation.cache import Cache
from ..utils.types import Progress
from .experiment import ALPHAS, Experiment, new_learner, run_experiment
from .task import Task

# For each data set: its title, the side of its patches, and its number of folds.
TITLES = {"stl10": "STL-10", "cifar10": "CIFAR-10"}
PATCH_SIZES = {"stl10": 10, "cifar10": 6}
_FOLDS = {"stl10": 10, "cifar10": 1}

#: The settings of the paper's experiment with natural codes, except the sizes.
PAPER_SETTINGS = Experiment(learner_settings={"settings": PAPER}, pooling="sum")
_UNITS = str(PAPER_SETTINGS.n_components)


@dataclass(frozen=True)
class Row:
    """A row of the table, with the name of the learner, the encoder, and whether the signs were split.

    ``settings`` are those that differ from the learner's defaults when we run the row. Those of the paper's own runs
    are unknown, except for EPLS.
    """

    method: str
    learner: str
    encoder: str
    split_sign: bool
    whiten: bool
    accuracy: float
    std: float | None
    settings: dict[str, Any] = field(default_factory=dict, hash=False)

    def name(self, n_components: int) -> str:
        """Return the name of the row with another number of units."""
        return self.method.replace(_UNITS, str(n_components))


TABLE_2 = (
    # Chosen from 0.5, 1.5, 5 and 15: see docs/learners.md. Our figures in all other rows use the default settings.
    Row("RICA, 1600, natural", "rica", "natural", False, False, 52.9, None, {"reconstruction_penalty": 1.5}),
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
    """Return the paper's row for an experiment, if it has one."""
    wanted = (learner, encoder, split_sign, whiten)
    return next((row for row in TABLE_2 if (row.learner, row.encoder, row.split_sign, row.whiten) == wanted), None)


def rows_to_run() -> list[Row]:
    """Return the paper's rows, with the library's EPLS, and before these a row with the paper's own algorithm."""
    rows = list(TABLE_2)
    ours = next(k for k, row in enumerate(rows) if row.learner == "epls")
    printed = replace(
        rows[ours], method=f"EPLS as printed, {_UNITS}, natural", settings=PAPER_SETTINGS.learner_settings
    )
    return [*rows[:ours], printed, *rows[ours:]]


def paper_beside(dataset: str, settings: Experiment, task: Task) -> dict[str, Any] | None:
    """Return the paper's row for an experiment and the differences, as plain values; None if there is no row."""
    row = row_for(settings.learner, settings.encoder, settings.split_sign, settings.whiten)
    if dataset != "stl10" or row is None:
        return None
    figures = {name: getattr(row, name) for name in ("method", "accuracy", "std")}
    return figures | {"differences": differences(settings, task)}


def differences(settings: Experiment, task: Task) -> list[str]:
    """List the differences between an experiment and the paper's on STL-10 with the same learner and encoder.

    The last two lines are always present: one about the learner, and one about what the paper does not state.
    """
    paper, side, grid = PAPER_SETTINGS, settings.patch_size, settings.grid
    n_units = new_learner(settings).get_params().get("n_components")  # None if it depends on the data
    tested = ", some of which are also used for testing" if task.learns_from_tested else ""
    other_penalty = settings.encoder == "sparse_coding" and settings.alpha not in (None, *ALPHAS)
    alphas = ", ".join(f"{alpha:g}" for alpha in ALPHAS)
    checks = [
        (task.test is None, "tested on the training images outside of each fold, not on the test set"),
        (len(task.folds) != _FOLDS["stl10"], f"{len(task.folds)} of the {_FOLDS['stl10']} folds"),
        (
            task.source != "unlabelled",
            f"patches from the {len(task.unlabelled):,} training images{tested}, not from unlabelled ones",
        ),
        (n_units not in (None, paper.n_components), f"{n_units} units, not {_UNITS}"),
        (side != paper.patch_size, f"patches of {side} pixels a side, not {paper.patch_size}"),
        (settings.stride != paper.stride, f"stride {settings.stride}, not {paper.stride}"),
        (grid != paper.grid, f"pooled over {grid} x {grid} regions, not {paper.grid} x {paper.grid}"),
        (settings.pooling != paper.pooling, f"{settings.pooling} pooling, not sums"),
        (settings.mirror, f"{settings.mirror} of mirror images, too"),
        (settings.classifier != "svm", f"{settings.classifier} as the classifier, not the SVM"),
        (settings.layers > 1, f"the features of a stack of {settings.layers} layers, too"),
        (other_penalty, f"penalty {settings.alpha or 0:g}, not one of {alphas}"),
        (True, _difference_of_learner(settings)),
        (True, f"the number of patches ({settings.n_patches:,}); that the SVM's intercept is not penalised"),
    ]
    return [told for differs, told in checks if differs]


def _difference_of_learner(settings: Experiment) -> str:
    """Describe how the learner differs from the paper's, as far as known."""
    if settings.learner != "epls":
        given = ", ".join(f"{name}={value}" for name, value in settings.learner_settings.items())
        return f"{settings.learner} with {given or 'the default settings'}; the paper does not state its settings"
    params = _in_effect(new_learner(settings), settings)
    # The limit on epochs is always ours. It matters only if it ends training, and the report says so.
    known = asdict(PAPER)
    other = [f"{name}={params[name]} ({value})" for name, value in known.items() if params[name] != value]
    known_names = {*known, "settings", "max_iter", "n_components", "random_state", "device"}
    other += [f"{name}={value}" for name, value in settings.learner_settings.items() if name not in known_names]
    if other:
        return f"epls with {', '.join(other)}; in brackets, the paper's"
    return (
        "epls as printed, except that weights and biases have a learning rate each, samples are centred and scaled, "
        "and the number of epochs is limited"
    )


def _in_effect(learner: Any, settings: Experiment) -> dict[str, Any]:
    """Return the settings of EPLS. Those that depend on sizes read as the paper's where they are equal."""
    n_components, n_features = learner.n_components, 3 * settings.patch_size**2
    found = asdict(learner.settings or TrainingSettings())
    found |= {name: value for name in ("batch_size", "tol") if (value := getattr(learner, name)) is not None}
    if found["max_norm"] == "auto":
        found["max_norm"] = round(norm_limit(n_components, n_features), 3)
    if found["batch_size"] is None:
        n_rows = batch_rows(n_components, settings.n_patches or 0)
        found["batch_size"] = "n_components" if n_rows == n_components else n_rows
    return found


def run_table(
    settings: Experiment,
    n_patches: int | None,
    poolings: Sequence[str],
    task: Task,
    cache: Cache,
    progress: Progress,
) -> dict[str, Any]:
    """Return the paper's rows with our figures for each way of pooling, as plain values.

    Learners, encoders and their settings are those of :func:`rows_to_run`. Codes are computed once for all ways of
    pooling, so the penalty of sparse coding is chosen with the first. ``n_patches=None`` uses the usual number of each
    learner.
    """
    rows, found = rows_to_run(), []
    for number, row in enumerate(rows, 1):
        wanted = replace(
            settings,
            learner=row.learner,
            learner_settings=row.settings,
            n_patches=n_patches,
            encoder=row.encoder,
            alpha=None,
            split_sign=row.split_sign,
            whiten=row.whiten,
            pooling=poolings[0],
        )
        told = _numbered(progress, f"{number}/{len(rows)} {row.learner}, {row.encoder}")
        runs: dict[str, dict[str, Any]] = {}
        for pooling in poolings:
            runs[pooling] = _run(replace(wanted, pooling=pooling), task, cache, told)
            wanted = replace(wanted, alpha=runs[pooling]["settings"]["alpha"])
        found.append(
            {
                "name": row.name(settings.n_components),
                "paper": asdict(row),
                "differences": differences(replace(wanted, alpha=None), task),
                "runs": runs,
            }
        )
    return {"protocol": task.protocol, "patches": task.origin(), "rows": found}


def _run(settings: Experiment, task: Task, cache: Cache, progress: Progress) -> dict[str, Any]:
    """Return the figures of an experiment as plain values. If it fails, they are None, and ``failed`` says why."""
    try:
        figures, _ = run_experiment(settings, task, cache, progress)
    except ValueError as error:
        return {"settings": asdict(settings), "accuracy": None, "std": None, "failed": str(error)}
    names = ("settings", "accuracy", "std", "folds", "seconds", "training")
    return {name: figures[name] for name in names} | {"failed": None}


def _numbered(progress: Progress, experiment: str) -> Progress:
    """Return progress whose stages name the experiment that they belong to."""
    return lambda stage, done, total: progress(f"{experiment}: {stage}", done, total)


def result_name(dataset: str, settings: Experiment, task: Task, table: Sequence[str] = ()) -> str:
    """Return a name for the files of a result, or of a ``table``, whose own choices these are.

    It includes all settings that are not defaults, so it is unique.
    """
    usual = Experiment(learner=settings.learner, patch_size=PATCH_SIZES[dataset])
    chosen = ["table", *table] if table else [settings.learner, settings.encoder, settings.pooling]
    if settings.learner == "epls" and settings.learner_settings == PAPER_SETTINGS.learner_settings:
        chosen.append("paper")
    else:
        chosen += [f"{name}={value}".replace("/", "_") for name, value in settings.learner_settings.items()]
    told = {"learner", "encoder", "pooling", "learner_settings", *(["n_patches"] if table else [])}
    for name, value in vars(settings).items():
        if name not in told and value != getattr(usual, name):
            chosen.append(f"{name}={value}")
    folds = [] if len(task.folds) == _FOLDS[dataset] else [f"folds={len(task.folds)}"]
    return "-".join([dataset, task.protocol, f"from_{task.source}", *chosen, *folds])
