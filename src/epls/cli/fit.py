"""``epls fit``: learn features from images or vectors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..utils.wording import counted
from . import options
from .progress import StageProgress

if TYPE_CHECKING:
    from ..algorithm.checkpoint import Checkpoint
    from ..datasets.opening import Vectors

# Options are for what depends on the data or the machine. What has a good default is left to --set.
_OF_IMAGES = ("patch_size", "n_patches", "encoder", "stride", "grid", "layers", "mirror")
# A stack chooses these itself.
_OF_ONE_LAYER = ("n_components", "patch_size", "n_patches", "stride")
_OF_VECTORS = ("scale",)
_FOR_FEATURES = ("patch_size", "n_patches", "stride", "grid", "mirror", "random_state")
_SECTIONS = {
    "Options for images": (*_OF_IMAGES, "longest_side", "channels", "skip_bad"),
    "Options for vectors": (*_OF_VECTORS, "columns", "drop"),
}


class _InSections(click.Command):
    """Shows the options for images and for vectors after the others in the help."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        shown = {p.name: p.get_help_record(context) for p in self.get_params(context) if isinstance(p, click.Option)}
        in_sections = {name for names in _SECTIONS.values() for name in names}
        for title, names in {"Options": [n for n in shown if n not in in_sections], **_SECTIONS}.items():
            with formatter.section(title):
                formatter.write_dl([record for name in names if (record := shown[name]) is not None])


@click.command("fit", cls=_InSections)
@click.argument("data", type=options.path_type)
@click.option("-o", "--output", type=options.path_type, required=True, help="The model file to write.")
@options.learner
@options.n_components(None, "Components to learn.  [default: 400 for images, 100 for vectors]")
@options.settings(
    "[PART.]NAME=VALUE",
    "A setting of the learner by its name in Python, such as max_iter=50, or of another part: encoder.alpha=0.5, "
    "images.pooling=sum. May be given several times.",
)
@click.option("--encoder", type=options.encoder_choice,
              help="Computes the codes of patches; sc means sparse_coding.  [default: the learner's own]")  # fmt: skip
@click.option("--patch-size", type=click.IntRange(min=1), default=10, show_default=True,
              help="Width and height of patches, in pixels.")  # fmt: skip
@options.n_patches(1, usual="100 for each component, at least 50,000")
@options.stride(1)
@options.grid
@click.option("--layers", type=click.IntRange(min=1, max=5), default=1, show_default=True,
              help="Layers, each learned from the maps of the one below. With 2 or more, units and patches follow from "
              "the size of the images.")  # fmt: skip
@click.option("--mirror", is_flag=True,
              help="Average the features of an image and its mirror image. Not for digits and letters.")  # fmt: skip
@options.longest_side
@options.image_folder
@options.vectors
@click.option("--checkpoint", type=options.path_type, metavar="FOLDER",
              help="Save the training here every minute; the same command continues from there.")  # fmt: skip
