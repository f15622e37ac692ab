"""``epls transform``: the features of images or vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..utils import processes
from ..utils.wording import counted
from . import inputs, options


@click.command("transform")
@click.argument("data", type=options.input_path, nargs=-1, metavar="[MODEL] DATA", required=True)
@options.output("The file to write: .csv, .parquet or .npz; also .npy if the data are not a folder of images.")
@inputs.of_images
@options.array_key
@options.running
def command(
    data: tuple[Path, ...], output: Path, threads: int | None, force: bool, as_json: bool, **chosen: Any
) -> None:
    """Compute the features of DATA: a row for each image or vector.

    MODEL is a file that `epls fit` wrote. Without it, the features of images are those that `epls explore` compares
    them by: learned from them without labels, or computed by a pretrained network.

    A .csv or .parquet file is a table with a column for each feature. For a folder of images, the first column, "file",
    has the file of each row. A .npz file holds the array "features" and, for a folder of images, the array "names" with
    the file of each row; numpy.load reads both.

    In several processes, started by torchrun, each writes a part: features.part0.npy, features.part1.npy and so on.
    """
    from ..datasets.opening import rows_have_names
    from ..datasets.writing import check_ending, features_file
    from ..images.models import codes_of

    if len(data) > 2:
        raise click.UsageError(f"{len(data)} paths were given: give a model and data, or only data")
    path, model = data[-1], data[0] if len(data) == 2 else None
    if model is None and processes.n_processes() > 1:
        raise click.UsageError("several processes compute the features of a model: give MODEL before DATA")
    try:
        check_ending(output, has_names=rows_have_names(path))
    except ValueError as error:
        raise click.UsageError(f"--output {output}: {error}") from error
    output = processes.own_file(output)
    if processes.was_written(output, force):
        return
    options.check_output(output, force, *data)
    with options.limited(threads), options.StageProgress() as progress:
        found = inputs.open_inputs(path, chosen | {"model": model, "drop": ()}, progress, for_page=True)
        if found.are_features:
            raise click.UsageError(f"{path} holds vectors: give a MODEL before it that computes features of them")
        found = _own_part(found)
        if model is None:
            rows = inputs.features_of(found, chosen, progress).rows
            parts, columns = iter([rows]), [f"feature{number}" for number in range(rows.shape[1])]
        else:
            parts, columns = codes_of(found.model, found.data), found.model.get_feature_names_out().tolist()
        shape = (len(found.data), len(columns))
        names = None if output.suffix.lower() == ".npy" else found.names
        with features_file(output, shape, names, columns) as write:
            done = 0
            for rows in parts:
                write(rows)
                done += rows.shape[0]
                progress("encode", done, shape[0])
    facts = {"features": str(output), "shape": shape, "skipped": found.n_skipped}
    others = "" if processes.n_processes() == 1 else f"; {processes.n_processes()} processes write a part each"
    text = f"features of {counted(shape[0], found.kind)}, {shape[1]:,} each, written to {output}{others}"
    options.print_result(as_json, facts, text)


def _own_part(found: inputs.Inputs) -> inputs.Inputs:
    """Return what this process encodes; all if there is no other."""
    import numpy as np

    from ..images.reading import ImageCollection

    if processes.n_processes() == 1:
        return found
    rows = processes.own_rows(len(found.data))
    images: Any = found.data
    if found.vectors is not None:
        part: Any = found.vectors.part(rows)
    else:
        part = ImageCollection(images, 1).some(np.arange(rows.start, rows.stop)).images
    return replace(found, data=part, names=None if found.names is None else found.names[rows])
