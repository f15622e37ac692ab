"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, things: str) -> str:
    """Return a number and what it counts, in the singular for one.

    Examples
    --------
    >>> counted(1, "images"), counted(1200, "images")
    ('1 image', '1,200 images')
    """
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"
