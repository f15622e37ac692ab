"""``epls transform``: the features of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import options
from .progress import StageProgress

_BLOCK_IMAGES = 64


@click.command("transform")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("images", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The .npy file to write.")
@options.image_folder
@options.threads
@options.force
@options.as_json
def command(
    model: Path, images: Path, output: Path, channels: str | None, skip_bad: bool, threads: int | None, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Compute the features of IMAGES with MODEL, a file that `epls fit` wrote; a row for each image.

    For a folder, the files of the rows are listed in a text file beside the output.
    """
    from ..images.features import ImageFeatures
    from ..persistence import load_model, write_atomically

    if output.suffix != ".npy":
        raise click.UsageError(f"--output {output}: features are written as .npy, so give a name that ends in it")
    options.check_output(output, force)
    features = load_model(model)
    if not isinstance(features, ImageFeatures):
        raise ValueError(f"{model} holds a {type(features).__name__}, not features of images: make one with epls fit")
    collection = options.open_images(images, features.patch_size, channels, skip_bad)
    with options.limited(threads), StageProgress() as progress:
        content = _npy_bytes(features, collection, progress)
    write_atomically(output, content)
    names = getattr(collection, "names", None)
    if names is not None:
        write_atomically(output.with_suffix(".names.txt"), "".join(f"{name}\n" for name in names).encode())
    shape = (len(collection), len(features.get_feature_names_out()))
    if as_json:
        options.print_json(
            {"features": str(output), "shape": shape, "skipped": len(getattr(collection, "skipped", ()))}
        )
    else:
        click.echo(f"features of {shape[0]} images, {shape[1]} each, written to {output}")


def _npy_bytes(features: Any, images: Any, progress: StageProgress) -> bytes:
    import io

    import numpy as np

    rows = []
    for start in range(0, len(images), _BLOCK_IMAGES):
        progress("encode", start, len(images))
        rows.append(features.transform(images[start : start + _BLOCK_IMAGES]))
    progress("encode", len(images), len(images))
    buffer = io.BytesIO()
    np.save(buffer, np.concatenate(rows))
    return buffer.getvalue()
