"""``epls inspect``: what is in a model file, in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options

if TYPE_CHECKING:
    from rich.console import Console

_UNITS_LISTED = 8
_FEATURES_LISTED = 4
_LISTED = 6
_LARGEST_FILTER = 16  # pixels, else a terminal has room for few


@click.command("inspect")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--filters", type=click.IntRange(min=0), default=24, show_default=True, help="How many to draw.")
@options.as_json
def command(model: Path, filters: int, as_json: bool) -> None:
    """Tell what is in MODEL, a file that `epls fit` wrote; draw filters if the terminal has colours."""
    from ..persistence import load_model, read_notes

    loaded, notes = load_model(model), read_notes(model)
    facts = _facts(loaded, notes)
    if as_json:
        options.print_json({"model": str(model), **facts})
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, Text(_text(value)))
    console.print(table)
    if filters:
        _show_units(console, loaded, notes, filters)


def _facts(model: Any, notes: dict[str, Any]) -> dict[str, Any]:
    from ..images.features import ImageFeatures

    learner = options.learner_of(model)
    facts: dict[str, Any] = {"kind": _kind(model), "learner": type(learner).__name__}
    bases = getattr(learner, "components_", None)
    if bases is not None:
        facts["units"], facts["values a unit sees"] = bases.shape
    model = options.image_features(model) or model
    if isinstance(model, ImageFeatures):
        facts["patches"] = f"{model.patch_size} x {model.patch_size} pixels, {model.n_channels_} channel(s)"
        facts["features of an image"] = len(model.get_feature_names_out())
        facts["settings"] = {key: value for key, value in model.get_params(deep=False).items() if key != "estimator"}
    facts["settings of the learner"] = learner.get_params(deep=False)
    curve = getattr(learner, "loss_curve_", None)
    if curve:
        facts["epochs"], facts["error, first and last"] = len(curve), [float(curve[0]), float(curve[-1])]
    if notes.get("feature_names"):
        facts["columns"] = notes["feature_names"]
    told = {"kind", "units", "epochs", "feature_names"}
    measured = {key: value for key, value in notes.items() if key not in told and value not in (None, [])}
    return facts | {"measured when it was learned": measured or "nothing: the file was not written by epls fit"}


def _kind(model: Any) -> str:
    steps = getattr(model, "steps", None)
    return type(model).__name__ if steps is None else "Pipeline of " + ", ".join(type(s).__name__ for _, s in steps)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        more = [f"and {len(value) - _LISTED} more"] if len(value) > _LISTED else []
        return ", ".join([_text(item) for item in value[:_LISTED]] + more)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _show_units(console: Console, model: Any, notes: dict[str, Any], filters: int) -> None:
    import numpy as np

    from ..images.features import ImageFeatures

    learner = options.learner_of(model)
    bases = getattr(learner, "components_", None)
    if bases is None:
        return
    model = options.image_features(model) or model
    if isinstance(model, ImageFeatures):
        if console.color_system is None:
            console.print("Filters: epls report draws them, and so does this in a terminal with colours.")
            return
        if model.patch_size > _LARGEST_FILTER:
            console.print("Filters: epls report draws them; they are too large for a terminal.")
            return
        _draw(console, bases[:filters].reshape(-1, model.patch_size, model.patch_size, model.n_channels_))
        return
    names = notes.get("feature_names") or getattr(model, "feature_names_in_", None)
    if names is None or len(names) != bases.shape[1]:
        names = [f"feature {k}" for k in range(bases.shape[1])]
    for unit, basis in enumerate(bases[: min(filters, _UNITS_LISTED)]):
        strongest = np.argsort(-np.abs(basis))[:_FEATURES_LISTED]
        console.print(f"unit {unit}: " + ", ".join(f"{names[k]} {basis[k]:+.3g}" for k in strongest))


def _draw(console: Console, filters: Any) -> None:
    """Filters side by side, two pixels a character: the upper one is its ink, the lower one its ground."""
    import numpy as np
    from rich.text import Text

    from ..plotting import filter_pictures
    from ..report.pictures import as_colour

    tiles = as_colour(filter_pictures(filters))
    size = tiles.shape[1]
    if size % 2:
        tiles = np.pad(tiles, ((0, 0), (0, 1), (0, 0), (0, 0)))
    across = max(1, (console.width + 1) // (size + 1))
    for start in range(0, len(tiles), across):
        some = tiles[start : start + across]
        for row in range(0, tiles.shape[1], 2):
            line = Text()
            for tile in some:
                for upper, lower in zip(tile[row], tile[row + 1], strict=True):
                    line.append("▀", f"rgb({upper[0]},{upper[1]},{upper[2]}) on rgb({lower[0]},{lower[1]},{lower[2]})")
                line.append(" ")
            console.print(line, no_wrap=True)
        console.print()
