"""``epls report``: a page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import inputs, options


@click.command("report")
@click.argument("model", type=options.input_path)
@click.option("--data", type=options.input_path, required=True,
              help="Data to show the units' responses to: anything that `epls fit` accepts.")  # fmt: skip
@options.output("The .html file to write.", ".html")
@options.image_folder
@options.array_key
@options.running
def command(
    model: Path, data: Path, output: Path, random_state: int, threads: int | None, force: bool, as_json: bool,
    **chosen: Any,
) -> None:  # fmt: skip
    """Write a web page about MODEL: its units, what excites them, and how sparse and balanced they are."""
    from ..images.models import noted_columns
    from ..report import model_page
    from ..utils.files import write_atomically
    from ..utils.wording import sized

    options.check_output(output, force, model, data)
    with options.limited(threads), options.StageProgress() as progress:
        found = inputs.open_inputs(data, chosen | {"model": model}, progress, grid=1)
        shown: Any = found.data if found.vectors is None else found.vectors.in_memory()
        html = model_page(
            found.model,
            shown,
            title=f"{model.name}: what was learned",
            feature_names=noted_columns(found.notes),
            random_state=random_state,
            progress=progress,
        )
    content = html.encode()
    write_atomically(output, content)
    text = f"{output}, {sized(len(content))}: open it in a browser"
    options.print_result(as_json, {"report": str(output), "bytes": len(content)}, text)
