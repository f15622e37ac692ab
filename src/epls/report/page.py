"""A page from its template: style, script and content in one file, so that it works without network."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

from .._version import __version__


def page(kind: str, title: str, content: dict[str, Any]) -> str:
    """The HTML of a page: ``kind`` names its script and its body in the folder of assets."""
    style, common, script, body = (_asset(name) for name in ("report.css", "common.js", f"{kind}.js", f"{kind}.html"))
    # "<" inside of a script would end it where text says "</script>".
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    title = title.encode("utf-8", "backslashreplace").decode()  # names of files need not be valid UTF-8
    return _asset("page.html").format(
        title=escape(title), version=escape(__version__), style=style, body=body, data=data, script=common + script
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
