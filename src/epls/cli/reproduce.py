"""``epls reproduce``: run the paper's experiment and print its figure beside ours."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options
from .options import StageProgress

if TYPE_CHECKING:
    from ..paper.experiment import Experiment

_SIZES = ("n_components", "n_patches", "stride")  # that may be changed with --paper
_OF_ROWS = ("learner", "settings", "encoder", "alpha", "split_sign", "whiten", "layers")  # of the table


@click.command("reproduce")
@click.argument("dataset", type=click.Choice(["stl10", "cifar10"]))
@click.option("--data", type=options.path_type, required=True, help="Folder with the official files of the data set.")
@click.option("--download", is_flag=True, help="Download missing files to that folder (STL-10: 2.6 GB).")
@click.option("--output", type=options.path_type, default=Path("epls-results"), show_default=True,
              help="Folder for results and cached stages.")  # fmt: skip
@click.option("--protocol", type=click.Choice(["development", "test"]),
              help="Test on the test set, or on training images that the classifier has not seen.  [default: test, if "
              "the files of the test set exist]")  # fmt: skip
@click.option("--paper", is_flag=True,
              help="Settings of the paper (stl10): EPLS as printed, 1600 units, natural codes, stride 1, sums; but "
              "weights and biases have a learning rate each, samples are centred, and the SVM's intercept is not "
              "penalised. The paper does not state the number of "
              "patches; 400,000 are used. For a quick look, --n-components, --n-patches, "
              "--stride and --n-folds can be changed.")  # fmt: skip
@options.learner(default="epls")
@options.n_components(default=1600)
@options.settings(metavar="NAME=VALUE", help="A setting of the learner; may be given several times.")
@options.n_patches(usual="the learner's usual number, 400,000 for epls")
@click.option("--patch-size", type=click.IntRange(min=1),
              help="Width and height, in pixels.  [default: 10 for stl10, 6 for cifar10]")  # fmt: skip
@click.option("--whiten", is_flag=True, help="Whiten the patches (ZCA).")
@click.option("--encoder", type=options.encoder_choice, default="natural", show_default=True,
              help="Computes the codes; sc means sparse_coding.")  # fmt: skip
@click.option("--alpha", type=float,
              help="Threshold of soft_threshold (default 0.25) or penalty of sparse_coding (default: chosen from 0.5, "
              "0.75, 1, 1.25 and 1.5 by cross-validation).")  # fmt: skip
@click.option("--split-sign/--no-split-sign", default=None,
              help="Also encode with the negated components: twice as many features.  "
              "[default: the encoder's]")  # fmt: skip
@click.option("--stride", type=click.IntRange(min=1), default=1, show_default=True,
              help="Pixels from one patch to the next.")  # fmt: skip
@options.grid
@click.option("--mirror", type=click.Choice(["features", "decisions"]), is_flag=False, flag_value="features",
              help="Use mirror images, too: average the features of an image and its mirror image, or train the "
              "classifier on both and add its decisions. Not for digits and letters.  [default: no mirror images; "
              "--mirror alone means features]")  # fmt: skip
@click.option("--layers", type=click.IntRange(min=1, max=5), default=1, show_default=True,
              help="Layers of a stack whose features are added to those of the single layer; 1: the single layer "
              "alone.")  # fmt: skip
@click.option("--classifier", type=click.Choice(["svm", "least_squares"]), default="svm", show_default=True,
              help="The paper's linear SVM, or linear least squares with a ridge penalty.")  # fmt: skip
@click.option("--pooling", type=click.Choice(["log", "sum", "mean"]),
              help="How codes are pooled; the paper uses sum.  [default: log; sum with --paper; sum and log with "
              "--table]")  # fmt: skip
@click.option("--table", is_flag=True,
              help="Run all twelve rows of the paper's Table 2, and one for EPLS as printed. This takes long; for a "
              "quick look add --n-components 100 --n-patches 20000 --stride 4 --n-folds 2.")  # fmt: skip
@options.n_folds(default=10, help="How many of STL-10's folds to use.")
@options.random_state
@options.threads
@options.as_json
def command(
    dataset: str, data: Path, download: bool, output: Path, protocol: str | None, paper: bool, table: bool,
    n_folds: int, threads: int | None, as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Run the paper's experiment on DATASET and print its figure beside ours.

    Learns from patches, encodes all images, and trains a classifier for each fold. Each stage is cached in the output
    folder: an interrupted run continues where it stopped, and another encoder reuses the learned components.
    """
    from ..evaluation.cache import Cache
    from ..paper.experiment import run_experiment
    from ..paper.table import PAPER_SETTINGS, paper_beside, result_name, run_table
    from ..paper.task import load_task
    from ..utils.files import write_atomically

    n_patches, poolings = chosen["n_patches"], [chosen["pooling"]] if chosen["pooling"] else ["sum", "log"]
    _check_choices(dataset, paper, table, chosen)
    if paper:
        sizes = {name: chosen[name] for name in _SIZES}
        settings = replace(PAPER_SETTINGS, seed=chosen["random_state"], **sizes)
    else:
        settings = _settings(dataset, **chosen)
    task = load_task(dataset, data, n_folds, protocol=protocol, download=download)
    of_table = ["_".join(poolings), *([] if n_patches is None else [f"n_patches={n_patches}"])] if table else []
    name = result_name(dataset, settings, task, of_table)
    options.check_output_folder(output, f"{name}.json", f"{name}-filters.png")
    for remark in task.remarks:
        options.tell(remark, err=True)
    cache = Cache(output / "stages")
    with options.going_on(), cache.locked(), options.limited(threads), StageProgress() as progress:
        if table:
            report = run_table(settings, n_patches, poolings, task, cache, progress)
        else:
            figures, features = run_experiment(settings, task, cache, progress)
            beside = paper_beside(dataset, replace(settings, alpha=figures["settings"]["alpha"]), task)
            report = figures | {"dataset": dataset, "protocol": task.protocol, "paper": beside}
            picture = options.write_filters(features, output / f"{name}-filters.png")
            report["files"] = [str(output / f"{name}.json"), *picture]
    write_atomically(output / f"{name}.json", json.dumps(report, indent=1, allow_nan=False).encode())
    lines = [*_table_lines(report, name), str(output / f"{name}.json")] if table else _lines(report, name)
    options.print_result(as_json, report, "\n".join(lines))


