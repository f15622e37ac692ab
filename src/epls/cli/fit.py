"""``epls fit``: learn features from images or vectors."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..utils import processes
from ..utils.wording import counted
from . import inputs, options

if TYPE_CHECKING:
    from ..datasets.opening import Vectors


# Options are for what depends on the data or the machine. What has a good default is left to --set.
_OF_ONE_LAYER = ("n_components", "patch_size", "n_patches", "stride")
_IN_STACKS = (None, "epls", "directions")  # learners of the recipe, which may have several layers


@click.command("fit")
@click.argument("data", type=options.input_path)
@options.output("The model file to write.")
@options.learner(usual="epls for one layer, directions for several, prototypes for vectors")
@options.n_components(usual="up to 400 for images; for vectors, the learner's own")
@options.settings(
    metavar="[PART.]NAME=VALUE",
    help="A setting of the learner by its name in Python, such as max_iter=50, or of another part: encoder.alpha=0.5, "
    "images.pooling=sum. May be given several times.",
)
@options.recipe
@options.patches
@options.grid
@click.option("--encoder", type=options.encoder_choice,
              help="Computes the codes of patches; sc means sparse_coding.  [default: the learner's own]")  # fmt: skip
@options.longest_side(usual="unchanged")
@options.image_folder
@options.vectors
@click.option("--checkpoint", type=options.path_type, metavar="FOLDER",
              help="Save the training here every minute; the same command continues from there.")  # fmt: skip
@options.running
def command(
    data: Path, output: Path, settings: tuple[str, ...], checkpoint: Path | None, threads: int | None, force: bool,
    as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Learn features from DATA.

    DATA is a folder of image files or of .npy files (height, width, channels), a .npy or .npz array of images (n,
    height, width[, channels]) or of vectors (n, n_features), a .csv or .parquet table of vectors, a folder of .npy
    files of vectors, or a zarr array. Images may have any number of channels. Vectors may be larger than memory.

    You need not choose anything. The layers, units and patches follow from the number and the size of the images, as in
    `epls explore`. An option replaces one of these choices: --n-components, --patch-size, --n-patches and --stride
    are for one layer, so each of them means --layers 1. Learners other than epls and directions learn one layer unless
    --layers says otherwise. Images keep their size, so shrink large photographs with --longest-side. If some
    photographs are gray and some are color, all become color.

    Patches are whitened if the learner needs it, and encoded with the learner's own encoder. What suits images does not
    suit vectors: from these, prototypes are learned unless --learner says otherwise.

    In several processes, started by torchrun, each learns from a part of the vectors:
    torchrun --nproc-per-node 4 -m epls fit vectors.zarr -o model.epls
    """
    import numpy as np
    from sklearn.pipeline import Pipeline

    from ..evaluation.summary import model_summary
    from ..images.pooling import Geometry, smallest_side
    from ..persistence import save_model

    given = options.settings_of(settings, ["", "encoder", "images"], "[PART.]NAME=VALUE, PART being encoder or images")
    group, first = processes.connected(given[""].get("device")), processes.rank() == 0
    done = first and processes.was_written(output, force)
    if first and not done:
        options.check_output(output, force, data)
    if group is not None and group.from_first(b"done" if done else b""):
        return
    with options.limited(threads), options.StageProgress() as progress, ExitStack() as held:
        geometry = Geometry(chosen["patch_size"] or 1, chosen["stride"] or 1)
        side = smallest_side([geometry], chosen["grid"])
        found = inputs.open_inputs(data, chosen, progress, smallest_side=side)
        if found.vectors is not None:
            chosen["learner"] = chosen["learner"] or "prototypes"
        _check_n_components(chosen)
        if found.vectors is None and group is not None:
            raise click.UsageError(
                f"{data} holds images, which one process learns from: start it without torchrun; several processes can "
                f"learn from vectors, such as patches, and transform images"
            )
        if found.vectors is None:
            model, found = _image_model(found, chosen, given)
        else:
            model = _vector_model(found.vectors, data, chosen, given)
        _show_learning(model, progress)
        kept = None if checkpoint is None else _checkpoint(model, checkpoint, chosen["learner"])
        if kept is not None and first:
            held.enter_context(kept.lock)
            held.enter_context(options.going_on(checkpoint))
        started = time.perf_counter()
        if found.vectors is not None and group is not None:
            _fit_part(model, found.vectors)
        else:
            model.fit(found.data if found.vectors is None else found.vectors.X)
        if group is not None and not first:
            group.from_first(b"")  # wait until the model is on the disk
            return
        if found.columns is not None:  # as a fit on a data frame does, to check other frames against them
            (model[0] if isinstance(model, Pipeline) else model).feature_names_in_ = np.array(found.columns, object)
        seconds = time.perf_counter() - started
        notes = {"data": data.name, **model_summary(model, found.data), "seconds": round(seconds, 1)}
        channels = getattr(found.data, "channels", chosen["channels"])
        notes |= {"longest_side": chosen["longest_side"], "channels": channels}
        save_model(model, output, notes=notes)
        if kept is not None:  # only when the model is on the disk
            kept.clear()
        if group is not None:
            group.from_first(b"")
    text = (
        f"{counted(notes['units'], 'features')} learned from "
        f"{counted(notes['samples'], notes['kind'])} in {notes['seconds']} s, written to {output}\n"
        f"never active units: {notes['never active units']}; population sparsity "
        f"{notes['population sparsity']:.2f}, lifetime sparsity {notes['lifetime sparsity']:.2f} (1 means one unit "
        f"per sample, or one sample per unit)"
    )
    options.print_result(as_json, {"model": str(output), **notes}, text)


