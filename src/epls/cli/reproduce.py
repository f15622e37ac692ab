"""``epls reproduce``: the paper's experiment, its figure beside ours."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options
from .progress import StageProgress

if TYPE_CHECKING:
    from ..evaluation.cache import Cache
    from ..evaluation.experiment import Outcome, Settings

_PATCH_SIZES = {"stl10": 10, "cifar10": 6}
_TITLES = {"stl10": "STL-10", "cifar10": "CIFAR-10"}


@click.command("reproduce")
@click.argument("dataset", type=click.Choice(["stl10", "cifar10"]))
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder of the data set's official files.")
@click.option("--download", is_flag=True, help="Fetch files that are missing there (STL-10: 2.6 GB).")
@click.option("--output", type=click.Path(path_type=Path), default=Path("epls-results"), show_default=True,
              help="Folder for results, and for stages that are done.")  # fmt: skip
@click.option("--protocol", type=click.Choice(["development", "test"]),
              help="Test on the test set, or on training images that the classifier has not seen.  [default: test, if "
              "its files are there]")  # fmt: skip
@options.learner
@click.option("--units", type=click.IntRange(min=1), default=1600, show_default=True, help="Bases to learn.")
@click.option("--set", "learner_settings", multiple=True, metavar="NAME=VALUE",
              help="A setting of the learner; may be given several times.")  # fmt: skip
@click.option("--patches", type=click.IntRange(min=2),
              help="Patches to learn from.  [default: 400,000 for epls, kmeans and omp, else 100,000]")  # fmt: skip
@click.option("--patch-size", type=click.IntRange(min=1), help="In pixels.  [default: 10 for stl10, 6 for cifar10]")
@click.option("--whiten", is_flag=True, help="Whiten the patches (ZCA).")
@click.option("--encoder", type=click.Choice(options.ENCODER_NAMES), default="natural", show_default=True,
              help="What makes codes; sc is sparse_coding.")  # fmt: skip
@click.option("--alpha", type=float,
              help="Threshold of soft_threshold, penalty of sparse_coding.  [default: 0.25; chosen from 0.5, 0.75, 1, "
              "1.25 and 1.5 by cross-validation]")  # fmt: skip
@options.split_sign
@options.stride(1)
@options.grid
@options.pooling
@click.option("--table", is_flag=True, help="All twelve rows of the paper's Table 2, each with our figure. A long run.")
@click.option("--folds", type=click.IntRange(1, 10), default=10, show_default=True, help="How many of STL-10's folds.")
@options.seed
@options.threads
@options.as_json
def command(
    dataset: str, data: Path, download: bool, output: Path, protocol: str | None, patch_size: int | None, units: int,
    patches: int | None, learner_settings: tuple[str, ...], encoder: str, alpha: float | None, split_sign: bool | None,
    table: bool, folds: int, threads: int | None, as_json: bool, **settings: Any,
) -> None:  # fmt: skip
    """Run the paper's experiment on DATASET and print its figure beside ours.

    Learns from patches, encodes all images, and trains a classifier for each fold. Each stage is kept in the output
    folder: an interrupted run goes on where it was, and another encoder uses the bases that are there.
    """
    from ..encoders import ENCODERS
    from ..evaluation.cache import Cache
    from ..evaluation.experiment import Settings, run_experiment

    encoder = options.full_name(encoder)
    if alpha is not None and not hasattr(ENCODERS[encoder](), "alpha"):
        raise click.UsageError(f"--alpha: the encoder {encoder} has no such setting; leave it out")
    if alpha is not None and not 0 < alpha < math.inf:
        raise click.UsageError(f"--alpha {alpha}: give a number above 0")
    chosen = Settings(
        learner_settings=parsed_settings(learner_settings),
        n_components=units,
        n_patches=patches,
        patch_size=patch_size or _PATCH_SIZES[dataset],
        encoder=encoder,
        alpha=alpha,
        split_sign=ENCODERS[encoder]().split_sign if split_sign is None else split_sign,
        **settings,
    )
    if table and dataset != "stl10":
        raise click.UsageError("--table: the paper's table is about stl10")
    if table and (alpha, split_sign, learner_settings, settings["learner"], encoder, settings["whiten"]) != (
        None, None, (), "epls", "natural", False,
    ):  # fmt: skip
        raise click.UsageError("--table has its own learners, encoders and their settings: leave yours out")
    loaded = _load(dataset, data, download, protocol, folds)
    _, _, used_folds, test = loaded
    used_protocol = "development" if test is None else "test"
    cache = Cache(output / "stages")
    if table:
        with going_on(), cache.locked(), options.limited(threads), StageProgress() as progress:
            rows = _paper_table(chosen, patches, loaded, cache, progress)
        _tell_table(rows, _table_name(used_protocol, chosen, len(used_folds)), output, as_json)
        return
    with going_on(), cache.locked(), options.limited(threads), StageProgress() as progress:
        outcome = run_experiment(chosen, *loaded, cache, progress)
    report = outcome.report() | {"dataset": dataset, "protocol": used_protocol}
    report["paper"] = _paper_row(dataset, chosen)
    name = _name(dataset, used_protocol, chosen, len(used_folds))
    report["files"] = _write(report, outcome, output / name)
    if as_json:
        options.print_json(report)
    else:
        _print(report, name)


@contextmanager
def going_on() -> Iterator[None]:
    """Tells how to go on after Ctrl-C: stages that are done are kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise click.ClickException("interrupted; the same command goes on from what is done") from error


