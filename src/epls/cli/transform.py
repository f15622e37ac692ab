"""``epls transform``: the features of images."""

from __future__ import annotations

import os
from pathlib import Path

import click

from . import options
from .progress import StageProgress


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
    from ..files import atomic_file, npy_header, write_atomically
    from ..images.features import ImageFeatures
    from ..images.pooling import smallest_side
    from ..persistence import load_model

    if output.suffix != ".npy":
        raise click.UsageError(f"--output {output}: features are written as .npy, so give a name that ends in it")
    names_file = output.with_suffix(".names.txt")
    options.check_output(output, force)
    features = load_model(model)
    if not isinstance(features, ImageFeatures):
        raise ValueError(f"{model} holds a {type(features).__name__}, not features of images: make one with epls fit")
    least = smallest_side(features.patch_size, features.stride, features.grid)
    expected = {1: "grey", 3: "colour"}.get(features.n_channels_)
    collection = options.open_images(images, least, channels, skip_bad, expected)
    names = getattr(collection, "names", None)
    if names is not None:
        options.check_output(names_file, force)
    rows = features.iter_transform(collection)
    shape = (len(collection), len(features.get_feature_names_out()))
    with options.limited(threads), StageProgress() as progress, atomic_file(output) as file:
        file.write(npy_header(shape))
        for number, row in enumerate(rows, 1):
            file.write(row.astype("<f4", copy=False).tobytes())
            progress("encode", number, len(collection))
    if names is not None:
        write_atomically(names_file, b"".join(os.fsencode(name) + b"\n" for name in names))
    if as_json:
        skipped = len(getattr(collection, "skipped", ()))
        options.print_json({"features": str(output), "shape": shape, "skipped": skipped})
    else:
        click.echo(f"features of {shape[0]} images, {shape[1]} each, written to {output}")
