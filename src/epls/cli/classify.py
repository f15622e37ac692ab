"""``epls classify``: predict the labels of images or vectors from a few known ones."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..utils.wording import counted
from . import inputs, options

if TYPE_CHECKING:
    from ..datasets.labels import Label

_FEW = 10  # with fewer labels of a class, a remark says that more would help


@click.command("classify")
@click.argument("data", type=options.input_path)
@options.output("The .csv file to write.", ".csv")
@click.option("--labels", type=options.input_path, metavar="FILE",
              help="A .csv file with the columns file (or row) and label, as the page of `epls explore` saves it.  "
              "[default: the sub-folder of an image is its label; images in no sub-folder have none]")  # fmt: skip
@inputs.sources
@options.drop
@options.array_key
@options.running
def command(
    data: Path, output: Path, labels: Path | None, threads: int | None, force: bool, as_json: bool, **chosen: Any
) -> None:  # fmt: skip
    """Predict the labels of DATA from a few known ones.

    The .csv file has a line for each image or vector: file (or row), label, confidence from 0 to 1, and source, which
    is "given" or "predicted". `epls explore DATA --labels` shows it on the map. Features are learned from all images
    without labels, unless a model or a file of features is given.
    """
    from ..datasets.labels import Label, labels_table
    from ..evaluation.few_labels import classify
    from ..utils.files import write_atomically

    options.check_output(output, force, data, labels, chosen["model"], chosen["features"])
    started = time.perf_counter()
    with options.limited(threads), options.StageProgress() as progress:
        found = inputs.open_inputs(data, chosen, progress, for_page=True)
        found.check_distances()
        known = _given(found, labels)
        _check_classes(known, labels or data)
        X = inputs.features_of(found, chosen, progress).rows
        names = [None if label is None else label.label for label in known]
        result = classify(X, names, random_state=chosen["random_state"])
    rows = [
        Label(str(name), float(confidence), given is not None)
        for name, confidence, given in zip(result.labels, result.confidence, known, strict=True)
    ]
    write_atomically(output, labels_table(found.names, rows, found.key))
    counts = Counter(label.label for label in known if label is not None)
    facts = {
        "file": str(output), "classes": dict(sorted(counts.items())), "given": counts.total(),
        "predicted": len(rows) - counts.total(), "accuracy": result.accuracy,
        "interval": result.interval, "seconds": round(time.perf_counter() - started, 1),
    }  # fmt: skip
    options.print_result(as_json, facts, _told(facts))


def _given(found: inputs.Inputs, path: Path | None) -> list[Label | None]:
    """Return the labels that a person gave; labels from an earlier prediction are predicted again."""
    from ..datasets.labels import check_label

    labels = inputs.labels_for(found, path)
    if labels is None:
        raise click.UsageError(f"--labels: {found.path} has no sub-folders to use as labels; give a file of labels")
    if path is None:
        for folder in {label.label for label in labels if label is not None}:
            check_label(folder, f"the sub-folder of {found.path}")
    return [label if label is not None and label.given else None for label in labels]


def _check_classes(known: list[Label | None], where: Path) -> None:
    """Refuse labels that no classifier can be trained on, before features are computed."""
    classes = {label.label for label in known if label is not None}
    if len(classes) < 2:
        said = f"only the label {next(iter(classes))!r}" if classes else "no labels"
        raise click.ClickException(f"{where} has {said}: label at least {_FEW} samples of each class, of at least two")
    if all(label is not None for label in known):
        raise click.ClickException(
            f"{where} labels all {len(known)} samples, so nothing is left to predict: leave some without a label"
        )


def _told(facts: dict[str, Any]) -> str:
    lines = [
        f"{counted(facts['predicted'], 'labels')} predicted from {facts['given']:,} given ones "
        f"({len(facts['classes'])} classes) in {facts['seconds']} s, written to {facts['file']}"
    ]
    if facts["accuracy"] is not None:
        low, high = facts["interval"]
        lines.append(
            f"{100 * facts['accuracy']:.1f} % of the given labels are predicted correctly in cross-validation "
            f"(95 % interval: {100 * low:.1f} to {100 * high:.1f} %)"
        )
    if few := [name for name, n_labels in facts["classes"].items() if n_labels < _FEW]:
        more = f" and {len(few) - 5} more" if len(few) > 5 else ""
        lines.append(f"label at least {_FEW} samples of each class; these have fewer: {', '.join(few[:5])}{more}")
    return "\n".join(lines)