def _paper_table(
    chosen: Settings, patches: int | None, loaded: tuple[Any, Any, Any, Any], cache: Cache, progress: StageProgress
) -> list[dict[str, Any]]:
    """The paper's rows with our figures."""
    from dataclasses import asdict, replace

    from ..evaluation.comparison import as_plain, compare
    from ..evaluation.paper import TABLE_2

    wanted = [
        replace(
            chosen, learner=row.learner, learner_settings={}, n_patches=patches, encoder=row.encoder,
            alpha=None, split_sign=row.split_sign, whiten=row.whiten,
        )
        for row in TABLE_2
    ]  # fmt: skip
    entries = as_plain(compare(wanted, *loaded, cache, progress))
    return [{"paper": asdict(row)} | entry for row, entry in zip(TABLE_2, entries, strict=True)]


def _table_name(protocol: str, settings: Settings, n_folds: int) -> str:
    """A name that tells all that is not as usual, so that no other table has it."""
    usual = type(settings)()
    names = ("n_components", "stride", "grid", "seed")
    unusual = [f"{name}{getattr(settings, name)}" for name in names if getattr(settings, name) != getattr(usual, name)]
    return "-".join(["stl10", protocol, "table", settings.pooling, *unusual, *([f"folds{n_folds}"] * (n_folds != 10))])


def _tell_table(rows: list[dict[str, Any]], name: str, output: Path, as_json: bool) -> None:
    from ..utils.files import write_atomically

    path = output / f"{name}.json"
    write_atomically(path, json.dumps(rows, indent=1).encode())
    if as_json:
        options.print_json(rows)
        return
    click.echo(f"{name}: accuracy (std) beside the paper's on the test set, which are with sums\n")
    click.echo(f"{'':36} {'paper':>12} {'this run':>12}")
    for row in rows:
        paper = _figure(row["paper"]["accuracy"], row["paper"]["std"])
        ours = row["failed"] or _figure(row["accuracy"], row["std"])
        click.echo(f"{row['paper']['method']:36} {paper:>12} {ours:>12}")
    click.echo(str(path))


