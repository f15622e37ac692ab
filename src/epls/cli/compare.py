"""``epls compare``: what each learner gives on one's own images, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options
from .progress import StageProgress
from .reproduce import going_on, parsed_settings

if TYPE_CHECKING:
    from ..evaluation.comparison import Entry
    from ..evaluation.experiment import Settings
    from ..images.features import ImageFeatures


@click.command("compare")
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--learner", "learners", type=click.Choice(options.LEARNER_NAMES), multiple=True,
              default=("epls", "kmeans", "omp", "random_patches", "raw"), show_default=True,
              help="May be given several times.")  # fmt: skip
@click.option("--all", "all_learners", is_flag=True, help="All learners, whatever --learner says.")
@click.option("--encoder", "encoders", type=click.Choice(options.ENCODER_NAMES), multiple=True,
              help="May be given several times.  [default: each learner's own]")  # fmt: skip
@options.split_sign
@click.option("--set", "learner_settings", multiple=True, metavar="LEARNER.NAME=VALUE",
              help="A setting of a learner, such as omp.n_nonzero_coefs=5.")  # fmt: skip
@click.option("--whiten", type=click.Choice(["auto", "yes", "no"]), default="auto", show_default=True,
              help="Whiten the patches (ZCA); auto does for ica, kmeans, omp and random_patches.")  # fmt: skip
@click.option("--units", type=click.IntRange(min=1), default=400, show_default=True, help="Bases to learn.")
@click.option("--patches", type=click.IntRange(min=2), default=100_000, show_default=True, help="To learn from.")
@click.option("--patch-size", type=click.IntRange(min=1), default=10, show_default=True, help="In pixels.")
@options.stride(2)
@options.grid
@options.pooling
@click.option("--folds", type=click.IntRange(1, 10), default=5, show_default=True,
              help="Of cross-validation; of STL-10, how many of its folds.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), default=Path("epls-compare"), show_default=True,
              help="Folder for table, chart and stages that are done.")  # fmt: skip
@options.image_folder
@options.seed
@options.threads
@options.force
@options.as_json
def command(
    data: Path, learners: tuple[str, ...], all_learners: bool, encoders: tuple[str, ...], split_sign: bool | None,
    learner_settings: tuple[str, ...], whiten: str, units: int, patches: int, patch_size: int, stride: int, grid: int,
    pooling: str, folds: int, output: Path, channels: str | None, skip_bad: bool, seed: int, threads: int | None,
    force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compare learners and encoders on DATA, each image of which has a class.

    DATA is a folder with a sub-folder of images for each class, an .npz file with arrays "images" and "labels", or the
    folder of STL-10 or CIFAR-10. All images must have one size. Labels serve to judge the features only. Each stage is
    kept in the output folder: an interrupted run goes on where it was, and another one uses what is there.
    """
    from ..encoders import ENCODERS
    from ..evaluation.cache import Cache
    from ..evaluation.comparison import OWN_ENCODERS, WHITENED, as_plain, compare
    from ..evaluation.experiment import Settings
    from ..evaluation.labelled import load_labelled
    from ..images.pooling import smallest_side
    from ..plotting import filter_grid

    names = options.LEARNER_NAMES if all_learners else list(dict.fromkeys(learners))
    given = _by_learner(learner_settings, names)
    chosen_encoders = list(dict.fromkeys(options.full_name(name) for name in encoders))
    wanted = [
        Settings(
            learner=learner,
            learner_settings=given.get(learner, {}),
            n_components=units,
            n_patches=patches,
            patch_size=patch_size,
            whiten=learner in WHITENED if whiten == "auto" else whiten == "yes",
            seed=seed,
            encoder=encoder,
            split_sign=ENCODERS[encoder]().split_sign if split_sign is None else split_sign,
            stride=stride,
            grid=grid,
            pooling=pooling,
        )
        for learner in names
        for encoder in chosen_encoders or [OWN_ENCODERS.get(learner, "natural")]
    ]
    labelled, train_folds = load_labelled(data, folds, seed, channels=channels, skip_bad=skip_bad)
    least = smallest_side(patch_size, stride, grid)
    if min(labelled.images.shape[1:3]) < least:
        raise ValueError(
            f"images of {labelled.images.shape[1:3]} pixels are too small for patches of {patch_size}, stride {stride} "
            f"and a grid of {grid}: they must have at least {least}; give a smaller --patch-size, --stride or --grid"
        )
    _refuse_to_replace(output / "compare.json", data, wanted, force)
    cache = Cache(output / "stages")
    filters: dict[int, Any] = {}

    def keep_filters(number: int, features: ImageFeatures) -> None:
        if features.n_channels_ in (1, 3):
            shape = (patch_size, patch_size, features.n_channels_)
            filters[number] = filter_grid(features.encoder_.components(), shape)

    with going_on(), cache.locked(), options.limited(threads), StageProgress() as progress:
        entries = compare(wanted, labelled.images, labelled, train_folds, None, cache, progress, keep_filters)
    report: dict[str, Any] = {
        "data": str(data),
        "images": len(labelled.labels),
        "wanted": _plain_settings(wanted),
        "entries": as_plain(entries),
    }
    facts = [
        ("Data", f"{data.name}, {len(labelled.labels):,} images of {len(set(labelled.labels.tolist()))} classes"),
        ("Protocol", f"{len(train_folds)} folds, an L2-SVM whose C is cross-validated, seed {seed}"),
        ("Features", f"{units} units, patches of {patch_size} x {patch_size}, stride {stride}, {pooling} pooling"),
    ]
    report["files"] = _write(report, entries, facts, filters, output)
    if as_json:
        options.print_json(report)
    else:
        _print(entries)
        click.echo("\n".join(report["files"]))
    if all(entry.failed is not None for entry in entries):
        raise click.ClickException("none of the learners could be judged: see the reasons above")


