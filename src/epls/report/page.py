"""Fill a page template: style, script and content in one file, so that it works offline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from .._version import __version__


def page(
    kind: str, title: str, content: dict[str, Any], *, scripts: Sequence[str] = (), styles: Sequence[str] = ()
) -> str:
    """Return the HTML of a page, built from the assets.

    Parameters
    ----------
    kind : str
        The kind of page, which selects the body.
    title : str
        The heading.
    content : dict
        The content that the scripts show, as plain values.
    scripts, styles : sequence of str
        The files of the page's own scripts (by default, the one of its kind) and styles.
    """
    style = "".join(_asset(f"{name}.css") for name in ("report", *styles))
    script = "".join(_asset(f"{name}.js") for name in ("common", *(scripts or (kind,))))
    # A "<" in the content could end the script early, as in "</script>".
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    title = title.encode("utf-8", "backslashreplace").decode()  # file names need not be valid UTF-8
    return _asset("page.html").format(
        title=escape(title),
        version=escape(__version__),
        style=style,
        body=_asset(f"{kind}.html"),
        data=data,
        script=script,
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
