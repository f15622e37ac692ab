"""``epls report``: a page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import options
from .progress import StageProgress


@click.command("report")
@click.argument("model", type=options.path_type)
@click.option("--data", type=options.path_type, required=True,
              help="Data to show the units' responses to: anything that `epls fit` accepts.")  # fmt: skip
@click.option("-o", "--output", type=options.path_type, required=True, help="The .html file to write.")
@options.image_folder
@options.array_key
@options.random_state
@options.threads
@options.force
@options.as_json
def command(
    model: Path, data: Path, output: Path, channels: str | None, skip_bad: bool,
    key: str | None, random_state: int, threads: int | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write a web page about MODEL: its units, what excites them, and how sparse and balanced they are."""
    from ..datasets.opening import Vectors
    from ..images.models import image_features, noted_columns, open_data_for
    from ..persistence import load_with_notes
    from ..report import model_page
    from ..utils.files import write_atomically

    options.check_output(output, force, model, data)
    loaded, notes = load_with_notes(model)
    features = image_features(loaded)
    with options.limited(threads), StageProgress() as progress:
        with options.opening():
            opened = open_data_for(
                loaded, notes, data, channels=channels, skip_bad=skip_bad, key=key, progress=progress,
                smallest_side=1 if features is None else features.smallest_side(1),
            )  # fmt: skip
        options.tell_skipped(opened)
        shown: Any = opened.in_memory() if isinstance(opened, Vectors) else opened
        html = model_page(
            loaded,
            shown,
            title=f"{model.name}: what was learned",
            feature_names=noted_columns(notes),
            random_state=random_state,
            progress=progress,
        )
    content = html.encode()
    write_atomically(output, content)
    if as_json:
        options.print_json({"report": str(output), "bytes": len(content)})
    else:
        options.tell(f"{output}, {len(content) / 1e6:.1f} MB: open it in a browser")
