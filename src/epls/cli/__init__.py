"""The command line: parse, call the library, print."""

from __future__ import annotations

import sys


def main() -> None:
    """The ``epls`` command."""
    try:
        from .main import run
    except ImportError as error:
        sys.exit(f'epls: the command line needs {error.name}: pip install "epls[cli]"')
    except KeyboardInterrupt:  # in the first moments
        sys.exit("epls: interrupted")
    sys.exit(run())