def _check_choices(dataset: str, paper: bool, table: bool, chosen: dict[str, Any]) -> None:
    """Refuse options that --paper or --table sets."""
    context = click.get_current_context()
    if paper and table:
        raise click.UsageError("--table already has a row for EPLS as printed: leave out --paper or --table")
    if table:
        reason = "is not for --table, which has fixed learners, encoders and settings, and one layer: leave it out"
        options.refuse(context, dict.fromkeys(_OF_ROWS, reason))
    if paper:
        others = [name for name in chosen if name not in (*_SIZES, "random_state")]
        options.refuse(context, dict.fromkeys(others, "is set by --paper: leave one of them out"))
    if dataset != "stl10" and (paper or table):
        raise click.UsageError(f"--{'paper' if paper else 'table'}: the paper's experiment is for stl10 only")


def _settings(
    dataset: str, *, settings: tuple[str, ...], patch_size: int | None, encoder: str, alpha: float | None,
    split_sign: bool | None, pooling: str | None, random_state: int, **chosen: Any,
) -> Experiment:  # fmt: skip
    from ..encoders import ENCODERS
    from ..paper.experiment import Experiment
    from ..paper.table import PATCH_SIZES

    name = options.full_name(encoder)
    usual = ENCODERS[name]()
    if alpha is not None and not hasattr(usual, "alpha"):
        raise click.UsageError(f"--alpha: the encoder {name} has no such setting; leave it out")
    if alpha is not None and not 0 < alpha < math.inf:
        raise click.UsageError(f"--alpha {alpha}: give a number greater than 0")
    return Experiment(
        learner_settings=options.settings_of(settings, [""], "NAME=VALUE")[""],
        patch_size=patch_size or PATCH_SIZES[dataset],
        encoder=name,
        alpha=alpha,
        split_sign=usual.split_sign if split_sign is None else split_sign,
        pooling=pooling or "log",
        seed=random_state,
        **chosen,
    )


def _table_lines(table: dict[str, Any], name: str) -> list[str]:
    rows = table["rows"]
    lines = [f"{name}: accuracy (std) beside the paper's (1600 units, sums, test set)", ""]
    lines.append(f"{'':36} {'paper':>12} " + " ".join(f"{pooling:>12}" for pooling in rows[0]["runs"]))
    for row in rows:
        figures = [_figure(row["paper"]["accuracy"], row["paper"]["std"])]
        figures += [run["failed"] or _figure(run["accuracy"], run["std"]) for run in row["runs"].values()]
        lines.append(f"{row['name']:36} " + " ".join(f"{figure:>12}" for figure in figures))
    return lines + _differences(list(dict.fromkeys(line for row in rows for line in row["differences"])))


def _differences(told: list[str]) -> list[str]:
    return ["differences from the paper, or not stated in it:", *(f"  {line}" for line in told)]


def _lines(report: dict[str, Any], name: str) -> list[str]:
    from ..paper.table import TITLES

    lines = [
        f"{TITLES[report['dataset']]}, {report['protocol']} protocol, {len(report['folds'])} fold(s): {name}",
        f"{'accuracy (std)':>36}",
        f"{'this run':20} {_figure(report['accuracy'], report['std']):>15}",
    ]
    if paper := report["paper"]:
        lines.append(f"{'paper, test set':20} {_figure(paper['accuracy'], paper['std']):>15}   {paper['method']}")
        lines += _differences(paper["differences"])
    if report["alphas"]:
        tried = ", ".join(f"{trial['alpha']:g}: {trial['accuracy']:.1f}" for trial in report["alphas"])
        lines.append(f"penalty {report['settings']['alpha']:g}, chosen by accuracy in cross-validation ({tried})")
    lines += [_training_line(report["training"]), _patches_line(report["patches"])]
    for number, layer in enumerate(report["training"].get("layers", ()), 1):
        lines.append(f"layer {number} of the stack: {layer['n_never_active']} of {layer['n_units']} units never active")
    return [*lines, ", ".join(f"{stage} {value:.0f} s" for stage, value in report["seconds"].items()), *report["files"]]


def _training_line(training: dict[str, Any]) -> str:
    told, curve = [], training["loss_curve"]
    if training["n_iter"] is not None:
        ended = "" if training["ended_by"] is None else f", ended by the {training['ended_by']}"
        told.append(f"{training['n_iter']} epoch(s){ended}")
    if curve:
        before = "" if len(curve) < 2 else f" (one epoch earlier, {curve[-2]:.6g})"
        told.append(f"error {curve[-1]:.6g}{before}")
    told.append(f"{training['n_never_active']} of {training['n_units']} units never active")
    return "learned: " + "; ".join(told)


def _patches_line(patches: dict[str, Any]) -> str:
    tested = ", some of which are also used for testing" if patches["tested_on_some"] else ""
    return f"from {patches['number']:,} patches of {patches['images']:,} {patches['from']} images{tested}"


def _figure(mean: float, std: float | None) -> str:
    return f"{mean:.1f}" + (f" ({std:.2f})" if std else "")
