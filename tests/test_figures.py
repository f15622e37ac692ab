"""One figure has one home: a table with its command. Where it is repeated, it is marked, and must be equal.

``58.5 (0.65)<!-- stl10-epls-sum -->`` in a table is a home. ``58.5<!-- =stl10-epls-sum -->`` anywhere is a repetition.
"""

import re
from collections import Counter

from pages import PAGES, name_of

NUMBER = r"[\d,]*\d(?:\.\d+)?(?:e-?\d+)?"
FIGURE = rf"{NUMBER}(?: to {NUMBER}| \({NUMBER}\))?"
MARKED = re.compile(rf"({FIGURE})\s*<!-- (=?)([a-z0-9-]+) -->")
WITH_SPREAD = re.compile(r"\d+\.\d+ \(\d+\.\d+\)")


def plain(line):
    """Without bold print."""
    return line.replace("**", "")


def marked():
    """Page, line, figure, whether it repeats another, and name of each marked figure."""
    for page in PAGES:
        for line in page.read_text().splitlines():
            for figure, repeats, name in MARKED.findall(plain(line)):
                yield page, line, figure, bool(repeats), name


HOMES = {name: (page, line, figure) for page, line, figure, repeats, name in marked() if not repeats}


def test_every_mark_is_understood():
    n_marks = sum(len(re.findall(r"<!-- =?[a-z0-9-]+ -->", page.read_text())) for page in PAGES)
    assert n_marks == len(list(marked())) > 20


def test_a_figure_has_one_home():
    homes = Counter(name for *_, repeats, name in marked() if not repeats)
    assert [name for name, n in homes.items() if n > 1] == []


def test_a_home_is_a_table_with_its_command():
    for name, (page, line, _) in HOMES.items():
        assert line.startswith("|"), f"{name} is in no table"
        lines = page.read_text().splitlines()
        start = stop = lines.index(line)
        while lines[start - 1].startswith("|"):
            start -= 1
        while stop + 1 < len(lines) and lines[stop + 1].startswith("|"):
            stop += 1
        # In the row, in another row of the table, or in the text or block before it.
        nearby = "\n".join(lines[max(start - 12, 0) : stop + 1])
        assert re.search(r"\b(epls|python|make) \S", nearby), f"no command near {name} in {name_of(page)}"


def test_a_repeated_figure_is_that_of_its_home():
    """The spread may be left out."""
    for page, _, figure, repeats, name in marked():
        if repeats:
            assert name in HOMES, f"{name} in {name_of(page)} has no home"
            assert figure in (HOMES[name][2], HOMES[name][2].split(" (")[0]), f"{name} in {name_of(page)}"


def test_an_accuracy_that_stands_twice_is_marked():
    places = {}
    for page in PAGES:
        for line in page.read_text().splitlines():
            for found in WITH_SPREAD.finditer(plain(line)):
                is_marked = re.match(r"\s*<!-- =?[a-z0-9-]+ -->", plain(line)[found.end() :]) is not None
                places.setdefault(found.group(), []).append((name_of(page), is_marked))
    repeated = {figure: where for figure, where in places.items() if len(where) > 1}
    assert {figure: where for figure, where in repeated.items() if not all(is_marked for _, is_marked in where)} == {}