@options.random_state
@options.precision
@options.threads
@options.force
@options.as_json
@click.pass_context
def command(
    context: click.Context, /, data: Path, output: Path, settings: tuple[str, ...], longest_side: int | None,
    channels: Any, skip_bad: bool, columns: tuple[str, ...], drop: tuple[str, ...], key: str | None,
    checkpoint: Path | None, threads: int | None, force: bool, as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Learn features from DATA.

    DATA is a folder of image files or of .npy files (height, width, channels), a .npy or .npz array of images (n,
    height, width[, channels]) or of vectors (n, n_features), a .csv or .parquet table of vectors, a folder of .npy
    files of vectors, or a zarr array. Images may have any number of channels. Vectors may be more than fit in memory.

    Patches are whitened if the learner needs it, and encoded with the learner's own encoder.
    """
    from ..algorithm.checkpoint import Checkpoint
    from ..datasets.opening import Vectors, open_data
    from ..evaluation.summary import model_summary
    from ..images.pooling import Geometry, smallest_side
    from ..persistence import LayerCheckpoint, save_model

    options.check_output(output, force, data)
    given = options.settings_of(settings, ["", "encoder", "images"], "[PART.]NAME=VALUE, PART being encoder or images")
    side = smallest_side([Geometry(chosen["patch_size"], chosen["stride"])], chosen["grid"])
    options.check_longest_side(data, longest_side, side)
    deep = chosen["layers"] > 1
    kept: Checkpoint | LayerCheckpoint | None = None
    if checkpoint is not None:
        kept = LayerCheckpoint(checkpoint) if deep else Checkpoint(checkpoint, keep=True)
    with options.limited(threads), StageProgress() as progress, ExitStack() as held:
        with options.opening():
            opened = open_data(
                data, smallest_side=side, longest_side=longest_side, channels=channels, skip_bad=skip_bad, key=key,
                columns=columns or None, drop=drop, progress=progress,
            )  # fmt: skip
        options.tell_skipped(opened)
        vectors = opened if isinstance(opened, Vectors) else None
        _refuse_others(context, data, vectors is not None, given)
        kept_by_learner = kept if isinstance(kept, Checkpoint) else None
        learner = _learner(chosen, given[""], vectors is not None, kept_by_learner, progress)
        if deep:
            model = _deep_model(context, learner, chosen, given, opened, kept, progress)
        elif vectors is None:
            model = _image_model(learner, chosen, given)
        else:
            model = _vector_model(learner, chosen, vectors, data)
        options.tell_columns(opened)
        if kept is not None:
            held.enter_context(kept.lock)
        started = time.perf_counter()
        with _going_on_from(checkpoint):
            model.fit(opened if vectors is None else vectors.X)
        if vectors is not None:
            _name_columns(model, vectors)
        seconds = time.perf_counter() - started
        notes = {"data": data.name, **model_summary(model, opened), "seconds": round(seconds, 1)}
        notes |= {"longest_side": longest_side, "channels": channels}
        save_model(model, output, notes=notes)
        if kept is not None:  # only when the model is on the disk
            kept.clear()
    if as_json:
        options.print_json({"model": str(output), **notes})
    else:
        _print(notes, output)


def _refuse_others(context: click.Context, data: Path, vectors: bool, given: dict[str, dict[str, Any]]) -> None:
    """Refuse options for the other kind of data."""
    names = _OF_IMAGES if vectors else _OF_VECTORS
    others = [f"--{name.replace('_', '-')}" for name in names if _was_given(context, name)]
    others += [f"--set {part}.{name}" for part in ("images", "encoder") if vectors for name in given[part]]
    if others:
        kinds = ("images", "vectors") if vectors else ("vectors", "images")
        raise click.UsageError(f"{others[0]} is for {kinds[0]}, but {data} holds {kinds[1]}: leave it out")


def _was_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def _learner(
    chosen: dict[str, Any], settings: dict[str, Any], vectors: bool, kept: Checkpoint | None, progress: StageProgress
) -> Any:
    from ..callbacks import OnEpoch
    from ..learners import LEARNERS
    from ..utils.settings import with_settings

    name, n_components = chosen["learner"], chosen["n_components"]
    learner = LEARNERS[name]()
    available = learner.get_params()
    if n_components is not None and "n_components" not in available:
        raise click.UsageError(
            f"--n-components: {name} always has as many components as there are features; leave it out"
        )
    if n_components is None and not vectors and not learner.complete:
        n_components = 400
    known = {"n_components": n_components} | {name: chosen[name] for name in ("random_state", "precision")}
    with_settings(learner, {key: value for key, value in known.items() if key in available} | settings, name)
    callbacks: list[Any] = [OnEpoch(lambda done, total: progress("learn", done, total))]
    if kept is not None:
        if not hasattr(learner, "use_checkpoint"):
            raise click.UsageError(f"--checkpoint: {name} cannot resume a training, only epls can; leave it out")
        callbacks.append(kept)
    return learner.set_callbacks(*callbacks)


def _image_model(learner: Any, chosen: dict[str, Any], given: dict[str, dict[str, Any]]) -> Any:
    from ..images.features import ImageFeatures
    from ..utils.settings import with_settings

    for name in given["images"].keys() & chosen.keys():
        raise click.UsageError(f"--set images.{name}: use the option --{name.replace('_', '-')} instead")
    parameters = {key: chosen[key] for key in _FOR_FEATURES}
    encoder = _encoder(learner, chosen, given)
    features = ImageFeatures(learner, whiten=learner.whitens, encoder=encoder, **parameters)
    return with_settings(features, given["images"], "ImageFeatures")


def _encoder(learner: Any, chosen: dict[str, Any], given: dict[str, dict[str, Any]]) -> Any:
    from ..encoders import ENCODERS
    from ..utils.settings import with_settings

    name = options.full_name(chosen["encoder"] or learner.own_encoder)
    return with_settings(ENCODERS[name](), given["encoder"], f"the encoder {name}")


def _deep_model(
    context: click.Context, learner: Any, chosen: dict[str, Any], given: dict[str, dict[str, Any]], images: Any,
    kept: Any, progress: StageProgress,
) -> Any:  # fmt: skip
    from ..images.reading import ImageCollection
    from ..images.recipes import tell_epochs
    from ..images.stack import DeepFeatures, usual_layers

    for name in _OF_ONE_LAYER:
        if _was_given(context, name):
            raise click.UsageError(
                f"--{name.replace('_', '-')} is for one layer: leave it out, or give --layers 1; to choose the "
                f"layers, use epls.DeepFeatures([epls.Layer(...), ...]) in Python"
            )
    if given["images"]:
        raise click.UsageError(f"--set images.{next(iter(given['images']))}: a stack has no such setting; leave it out")
    layers = usual_layers(
        *ImageCollection(images, 1).smallest_size(), n_layers=chosen["layers"], estimator=learner,
        encoder=_encoder(learner, chosen, given), whiten=learner.whitens,
    )  # fmt: skip
    tell_epochs(layers, progress)
    common = {name: chosen[name] for name in ("grid", "mirror", "random_state")}
    return DeepFeatures(layers, checkpoint=kept, **common)


def _vector_model(learner: Any, chosen: dict[str, Any], vectors: Vectors, data: Path) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from ..data.blocks import as_blocks

    scale = chosen["scale"]
    if scale and as_blocks(vectors.X) is not None:
        raise click.UsageError(f"--scale requires all vectors in memory, but {data} is read in parts: leave it out")
    if scale is None:
        scale = vectors.names is not None
    return make_pipeline(StandardScaler(), learner) if scale else learner


def _name_columns(model: Any, vectors: Vectors) -> None:
    """Note the names of a table's columns, as a fit on a data frame does, to check other frames against them."""
    import numpy as np
    from sklearn.pipeline import Pipeline

    if vectors.names is not None:
        first = model[0] if isinstance(model, Pipeline) else model
        first.feature_names_in_ = np.asarray(vectors.names, dtype=object)


@contextmanager
def _going_on_from(checkpoint: Path | None) -> Iterator[None]:
    """Say how to continue after Ctrl-C, if a checkpoint has been written."""
    try:
        yield
    except KeyboardInterrupt as error:
        if checkpoint is None or not any(checkpoint.glob("*-*")):
            raise
        raise click.ClickException(f"interrupted; run the same command to continue from {checkpoint}") from error


def _print(notes: dict[str, Any], output: Path) -> None:
    options.tell(
        f"{counted(notes['units'], 'features')} learned from "
        f"{counted(notes['samples'], notes['kind'])} in {notes['seconds']} s, written to {output}\n"
        f"dead units: {notes['unresponsive units']}; population sparsity "
        f"{notes['population sparsity']:.2f}, lifetime sparsity {notes['lifetime sparsity']:.2f} (1 means one unit "
        f"per sample, or one sample per unit)"
    )
