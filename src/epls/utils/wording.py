"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "image"), counted(1200, "image")
    ('1 image', '1,200 images')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
