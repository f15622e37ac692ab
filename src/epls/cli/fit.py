"""``epls fit``: features from images or vectors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from . import options
from .options import Vectors
from .progress import StageProgress

_SUMMARY_SAMPLES = 10_000
_OF_IMAGES = ("patch_size", "patches", "whiten", "encoder", "alpha", "split_sign", "stride", "grid", "pooling")


@click.command("fit")
@click.argument("data", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The model file to write.")
@click.option("--units", type=click.IntRange(min=1), help="To learn.  [default: 400 for images, 100 for vectors]")
@options.learner
@click.option("--scale/--no-scale", default=None,
              help="Bring the columns of vectors to one scale first.  [default: those of tables]")  # fmt: skip
@click.option("--patch-size", type=click.IntRange(min=1), default=10, show_default=True, help="In pixels.")
@click.option("--patches", type=click.IntRange(min=1), help="Patches to learn from.  [default: 100 a unit, or 50,000]")
@click.option("--whiten", is_flag=True, help="Whiten the patches (ZCA); epls does without.")
@click.option("--encoder", type=click.Choice(options.ENCODER_NAMES), default="natural", show_default=True,
              help="What makes codes of patches; sc is sparse_coding.")  # fmt: skip
@click.option("--alpha", type=float, help="Threshold of soft_threshold, penalty of sparse_coding.  [default: 0.25; 1]")
@options.split_sign
@options.stride(1)
@options.grid
@options.pooling
@options.longest_side
@options.image_folder
@click.option("--drop", multiple=True, metavar="COLUMN",
              help="A column of a table to leave out; may be given several times.")  # fmt: skip
@options.array_key
@click.option("--checkpoint", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Where to keep the training every minute; the same command goes on from there.")  # fmt: skip
@options.seed
@options.threads
@options.force
@options.as_json
@click.pass_context
def command(
    context: click.Context, data: Path, output: Path, units: int | None, learner: str, scale: bool | None,
    patch_size: int, patches: int | None, whiten: bool, encoder: str, alpha: float | None, split_sign: bool | None,
    stride: int, grid: int, pooling: str, longest_side: int | None, channels: str | None, skip_bad: bool,
    drop: tuple[str, ...], key: str | None, checkpoint: Path | None, seed: int, threads: int | None, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Learn features from DATA.

    DATA is a folder of image files, a .npy or .npz array of images (n, height, width[, channels]) or of vectors (n,
    n_features), a .csv or .parquet table of vectors, a folder of .npy files of vectors, or a zarr array. Vectors may be
    more than fit in memory.
    """
    from ..algorithm.checkpoint import Checkpoint
    from ..data.blocks import as_blocks
    from ..images.features import ImageFeatures
    from ..images.pooling import smallest_side
    from ..persistence import save_model

    options.check_output(output, force)
    with options.limited(threads), StageProgress() as progress:
        opened = options.open_data(
            data, smallest_side=smallest_side(patch_size, stride, grid), longest_side=longest_side, channels=channels,
            skip_bad=skip_bad, key=key, drop=drop, progress=progress,
        )  # fmt: skip
        vectors = isinstance(opened, Vectors)
        given = [name for name in (_OF_IMAGES if vectors else ("scale",)) if _was_given(context, name)]
        if given:
            kinds = ("images", "vectors") if vectors else ("vectors", "images")
            raise click.UsageError(f"--{given[0].replace('_', '-')} is for {kinds[0]}, and {data} holds {kinds[1]}")
        made = _learner(learner, units, seed, vectors, progress, checkpoint)
        if isinstance(opened, Vectors):
            if as_blocks(opened.X) is not None and (scale or learner != "epls"):
                wanted = "--scale" if scale else f"--learner {learner}"
                raise click.UsageError(
                    f"{wanted} needs all vectors in memory, and {data} is read in parts: leave it out"
                )
            model = _vector_model(made, scale if scale is not None else opened.names is not None)
        else:
            model = ImageFeatures(
                made, patch_size=patch_size, n_patches=patches, whiten=whiten, random_state=seed, stride=stride,
                encoder=_encoder(encoder, alpha, split_sign), grid=grid, pooling=pooling,
            )  # fmt: skip
        started = time.perf_counter()
        try:
            model.fit(opened.X if isinstance(opened, Vectors) else opened)
        except KeyboardInterrupt as error:
            if checkpoint is None or not any(checkpoint.glob("checkpoint-*")):
                raise
            raise click.ClickException(f"interrupted; the same command goes on from {checkpoint}") from error
        seconds = time.perf_counter() - started
        notes = {"data": data.name, **_notes(model, opened), "seconds": round(seconds, 1)}
        notes |= {"longest_side": longest_side, "channels": channels}
    save_model(model, output, notes=notes)
    if checkpoint is not None:  # not before the model is on the disk
        Checkpoint(checkpoint).clear()
    if as_json:
        options.print_json({"model": str(output), **notes})
        return
    click.echo(
        f"{notes['units']} features learned from {notes['samples']:,} {notes['kind']} in {notes['seconds']} s, written "
        f"to {output}\ndead units: {notes['unresponsive units']}; population sparsity "
        f"{notes['population sparsity']:.2f}, lifetime sparsity {notes['lifetime sparsity']:.2f} (1 is the most)"
    )