def parsed_settings(assignments: tuple[str, ...]) -> dict[str, Any]:
    """Settings from NAME=VALUE: numbers, true, false and null as in JSON, all else as text."""
    found: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"--set {assignment}: give NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def _load(dataset: str, data: Path, download: bool, protocol: str | None, n_folds: int) -> tuple[Any, Any, Any, Any]:
    """Images to learn from, training images, folds, and test images or None."""
    import numpy as np

    from ..datasets import load_cifar10, load_stl10
    from ..evaluation.experiment import LabelledImages

    if dataset == "cifar10":
        cifar = load_cifar10(data, download=download)
        train = LabelledImages(cifar.train_images, cifar.train_labels)
        n_train = len(train.labels)
        if protocol == "development":  # the last of the five official batches is held out
            return train.images[: n_train * 4 // 5], train, [np.arange(n_train * 4 // 5)], None
        return train.images, train, [np.arange(n_train)], LabelledImages(cifar.test_images, cifar.test_labels)

    stl = load_stl10(data, download=download)
    unlabelled = stl.unlabelled_images
    if unlabelled is None:
        click.echo(
            "there is no unlabeled_X.bin: patches are drawn from the training images instead, without their labels",
            err=True,
        )
        unlabelled = stl.train_images
    test = None
    if protocol != "development":
        if stl.test_images is not None and stl.test_labels is not None:
            test = LabelledImages(stl.test_images, stl.test_labels)
        elif protocol == "test":
            raise ValueError(
                f"--protocol test needs test_X.bin and test_y.bin, which are not in {data}: get them with --download, "
                f"or take --protocol development, which tests each fold on the other training images"
            )
        else:
            click.echo(
                "there is no test_X.bin: each fold is tested on the training images of the other folds (--protocol "
                "development)",
                err=True,
            )
    return unlabelled, LabelledImages(stl.train_images, stl.train_labels), list(stl.folds[:n_folds]), test


def _paper_row(dataset: str, settings: Settings) -> dict[str, Any] | None:
    from dataclasses import asdict

    from ..evaluation.paper import row_for

    if (dataset, settings.n_components, settings.patch_size) != ("stl10", 1600, 10):
        return None
    if settings.learner_settings:
        return None
    row = row_for(settings.learner, settings.encoder, settings.split_sign, settings.whiten)
    return None if row is None else asdict(row)


def _name(dataset: str, protocol: str, settings: Settings, n_folds: int) -> str:
    """A name for the result that tells all that is not as usual, so that no other result has it."""
    parts = [dataset, protocol, settings.learner, f"{settings.n_components}{'x2' if settings.split_sign else ''}"]
    parts += ["whitened"] * settings.whiten + [settings.encoder, settings.pooling]
    parts += [] if settings.alpha is None else [f"alpha{settings.alpha}"]
    parts += [f"{name}={value}".replace("/", "_") for name, value in settings.learner_settings.items()]
    usual = type(settings)(learner=settings.learner, patch_size=_PATCH_SIZES[dataset])
    for setting in ("n_patches", "patch_size", "stride", "grid", "seed"):
        if getattr(settings, setting) != getattr(usual, setting):
            parts.append(f"{setting.removeprefix('n_')}{getattr(settings, setting)}")
    if n_folds != {"stl10": 10, "cifar10": 1}[dataset]:
        parts.append(f"folds{n_folds}")
    return "-".join(parts)


def _write(report: dict[str, Any], outcome: Outcome, stem: Path) -> list[str]:
    """The report as JSON, and a picture of the filters if Pillow is there."""
    import io

    from ..plotting import filter_grid
    from ..utils.files import write_atomically

    settings = report["settings"]
    files = {stem.with_name(f"{stem.name}.json"): json.dumps(report, indent=1).encode()}
    try:
        from PIL import Image
    except ImportError:
        click.echo('no picture of the filters without Pillow: pip install "epls[images]"', err=True)
    else:
        size = settings["patch_size"]
        shape = (size, size, outcome.features.n_channels_)
        grid = Image.fromarray(filter_grid(outcome.features.encoder_.components(), shape))
        picture = io.BytesIO()
        grid.resize((grid.width * 4, grid.height * 4), Image.Resampling.NEAREST).save(picture, "PNG")
        files[stem.with_name(f"{stem.name}-filters.png")] = picture.getvalue()
    for path, content in files.items():
        write_atomically(path, content)
    return [str(path) for path in files]


def _print(report: dict[str, Any], name: str) -> None:
    n_folds = len(report["folds"])
    click.echo(f"{_TITLES[report['dataset']]}, {report['protocol']} protocol, {n_folds} fold(s): {name}")
    click.echo(f"{'accuracy (std)':>36}")
    click.echo(f"{'this run':20} {_figure(report['accuracy'], report['std']):>15}")
    if report["paper"]:
        paper = report["paper"]
        click.echo(f"{'paper, test set':20} {_figure(paper['accuracy'], paper['std']):>15}   {paper['method']}")
    if report["alphas"]:
        tried = ", ".join(f"{trial['alpha']:g}: {trial['accuracy']:.1f}" for trial in report["alphas"])
        click.echo(f"penalty {report['settings']['alpha']:g}, by accuracy in cross-validation ({tried})")
    seconds = ", ".join(f"{stage} {value:.0f} s" for stage, value in report["seconds"].items())
    click.echo(f"{seconds}\n" + "\n".join(report["files"]))


def _figure(mean: float, std: float | None) -> str:
    return f"{mean:.1f}" + (f" ({std:.2f})" if std else "")