def _refuse_to_replace(path: Path, data: Path, wanted: list[Settings], force: bool) -> None:
    """A comparison of something else that stands there stays, unless it is to be replaced."""
    if force or not path.exists():
        return
    try:
        there = json.loads(path.read_text())
        same = there["data"] == str(data) and there["wanted"] == _plain_settings(wanted)
    except (ValueError, KeyError, TypeError):
        same = False
    if not same:
        raise click.ClickException(
            f"{path} is of another comparison: give another --output, or --force to replace it (stages are kept)"
        )


def _plain_settings(wanted: list[Settings]) -> Any:
    return json.loads(json.dumps([asdict(settings) for settings in wanted]))


def _by_learner(assignments: tuple[str, ...], learners: list[str]) -> dict[str, dict[str, Any]]:
    """Settings of each learner from LEARNER.NAME=VALUE."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in parsed_settings(assignments).items():
        learner, dot, setting = name.partition(".")
        if not dot or learner not in learners:
            raise click.UsageError(f"--set {name}: give LEARNER.NAME=VALUE, LEARNER being one of {', '.join(learners)}")
        found.setdefault(learner, {})[setting] = value
    return found


def _write(
    report: dict[str, Any], entries: Sequence[Entry], facts: list[tuple[str, str]], filters: dict[int, Any],
    output: Path,
) -> list[str]:  # fmt: skip
    """The table as JSON, and as a page and a chart if the libraries for them are there; the names of the files."""
    from ..report import comparison_page
    from ..utils.files import write_atomically

    files = [output / "compare.json"]
    write_atomically(files[0], json.dumps(report, indent=1, allow_nan=False).encode())
    makers: dict[str, Callable[[], bytes]] = {
        "compare.html": lambda: comparison_page(entries, facts, filters, title="Learners compared").encode(),
        "compare.png": lambda: _chart(entries),
    }
    for name, made in makers.items():
        try:
            content = made()
        except ImportError as error:
            click.echo(f"no {name}: {error}", err=True)
            continue
        files.append(output / name)
        write_atomically(files[-1], content)
    return [str(path) for path in files]


def _chart(entries: Sequence[Entry]) -> bytes:
    from ..plotting import plot_comparison

    done = [entry for entry in entries if entry.failed is None]
    axes = plot_comparison([e.name for e in done], [e.accuracy for e in done], [e.std for e in done])
    figure = axes.get_figure(root=True)
    assert figure is not None  # it was made for these axes
    return options.png_of(figure, dpi=150)


def _print(entries: Sequence[Entry]) -> None:
    click.echo(f"{'':42} {'accuracy (std)':>15} {'learn s':>8} {'encode s':>9} {'to tune':>8} {'dead':>10}")
    for entry in sorted(entries, key=lambda entry: (entry.failed is not None, -entry.accuracy)):
        if entry.failed is not None:
            click.echo(f"{entry.name:42} failed: {entry.failed}")
            continue
        figure = f"{entry.accuracy:.1f} ({entry.std:.2f})"
        dead = f"{entry.n_dead} of {entry.n_units}"
        encode = entry.seconds["encode"] + entry.seconds.get("choose", 0.0)
        click.echo(
            f"{entry.name:42} {figure:>15} {entry.seconds['learn']:>8.0f} {encode:>9.0f} "
            f"{entry.n_meta_parameters:>8} {dead:>10}"
        )
