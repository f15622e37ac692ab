"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, things: str, thing: str | None = None) -> str:
    """Return a number and what it counts, in the singular for one. ``thing`` is needed if that is not without the "s".

    Examples
    --------
    >>> counted(1, "images"), counted(1200, "images"), counted(1, "classes", "class")
    ('1 image', '1,200 images', '1 class')
    """
    return f"{number:,} {(thing or things.removesuffix('s')) if number == 1 else things}"
