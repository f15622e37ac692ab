"""``epls fit``: features from a folder of images."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from . import options
from .progress import StageProgress


@click.command("fit")
@click.argument("images", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The model file to write.")
@click.option("--units", type=click.IntRange(min=1), default=400, show_default=True, help="Features per region.")
@click.option("--patch-size", type=click.IntRange(min=1), default=10, show_default=True, help="In pixels.")
@click.option("--patches", type=click.IntRange(min=1), help="Patches to learn from.  [default: 100 a unit, or 50,000]")
@options.image_folder
@options.seed
@options.threads
@options.force
@options.as_json
def command(
    images: Path, output: Path, units: int, patch_size: int, patches: int | None, channels: str | None, skip_bad: bool,
    seed: int, threads: int | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Learn features from IMAGES: a folder of image files, or a .npy array (n, height, width[, channels])."""
    from ..callbacks import OnEpoch
    from ..images.features import ImageFeatures
    from ..learners.epls import EPLS
    from ..persistence import save_model

    options.check_output(output, force)
    collection = options.open_images(images, patch_size, channels, skip_bad)
    with options.limited(threads), StageProgress() as progress:
        learner = EPLS(units).set_callbacks(OnEpoch(lambda done, total: progress("learn", done, total)))
        features = ImageFeatures(learner, patch_size=patch_size, n_patches=patches, random_state=seed)
        started = time.perf_counter()
        features.fit(collection)
    save_model(features, output)
    result: dict[str, Any] = {
        "model": str(output),
        "images": len(collection),
        "skipped": len(getattr(collection, "skipped", ())),
        "units": units,
        "epochs": features.learner_.n_epochs_,
        "seconds": round(time.perf_counter() - started, 1),
    }
    if as_json:
        options.print_json(result)
    else:
        click.echo(
            f"{units} features learned from {result['images']} images in {result['seconds']} s, written to {output}"
        )
