"""Numbers and names in sentences."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Any


def counted(number: int, things: str, thing: str | None = None) -> str:
    """Return a number and what it counts. Give ``thing``, the singular, where dropping the "s" is not enough.

    Examples
    --------
    >>> counted(1, "images"), counted(1200, "images"), counted(1, "classes", "class")
    ('1 image', '1,200 images', '1 class')
    """
    return f"{number:,} {(thing or things.removesuffix('s')) if number == 1 else things}"


def listed(names: Collection[Any], most: int = 5) -> str:
    """Join names or numbers with commas; if there are many, show the first ones and count the rest.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b, c'
    >>> listed([f"c{k}" for k in range(64)])
    'c0, c1, c2, c3, c4 and 59 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, islice(names, most))) + more


def sized(n_bytes: int) -> str:
    """Return the size of a file in words.

    Examples
    --------
    >>> sized(31_400), sized(2_140_000)
    ('31 kB', '2.1 MB')
    """
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"
