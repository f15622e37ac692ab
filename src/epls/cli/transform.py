"""``epls transform``: the features of images or vectors."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import click

from . import options
from .progress import StageProgress


@click.command("transform")
@click.argument("model", type=options.path_type)
@click.argument("data", type=options.path_type)
@click.option("-o", "--output", type=options.path_type, required=True, help="The .npy file to write.")
@options.image_folder
@options.array_key
@options.threads
@options.force
@options.as_json
def command(
    model: Path, data: Path, output: Path, channels: str | None, skip_bad: bool,
    key: str | None, threads: int | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compute the features of DATA with MODEL, a file that `epls fit` wrote; a row for each image or vector.

    For a folder, the files of the rows are listed in a text file beside the output.
    """
    from ..datasets.opening import Vectors
    from ..images.models import codes_of, image_features, open_data_for
    from ..images.pooling import smallest_side
    from ..persistence import load_with_notes
    from ..utils.files import atomic_file
    from ..utils.npy import npy_header

    if output.suffix != ".npy":
        raise click.UsageError(f"--output {output}: features are written as .npy, so give a name that ends in it")
    names_file = output.with_suffix(".names.txt")
    options.check_output(output, force, model, data)
    loaded, notes = load_with_notes(model)
    features = image_features(loaded)
    least = 1 if features is None else smallest_side(features.patch_size, features.stride, features.grid)
    with options.limited(threads), StageProgress() as progress:
        with options.opening():
            opened = open_data_for(
                loaded, notes, data, channels=channels, skip_bad=skip_bad, key=key, smallest_side=least,
                progress=progress,
            )  # fmt: skip
        options.tell_skipped(opened)
        names = None if isinstance(opened, Vectors) else getattr(opened, "names", None)
        if names is not None:
            options.check_output(names_file, force)
        shape = (len(opened), len(loaded.get_feature_names_out()))
        with ExitStack() as files:
            # Both are complete before either takes its place.
            names_written = None if names is None else files.enter_context(atomic_file(names_file))
            written = files.enter_context(atomic_file(output))
            written.write(npy_header(shape))
            done = 0
            for rows in codes_of(loaded, opened):
                written.write(rows.astype("<f4", copy=False).tobytes())
                done += len(rows)
                progress("encode", done, len(opened))
            if names_written is not None and names is not None:
                names_written.write(b"".join(os.fsencode(name) + b"\n" for name in names))
    if as_json:
        skipped = len(getattr(opened, "skipped", ()))
        options.print_json({"features": str(output), "shape": shape, "skipped": skipped})
    else:
        what = "vectors" if isinstance(opened, Vectors) else "images"
        click.echo(f"features of {shape[0]:,} {what}, {shape[1]:,} each, written to {output}")
