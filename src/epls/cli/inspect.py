"""``epls inspect``: the content of a model file, in the terminal."""

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
_NARROWEST_VALUE = 20  # characters, beside its name


@click.command("inspect")
@click.argument("model", type=options.input_path)
@options.as_json
def command(model: Path, as_json: bool) -> None:
    """Show what is in MODEL, a file that `epls fit` wrote. `epls report` draws its filters."""
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
    _show_units(console, loaded, notes)


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


def _show_units(console: Console, model: Any, notes: dict[str, Any]) -> None:
    """List the inputs that the first units of a learner of vectors depend on most."""
    from rich.text import Text

    from ..images.models import image_features, learner_of, noted_columns
    from ..report.model import input_names, strongest_inputs

    if image_features(model) is not None or not hasattr(learner_of(model), "components_"):
        return
    components, names = learner_of(model).components_[:_UNITS_LISTED], input_names(model, noted_columns(notes))
    for unit, inputs in enumerate(strongest_inputs(components, names, _FEATURES_LISTED)):
        told = ", ".join(f"{name} {weight:+.3g}" for name, weight in inputs)
        console.print(Text(options.one_line(f"unit {unit}: {told}")), overflow="fold")