def _was_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def _learner(
    name: str, units: int | None, seed: int, vectors: bool, progress: StageProgress, checkpoint: Path | None
) -> Any:
    from ..algorithm.checkpoint import Checkpoint
    from ..callbacks import OnEpoch
    from ..learners import LEARNERS

    learner = LEARNERS[name]()
    available = learner.get_params()
    if units is not None and "n_components" not in available:
        raise click.UsageError(f"--units: {name} has as many units as there are features")
    settings = {"n_components": units or (None if vectors or name == "ica" else 400), "random_state": seed}
    learner.set_params(**{key: value for key, value in settings.items() if key in available})
    callbacks: list[Any] = [OnEpoch(lambda done, total: progress("learn", done, total))]
    if checkpoint is not None:
        if name != "epls":
            raise click.UsageError(f"--checkpoint: only epls can go on in the middle, not {name}; leave it out")
        callbacks.append(Checkpoint(checkpoint, keep=True))
    return learner.set_callbacks(*callbacks)


def _encoder(name: str, alpha: float | None, split_sign: bool | None) -> Any:
    from ..encoders import ENCODERS

    encoder = ENCODERS[options.full_name(name)]()
    if alpha is not None and "alpha" not in encoder.get_params():
        raise click.UsageError(f"--alpha: the encoder {name} has none; soft_threshold and sparse_coding do")
    given = {"alpha": alpha, "split_sign": split_sign}
    return encoder.set_params(**{key: value for key, value in given.items() if value is not None})


def _vector_model(learner: Any, scale: bool) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), learner) if scale else learner


def _notes(model: Any, data: Any) -> dict[str, Any]:
    """What is kept in the file with the model, and told at the end."""
    from ..encoders.natural import NaturalEncoder
    from ..metrics import summary

    learner = options.learner_of(model)
    if isinstance(data, Vectors):
        codes = model.transform(data.some(_SUMMARY_SAMPLES))
        told: dict[str, Any] = {"kind": "vectors", "feature_names": data.names}
    else:
        codes = NaturalEncoder(learner).transform(model.draw_patches(data, _SUMMARY_SAMPLES, random_state=0))
        told = {"kind": "images", "skipped": len(getattr(data, "skipped", ()))}
    return {
        **told,
        "samples": len(data),
        "units": len(learner.components_),
        "epochs": getattr(learner, "n_iter_", None),
        **{name: round(value, 4) for name, value in summary(codes, learner.components_).items()},
    }
