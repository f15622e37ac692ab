"""``epls report``: a page about a model."""

from __future__ import annotations

from pathlib import Path

import click

from . import options
from .progress import StageProgress


@click.command("report")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--data", type=click.Path(path_type=Path), required=True,
              help="What its units are shown to answer to: as for `epls fit`.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The .html file to write.")
@options.image_folder
@options.array_key
@options.seed
@options.threads
@options.force
@options.as_json
def command(
    model: Path, data: Path, output: Path, channels: str | None, skip_bad: bool,
    key: str | None, seed: int, threads: int | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write a page about MODEL to open in a browser: its units, what excites them, how sparse and balanced they are."""
    from ..persistence import load_model, read_notes
    from ..report import model_page
    from ..utils.files import write_atomically

    options.check_output(output, force)
    loaded, notes = load_model(model), read_notes(model)
    features = options.image_features(loaded)
    with options.limited(threads), StageProgress() as progress:
        opened = options.open_data_of(
            loaded, notes, data, channels=channels, skip_bad=skip_bad, key=key, progress=progress,
            smallest_side=1 if features is None else features.patch_size,
        )  # fmt: skip
        html = model_page(
            loaded if features is None else features,
            opened.in_memory() if isinstance(opened, options.Vectors) else opened,
            title=f"{model.name}: what was learned",
            feature_names=notes.get("feature_names"),
            random_state=seed,
            progress=progress,
        )
    content = html.encode()
    write_atomically(output, content)
    if as_json:
        options.print_json({"report": str(output), "bytes": len(content)})
    else:
        click.echo(f"{output}, {len(content) / 1e6:.1f} MB: open it in a browser")
