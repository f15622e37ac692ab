"""``epls compare``: what each learner gives on one's own images, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options
from .progress import StageProgress
from .reproduce import ENCODER_NAMES, LEARNER_NAMES, going_on

if TYPE_CHECKING:
    from ..evaluation.comparison import Entry


@click.command("compare")
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--learner", "learners", type=click.Choice(LEARNER_NAMES), multiple=True,
              default=("epls", "kmeans", "omp", "random_patches", "raw"), show_default=True,
              help="May be given several times.")  # fmt: skip
@click.option("--all", "all_learners", is_flag=True, help="All learners.")
@click.option("--encoder", "encoders", type=click.Choice(ENCODER_NAMES), multiple=True,
              help="May be given several times.  [default: each learner's own]")  # fmt: skip
@click.option("--whiten", type=click.Choice(["auto", "yes", "no"]), default="auto", show_default=True,
              help="Whiten the patches (ZCA); auto does for ica, kmeans, omp and random_patches.")  # fmt: skip
@click.option("--units", type=click.IntRange(min=1), default=400, show_default=True, help="Bases to learn.")
@click.option("--patches", type=click.IntRange(min=2), default=100_000, show_default=True, help="To learn from.")
@click.option("--patch-size", type=click.IntRange(min=1), default=10, show_default=True, help="In pixels.")
@click.option("--stride", type=click.IntRange(min=1), default=2, show_default=True, help="Pixels from patch to patch.")
@click.option("--grid", type=click.IntRange(min=1), default=2, show_default=True, help="Pool over grid x grid regions.")
@click.option("--pooling", type=click.Choice(["log", "sum", "mean"]), default="log", show_default=True,
              help="How codes are pooled.")  # fmt: skip
@click.option("--folds", type=click.IntRange(1, 10), default=5, show_default=True,
              help="Of cross-validation; of STL-10, how many of its folds.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), default=Path("epls-compare"), show_default=True,
              help="Folder for table, chart and stages that are done.")  # fmt: skip
@options.seed
@options.threads
@options.as_json
def command(
    data: Path, learners: tuple[str, ...], all_learners: bool, encoders: tuple[str, ...], whiten: str, units: int,
    patches: int, patch_size: int, stride: int, grid: int, pooling: str, folds: int, output: Path, seed: int,
    threads: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Compare learners and encoders on DATA, each image of which has a class.

    DATA is a folder with a sub-folder of images for each class, an .npz file with arrays "images" and "labels", or the
    folder of STL-10 or CIFAR-10. All images must have one size. Labels serve to judge the features only. Each stage is
    kept in the output folder: an interrupted run goes on where it was, and another one uses what is there.
    """
    from ..encoders import ENCODERS
    from ..evaluation.cache import Cache
    from ..evaluation.comparison import OWN_ENCODERS, WHITENED, compare
    from ..evaluation.experiment import Settings
    from ..evaluation.labelled import load_labelled

    names = LEARNER_NAMES if all_learners else list(dict.fromkeys(learners))
    wanted = []
    for learner in names:
        for given in encoders or (OWN_ENCODERS.get(learner, "natural"),):
            encoder = {"sc": "sparse_coding"}.get(given, given)
            wanted.append(
                Settings(
                    learner=learner,
                    n_components=units,
                    n_patches=patches,
                    patch_size=patch_size,
                    whiten=learner in WHITENED if whiten == "auto" else whiten == "yes",
                    seed=seed,
                    encoder=encoder,
                    split_sign=ENCODERS[encoder]().split_sign,
                    stride=stride,
                    grid=grid,
                    pooling=pooling,
                )
            )
    labelled, train_folds = load_labelled(data, folds, seed)
    cache = Cache(output / "stages")
    with going_on(), cache.locked(), options.limited(threads), StageProgress() as progress:
        entries = compare(wanted, labelled.images, labelled, train_folds, None, cache, progress)
    files = _write(entries, output)
    if as_json:
        options.print_json({"entries": json.loads((output / "compare.json").read_text()), "files": files})
        return
    _print(entries)
    click.echo("\n".join(files))


def _write(entries: Sequence[Entry], output: Path) -> list[str]:
    """The table as JSON, and a chart if matplotlib is there."""
    import io

    from ..evaluation.comparison import as_plain
    from ..files import write_atomically
    from ..plotting import plot_comparison

    files = {output / "compare.json": json.dumps(as_plain(entries), indent=1).encode()}
    picture = io.BytesIO()
    try:
        axes = plot_comparison(
            [entry.name for entry in entries], *zip(*((e.accuracy, e.std) for e in entries), strict=True)
        )
    except ImportError as error:
        click.echo(f"no chart: {error}", err=True)
    else:
        figure = axes.get_figure(root=True)
        assert figure is not None  # it was made for these axes
        figure.savefig(picture, dpi=150)
        files[output / "compare.png"] = picture.getvalue()
    for path, content in files.items():
        write_atomically(path, content)
    return [str(path) for path in files]


def _print(entries: Sequence[Entry]) -> None:
    click.echo(f"{'':42} {'accuracy (std)':>15} {'learn s':>8} {'encode s':>9} {'to tune':>8} {'dead':>10}")
    for entry in sorted(entries, key=lambda entry: -entry.accuracy):
        figure = f"{entry.accuracy:.1f} ({entry.std:.2f})"
        dead = f"{entry.n_dead} of {entry.n_units}"
        click.echo(
            f"{entry.name:42} {figure:>15} {entry.learn_seconds:>8.0f} {entry.encode_seconds:>9.0f} "
            f"{entry.n_meta_parameters:>8} {dead:>10}"
        )
