"""``epls transform``: the features of images or vectors."""

from __future__ import annotations

from pathlib import Path

import click

from ..utils.wording import counted
from . import options
from .progress import StageProgress


@click.command("transform")
@click.argument("model", type=options.path_type)
@click.argument("data", type=options.path_type)
@click.option(
    "-o",
    "--output",
    type=options.path_type,
    required=True,
    help="The file to write: .csv, .parquet or .npz; also .npy if the data are not a folder of images.",
)
@options.image_folder
@options.array_key
@options.precision
@options.threads
@options.force
@options.as_json
def command(
    model: Path, data: Path, output: Path, channels: str | None, skip_bad: bool,
    key: str | None, precision: str, threads: int | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compute the features of DATA with MODEL, a file that `epls fit` wrote: a row for each image or vector.

    A .csv or .parquet file is a table with a column for each feature. For a folder of images, the first column, "file",
    has the file of each row. A .npz file holds the array "features" and, for a folder of images, the array "names" with
    the file of each row; numpy.load reads both.
    """
    from ..datasets.opening import Vectors, rows_have_names
    from ..datasets.writing import check_ending, features_file
    from ..images.models import codes_of, image_features, open_data_for
    from ..persistence import load_with_notes

    try:
        check_ending(output, has_names=rows_have_names(data))
    except ValueError as error:
        raise click.UsageError(f"--output {output}: {error}") from error
    options.check_output(output, force, model, data)
    loaded, notes = load_with_notes(model)
    if not hasattr(loaded, "transform"):
        raise click.ClickException(
            f"{model} holds a {type(loaded).__name__}, which has no features: use its predict in Python"
        )
    for part in getattr(loaded, "named_steps", {"": loaded}).values():
        if "precision" in part.get_params(deep=False):
            part.set_params(precision=precision)
    features = image_features(loaded)
    least = 1 if features is None else features.smallest_side()
    with options.limited(threads), StageProgress() as progress:
        with options.opening():
            opened = open_data_for(
                loaded, notes, data, channels=channels, skip_bad=skip_bad, key=key, smallest_side=least,
                progress=progress,
            )  # fmt: skip
        options.tell_skipped(opened)
        names = None if isinstance(opened, Vectors) else getattr(opened, "names", None)
        columns = loaded.get_feature_names_out().tolist()
        shape = (len(opened), len(columns))
        with features_file(output, shape, names, columns) as write:
            done = 0
            for rows in codes_of(loaded, opened):
                write(rows)
                done += rows.shape[0]
                progress("encode", done, len(opened))
    if as_json:
        skipped = len(getattr(opened, "skipped", ()))
        options.print_json({"features": str(output), "shape": shape, "skipped": skipped})
    else:
        what = "vectors" if isinstance(opened, Vectors) else "images"
        options.tell(f"features of {counted(shape[0], what)}, {shape[1]:,} each, written to {output}")