def _check_n_components(chosen: dict[str, Any]) -> None:
    from ..learners import LEARNERS

    learner = LEARNERS[chosen["learner"] or "epls"]
    if chosen["n_components"] is not None and "n_components" not in learner().get_params():
        raise click.UsageError(
            f"--n-components: {chosen['learner']} always has as many components as there are features; leave it out"
        )


def _image_model(
    found: inputs.Inputs, chosen: dict[str, Any], given: dict[str, dict[str, Any]]
) -> tuple[Any, inputs.Inputs]:
    """Return unfitted features for images, and the images that are large enough for them.

    They are those of the recipe, changed by the options. An option for a single layer means a single layer.
    """
    from ..datasets.folder import ImageFolder
    from ..encoders import ENCODERS
    from ..images.pooling import smallest_side
    from ..images.reading import ImageCollection
    from ..images.recipes import quick_features
    from ..images.stack import DeepFeatures
    from ..learners import LEARNERS
    from ..utils.settings import with_settings

    for name in given["images"].keys() & chosen.keys():
        raise click.UsageError(f"--set images.{name}: use the option --{name.replace('_', '-')} instead")
    own = {name: chosen[name] for name in _OF_ONE_LAYER if chosen[name] is not None}
    alone = chosen["layers"] is None and (own or given["images"] or chosen["learner"] not in _IN_STACKS)
    shapes = [shape[:2] for shape in ImageCollection(found.data, 1).shapes()]  # type: ignore[arg-type]
    height, width = (int(sorted(sides)[len(sides) // 2]) for sides in zip(*shapes, strict=True))  # a few may be tiny
    learning = {name: chosen[name] for name in ("mirror", "random_state")}
    model: Any = quick_features(len(found.data), height, width, layers=1 if alone else chosen["layers"], **learning)
    model.set_params(grid=chosen["grid"])
    in_stack = isinstance(model, DeepFeatures)
    chosen["learner"] = chosen["learner"] or ("directions" if in_stack else "epls")
    if in_stack:
        reason = (
            "is for one layer: leave it out, or give --layers 1; to choose the layers, use "
            "epls.DeepFeatures([epls.Layer(...), ...]) in Python"
        )
        options.refuse(click.get_current_context(), dict.fromkeys(_OF_ONE_LAYER, reason))
        for name in given["images"]:
            raise click.UsageError(f"--set images.{name}: a stack has no such setting; leave it out")
    elif "n_components" in own:
        model.estimator.set_params(n_components=own.pop("n_components"))
        model.set_params(n_patches=None)  # as many as these components need
    learner_class = LEARNERS[chosen["learner"]]
    encoder = options.full_name(chosen["encoder"] or learner_class.own_encoder)
    shared = {
        "encoder": with_settings(ENCODERS[encoder](), given["encoder"], f"the encoder {encoder}"),
        "whiten": learner_class.whitens,
    }
    parts = model.layers or [] if in_stack else [model]
    for part in parts:
        part.set_params(estimator=_learner_for(part.estimator, chosen, given[""], in_stack), **shared)
    if not in_stack:
        with_settings(model.set_params(**own), given["images"], "ImageFeatures")
    if not isinstance(found.data, ImageFolder):
        return model, found
    side = smallest_side([part.geometry for part in parts], model.grid)
    large = found.data.without_small(side, skip_bad=chosen["skip_bad"])
    options.tell_skipped(large, found.n_skipped)
    return model, replace(found, data=large, names=large.names)


def _learner_for(usual: Any, chosen: dict[str, Any], settings: dict[str, Any], in_stack: bool) -> Any:
    """Return the chosen learner with as many components as the recipe's, and with the settings of --set.

    The features give it a seed.
    """
    from ..learners import LEARNERS
    from ..utils.settings import with_settings

    name, learner = chosen["learner"], usual
    if not isinstance(usual, LEARNERS[name]):
        learner = LEARNERS[name]()
        has_components = "n_components" in learner.get_params()
        if in_stack and not has_components:
            raise click.UsageError(f"--layers requires a learner with n_components, but {name} has none: leave it out")
        if has_components and (in_stack or chosen["n_components"] is not None or not learner.complete):
            learner.set_params(n_components=usual.n_components)
    return with_settings(learner, settings, name)


def _vector_model(vectors: Vectors, data: Path, chosen: dict[str, Any], given: dict[str, dict[str, Any]]) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from ..data.blocks import as_blocks
    from ..learners import LEARNERS
    from ..utils.settings import with_settings

    for part in ("images", "encoder"):
        for name in given[part]:
            raise click.UsageError(f"--set {part}.{name} is for images, but {data} holds vectors: leave it out")
    learner = LEARNERS[chosen["learner"]]()
    known = {name: chosen[name] for name in ("n_components", "random_state") if name in learner.get_params()}
    with_settings(learner, known | given[""], chosen["learner"])
    if chosen["scale"] and as_blocks(vectors.X) is not None:
        raise click.UsageError(f"--scale requires all vectors in memory, but {data} is read in parts: leave it out")
    scale = vectors.columns is not None if chosen["scale"] is None else chosen["scale"]
    return make_pipeline(StandardScaler(), learner) if scale else learner


def _checkpoint(model: Any, folder: Path, name: str) -> Any:
    """Let an unfitted model save its training in a folder; return what saves it."""
    from ..algorithm.checkpoint import Checkpoint
    from ..images.stack import DeepFeatures

    kept, is_stack = Checkpoint(folder, keep=True), isinstance(model, DeepFeatures)
    learners = [layer.estimator for layer in model.layers or []] if is_stack else [_learner_in(model)]
    if not all(getattr(learner, "resumes", False) for learner in learners):
        raise click.UsageError(f"--checkpoint: {name} cannot resume a training: leave it out, or give --learner epls")
    if is_stack:
        model.set_params(checkpoint=kept)
    else:
        learners[0].set_callbacks(*learners[0].callbacks, kept)
    return kept


def _show_learning(model: Any, progress: options.StageProgress) -> None:
    """Let an unfitted model show the epochs of its learners."""
    from ..callbacks import report_epochs
    from ..images.recipes import tell_epochs
    from ..images.stack import DeepFeatures

    if isinstance(model, DeepFeatures):
        tell_epochs(model.layers or [], progress)
    else:
        report_epochs(_learner_in(model), lambda done, total: progress("learn", done, total))


def _learner_in(model: Any) -> Any:
    """Return the learner of an unfitted model with one."""
    from sklearn.pipeline import Pipeline

    return model[-1] if isinstance(model, Pipeline) else getattr(model, "estimator", model)


def _fit_part(model: Any, vectors: Vectors) -> None:
    """Learn from the part of this process. All read the whole table, so they standardise it in the same way."""
    from sklearn.pipeline import Pipeline

    from ..torch.distributed import Shard

    rows = processes.own_rows(len(vectors))
    if isinstance(model, Pipeline):
        scaler, learner = model
        learner.fit(Shard(scaler.fit_transform(vectors.X)[rows]))
    else:
        model.fit(Shard(vectors.part(rows).X))
