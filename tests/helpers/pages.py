"""The pages of the documentation."""

from pathlib import Path

import epls

ROOT = Path(epls.__file__).parents[2]
MADE = {"_build", "auto_examples", "generated"}  # by Sphinx
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").rglob("*.md")) if not MADE & set(p.parts))]


def name_of(page):
    return page.relative_to(ROOT).as_posix()
