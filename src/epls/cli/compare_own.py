"""``epls compare`` on images with learners of the user's own. Nothing is cached, since their code may change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..learners import LEARNERS
from . import options
from .compare_vectors import check_new, learner_settings, with_components, write_and_print
from .options import StageProgress

#: Options that need learners of the library.
_OF_LIBRARY = ("split_sign", "layers")
_OF_FEATURES = ("patch_size", "n_patches", "stride", "grid", "pooling")


def compare_own(
    context: click.Context, data: Path, learners: Sequence[str], own: dict[str, Any], settings: tuple[str, ...],
    output: Path, *, encoders: Sequence[str], n_folds: int, channels: Any, skip_bad: bool, random_state: int,
    threads: int | None, force: bool, as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Compare by :func:`epls.evaluation.compare`, print, and write the table and a chart. Nothing is cached."""
    from ..evaluation.comparing import compare
    from ..evaluation.labelled import load_labelled

    options.refuse(context, dict.fromkeys(_OF_LIBRARY, "is for learners of the library: leave it out"))
    if chosen["mirror"] == "decisions":
        raise click.UsageError("--mirror decisions is for learners of the library: use --mirror features")
    names = [*learners, *own]
    given = learner_settings(settings, names)
    check_new(output, force)
    with StageProgress() as progress:
        task = load_labelled(data, n_folds, random_state, channels=channels, skip_bad=skip_bad, progress=progress)
    options.tell_skipped(task)
    estimators = {name: LEARNERS[name]() for name in learners} | own
    wanted = {
        f"{name}, {encoder}": _features(estimator, given[name], name, encoder, chosen)
        for name, estimator in estimators.items()
        for encoder in encoders or [getattr(estimator, "own_encoder", "natural")]
    }
    with options.limited(threads), StageProgress() as progress:
        labels = task.train.labels
        result = compare(
            task.train.images, labels, wanted, n_folds=n_folds, random_state=random_state, progress=progress
        )
    facts = {"data": str(data), "images": len(labels), "skipped": len(task.skipped)}
    write_and_print(result, facts, output, as_json)


def _features(estimator: Any, settings: dict[str, Any], name: str, encoder: str, chosen: dict[str, Any]) -> Any:
    from ..images.features import ImageFeatures

    whiten = chosen["whiten"]
    return ImageFeatures(
        with_components(estimator, settings, name, chosen["n_components"]),
        encoder=encoder,
        whiten=bool(getattr(estimator, "whitens", False)) if whiten == "auto" else whiten == "yes",
        mirror=chosen["mirror"] is not None,
        **{key: chosen[key] for key in _OF_FEATURES},
    )
