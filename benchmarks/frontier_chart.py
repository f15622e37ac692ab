"""The results of frontier.py as tables and as a chart.

python benchmarks/frontier_chart.py frontier.json
python benchmarks/frontier_chart.py frontier.json --chart frontier.png
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from epls.learners import LEARNERS

STACK = "epls, two layers"
LASSO = "lasso"  # the sparse codes of other libraries, positive and negative parts apart
COLORS = {"epls": "tab:orange", "learner": "tab:blue", "other": "0.3"}
FRONT, DPI = "0.85", 130
WIDE_GAP = 4  # points of accuracy
MARKERS = {"natural": "o", "soft threshold": "s", "triangle": "^", "sparse codes": "D", "distances": "v"}


def title(result):
    """What a row is called: the name of the class."""
    if result["library"] != "epls":
        return result["learner"]
    if result["learner"] == STACK:
        return "EPLS, two layers"
    return LEARNERS[result["learner"]].__name__


def code(result):
    """How a row encodes."""
    name = {LASSO: "sparse codes", "sparse_coding": "sparse codes"}.get(result["encoder"], result["encoder"])
    return name.replace("_", " ")


def kind(result):
    if result["library"] != "epls":
        return "other"
    return "epls" if result["learner"] in ("epls", "prototypes", STACK) else "learner"


def seconds_of(result):
    return result["learn seconds"] + result["encode seconds"]


def pareto_front(rows):
    """The rows that no other beats or equals in both seconds and accuracy, by rising seconds."""
    front = []
    for result in sorted(rows, key=lambda r: (seconds_of(r), -r["accuracy"])):
        if not front or result["accuracy"] > front[-1]["accuracy"]:
            front.append(result)
    return front


def print_table(results):
    """A table in Markdown for each data set, by falling accuracy; the names of rows on the front are bold."""
    for data_set, facts in results["grounds"].items():
        rows = [result for result in results["rows"] if result["data set"] == data_set]
        front, many = pareto_front(rows), facts["folds"] > 1
        print(f"\n{data_set}: {json.dumps(facts)}\n")
        columns = ["learner", "code", "library", "learn, s", "encode, s", "% correct", *["std"] * many]
        print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
        for result in sorted(rows, key=lambda r: -r["accuracy"]):
            cells = [
                f"**{title(result)}**" if result in front else title(result),
                code(result) + ", whitened" * result["whitened"],
                result["library"],
                f"{result['learn seconds']:.1f}",
                "about " * ("images encoded by it" in result) + f"{result['encode seconds']:.1f}",
                f"{result['accuracy']:.1f}",
                *[f"{result['std']:.2f}"] * many,
            ]
            print(f"| {' | '.join(cells)} |")


def draw(results, path):
    """A panel for each data set: a point for each row, and the front."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    names = list(results["grounds"])
    size = (6.8 * len(names), 7.4)
    figure, panels = plt.subplots(1, len(names), figsize=size, dpi=DPI, layout="constrained", squeeze=False)
    panels = dict(zip(names, panels[0], strict=True))
    for name, panel in panels.items():
        draw_panel(panel, [r for r in results["rows"] if r["data set"] == name], results["grounds"][name])
        panel.set_title(name, fontsize=13, loc="left")
    entries = [Line2D([], [], marker=m, ls="", color="0.5", label=told) for told, m in MARKERS.items()]
    told = {"epls": "EPLS and Prototypes", "learner": "other learners of this library", "other": "other libraries"}
    entries += [Line2D([], [], marker="s", ls="", ms=10, color=COLORS[k], label=t) for k, t in told.items()]
    entries += [
        Line2D([], [], marker="D", ls="", color=COLORS["other"], mfc="white", label="seconds estimated"),
        Line2D([], [], color=FRONT, lw=6, label="most accurate for its seconds"),
    ]
    figure.legend(handles=entries, ncols=4, loc="outside lower center", frameon=False, fontsize=9.5)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # names stay where they are placed
    for name, panel in panels.items():
        label_points(panel, [r for r in results["rows"] if r["data set"] == name])
    figure.savefig(path)
    plt.close(figure)


