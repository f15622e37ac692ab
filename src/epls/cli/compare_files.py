"""The files that ``epls compare`` writes: all of them or none, and none that is left from another comparison."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from . import options

TABLE, PAGE, CHART = FILES = ("compare.json", "compare.html", "compare.png")


def write_files(output: Path, table: bytes, makers: Mapping[str, Callable[[], bytes]]) -> list[str]:
    """Write the table, and the files whose libraries are installed; return their names.

    Files of an earlier comparison in the same folder are replaced or removed.
    """
    contents = {output / TABLE: table}
    for name, made in makers.items():
        try:
            contents[output / name] = made()
        except ImportError as error:
            options.tell(f"no {name}: {error}", err=True)
    output.mkdir(parents=True, exist_ok=True)
    stale = [output / name for name in FILES if output / name not in contents and (output / TABLE).exists()]
    _write_together(contents)
    for path in stale:
        path.unlink(missing_ok=True)
    return [str(path) for path in contents]


def _write_together(contents: Mapping[Path, bytes]) -> None:
    """Write all files, or on an error none: they replace earlier ones only when all of them are on the disk."""
    from ..utils.files import atomic_file

    with ExitStack() as files:
        for path, content in contents.items():
            file = files.enter_context(atomic_file(path))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def chart(entries: Sequence[Any]) -> bytes:
    """Return a chart of the accuracies as a PNG file."""
    from ..plotting import plot_comparison

    done = [entry for entry in entries if entry.failed is None]
    axes = plot_comparison([e.name for e in done], [e.accuracy for e in done], [e.std for e in done])
    figure = axes.get_figure(root=True)
    assert figure is not None  # it was made for these axes
    import matplotlib.pyplot as plt  # plot_comparison has said so if it is missing

    try:
        return options.png_of(figure, dpi=150)
    finally:
        plt.close(figure)
