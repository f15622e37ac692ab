"""``epls inspect``: what is in a model file, in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options

if TYPE_CHECKING:
    from rich.console import Console

    from ..images.models import ModelLayer

_UNITS_LISTED = 8
_FEATURES_LISTED = 4
_LISTED = 6
_NARROWEST_VALUE = 20  # characters, beside its name
_LARGEST_FILTER = 16  # pixels; few larger ones fit into a terminal


@click.command("inspect")
@click.argument("model", type=options.path_type)
@click.option("--filters", type=click.IntRange(min=0), default=24, show_default=True, help="How many filters to draw.")
@options.as_json
def command(model: Path, filters: int, as_json: bool) -> None:
    """Show what is in MODEL, a file that `epls fit` wrote, and its filters if the terminal has colors."""
    from ..evaluation.summary import model_facts
    from ..persistence import load_with_notes

    loaded, notes = load_with_notes(model)
    facts = model_facts(loaded, notes)
    if as_json:
        options.print_json({"model": str(model), **facts})
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    for number, layer in enumerate(facts.pop("layers", []), 1):
        settings = layer.pop("settings of the learner")
        facts |= {
            f"layer {number}": layer,
            f"settings of its learner{'s' * (layer['groups'] > 1)} ({number})": settings,
        }
    _show_facts(console, {name: _text(value) for name, value in facts.items()})
    if filters:
        _show_units(console, loaded, notes, filters)


def _show_facts(console: Console, facts: dict[str, str]) -> None:
    """Print names and values side by side, or each value below its name if the terminal is narrow."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if max(map(len, facts)) + _NARROWEST_VALUE > console.width:
        indent = 2 if console.width >= _NARROWEST_VALUE else 0
        for name, value in facts.items():
            console.print(Text(name, "bold", overflow="fold"))
            console.print(Padding(Text(value, overflow="fold"), (0, 0, 0, indent), expand=False))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, Text(value))
    console.print(table)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{options.one_line(str(key))}: {_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        more = [f"and {len(value) - _LISTED} more"] if len(value) > _LISTED else []
        return ", ".join([_text(item) for item in value[:_LISTED]] + more)
    return f"{value:.4g}" if isinstance(value, float) else options.one_line(str(value))


def _show_units(console: Console, model: Any, notes: dict[str, Any], filters: int) -> None:
    import numpy as np
    from rich.text import Text

    from ..images.models import image_features, layers_of, learner_of, noted_columns

    features = image_features(model)
    if features is not None:
        _show_filters(console, layers_of(features)[0], filters)
        return
    components = getattr(learner_of(model), "components_", None)
    if components is None:
        return
    names = noted_columns(notes) or getattr(model, "feature_names_in_", None)
    if names is None or len(names) != components.shape[1]:
        names = [f"feature {k}" for k in range(components.shape[1])]
    for unit, component in enumerate(components[: min(filters, _UNITS_LISTED)]):
        strongest = np.argsort(-np.abs(component))[:_FEATURES_LISTED]
        told = ", ".join(f"{names[k]} {component[k]:+.3g}" for k in strongest)
        console.print(Text(options.one_line(f"unit {unit}: {told}")), overflow="fold")


def _show_filters(console: Console, layer: ModelLayer, filters: int) -> None:
    """Draw the filters of the layer that sees the images."""
    from ..plotting import colors_shown

    components = getattr(layer.groups[0].estimator_, "components_", None)
    if components is None or len(layer.groups) > 1:  # units of several groups see different channels
        return
    if console.color_system is None:
        console.print("Filters: epls report draws them; so does this command in a terminal with colors.")
    elif layer.patch_size > _LARGEST_FILTER:
        console.print("Filters: epls report draws them; they are too large for a terminal.")
    else:
        _draw(console, components[:filters].reshape(-1, layer.patch_size, layer.patch_size, layer.n_channels))
        if (told := colors_shown(layer.n_channels)) is not None:
            console.print(f"Colors: {told}.")


def _draw(console: Console, filters: Any) -> None:
    """Draw filters side by side, two pixels per character: the upper is its foreground, the lower its background."""
    import numpy as np
    from rich.text import Text

    from ..plotting import filter_pictures
    from ..report.page import as_color

    tiles = as_color(filter_pictures(filters))
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