def draw_panel(panel, rows, facts):
    """The points of a data set. Those far below the others are arrows at the lower edge."""
    low = lowest_shown(rows)
    front = pareto_front(rows)
    seconds, accuracy = [seconds_of(r) for r in front], [r["accuracy"] for r in front]
    panel.step(seconds, accuracy, where="post", color=FRONT, lw=6, zorder=1)
    for result in rows:
        color = COLORS[kind(result)]
        face = "white" if "images encoded by it" in result else color
        shown = {"marker": MARKERS[code(result)], "mfc": face, "ms": 6.5}
        if result["accuracy"] < low:
            shown = {"marker": "$\\downarrow$", "ms": 11}
        panel.plot(seconds_of(result), max(result["accuracy"], low), color=color, zorder=3, **shown)
    panel.set_xscale("log")
    panel.margins(x=0.09)
    panel.set_ylim(low - 0.4, max(accuracy) + 0.8)
    panel.set_xticks(
        [n * 10**k for k in range(5) for n in (1, 3) if panel.get_xlim()[0] < n * 10**k < panel.get_xlim()[1]]
    )
    panel.minorticks_off()
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    sizes = f"{facts['images encoded']:,} images, {facts['units']} units, {facts['labels']:,} labels"
    panel.set_xlabel(f"processor seconds to learn and encode, one thread ({sizes})")
    panel.set_ylabel("% classified correctly")
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="0.93", zorder=0)


def lowest_shown(rows):
    """Where the axis of accuracy begins: a few rows that are far below all others do not squeeze them."""
    accuracies = np.sort([result["accuracy"] for result in rows])
    gaps = np.diff(accuracies[: len(rows) // 4 + 1])
    n_below = 1 + int(np.flatnonzero(gaps > WIDE_GAP)[-1]) if (gaps > WIDE_GAP).any() else 0
    return float(accuracies[n_below]) - (1.5 if n_below else 0.5)


def label_points(panel, rows):
    """Write the name of each row near its point, where it covers neither points nor other names."""
    renderer, scale, low = panel.figure.canvas.get_renderer(), panel.figure.dpi / 72, lowest_shown(rows)
    places = [(seconds_of(r), max(r["accuracy"], low)) for r in rows]
    points = panel.transData.transform(places)
    taken = [Box(x, y, 8 * scale, 8 * scale) for x, y in points]
    bounds = panel.get_window_extent(renderer)
    angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    for number in np.argsort(-points[:, 1]):
        (x, y), result = points[number], rows[number]
        name = title(result) + (f" {result['accuracy']:.1f}" if result["accuracy"] < low else "")
        text = panel.annotate(
            name,
            places[number],
            (0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=8,
            color=COLORS[kind(result)],
            zorder=4,
        )
        extent = text.get_window_extent(renderer)
        width, height = extent.width + 3 * scale, extent.height + scale
        for radius, angle in ((r, a) for r in (6, 9, 13, 18, 25, 34, 45, 60, 80, 100) for a in angles):
            # The edge of the text that faces the point is at this distance, not its middle.
            dx, dy = np.cos(angle), np.sin(angle)
            box = Box(x + dx * (radius * scale + width / 2), y + dy * (radius * scale + height / 2), width, height)
            inside = bounds.x0 < box.x - width / 2 and box.x + width / 2 < bounds.x1
            inside = inside and bounds.y0 < box.y - height / 2 and box.y + height / 2 < bounds.y1 + 10 * scale
            if inside and not any(box.meets(other) for other in taken):
                break
        taken.append(box)
        text.set_position(((box.x - x) / scale, (box.y - y) / scale))
        if radius > 13:
            line = {"arrowstyle": "-", "lw": 0.5, "color": "0.6", "shrinkA": 0, "shrinkB": 2}
            panel.annotate("", places[number], text.get_position(), textcoords="offset points", arrowprops=line)


@dataclass(frozen=True)
class Box:
    """A rectangle by its middle and its sides."""

    x: float
    y: float
    width: float
    height: float

    def meets(self, other):
        across = abs(self.x - other.x) < (self.width + other.width) / 2
        return across and abs(self.y - other.y) < (self.height + other.height) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path, help="what frontier.py wrote")
    parser.add_argument("--chart", type=Path, help="where to draw it, a PNG")
    options = parser.parse_args()
    results = json.loads(options.json.read_text())
    print_table(results)
    if options.chart:
        draw(results, options.chart)


if __name__ == "__main__":
    main()
