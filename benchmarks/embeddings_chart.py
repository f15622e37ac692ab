"""The results of embeddings.py as tables and as a chart.

python benchmarks/embeddings_chart.py embeddings.json
python benchmarks/embeddings_chart.py embeddings.json --chart embeddings.png
"""

import argparse
import json
from pathlib import Path

import numpy as np
from embeddings_methods import AUTOENCODERS, LENGTHS, N_UNITS, RULED, SPARSITIES

JUDGES = ("ridge", "logistic")
ACCURACIES = [f"{judge} {n}" for judge in JUDGES for n in (5, 10)]


def shown(results, data_set):
    """The rows of a set for tables and chart: of an auto-encoder, the best k with the seconds of all."""
    rows = {row["method"]: row for row in results["rows"] if row["data set"] == data_set and "probe" in row}
    for kind in AUTOENCODERS:
        tried = [rows.pop(f"{kind}, k = {k}") for k in SPARSITIES if f"{kind}, k = {k}" in rows]
        if tried:
            best = max(tried, key=lambda row: sum(row[judge][0] for judge in ACCURACIES))
            rows[kind] = best | {"seconds": sum(row["seconds"] for row in tried)}
    return rows


def print_all(results):
    print_tables(results)
    print_rules(results)
    print_summary(results)


def print_tables(results):
    """A table in Markdown for each set."""
    formats = dict.fromkeys(ACCURACIES, "{:.1f} ({:.1f})") | {
        "10-NN": "{:.1f}",
        "probe": "{:.3f}",
        "variance": "{:.0f}",
    }
    formats |= {"never": "{:.0f}", "stability": "{:.2f}", "seconds": "{:.1f}"}
    for data_set, sizes in results["grounds"].items():
        print(f"\n{data_set}: {json.dumps(sizes)}\n\n| method | {' | '.join(formats)} |\n|---{'|---' * len(formats)}|")
        for row in [row for row in results["rows"] if row["data set"] == data_set and "probe" in row]:
            cells = [form.format(*np.ravel(row[c])) if c in row else "" for c, form in formats.items()]
            print(f"| {row['method']}, {row['features']} columns | {' | '.join(cells)} |")


def print_rules(results):
    """Ridge regression with ten labels a class, by the number of epochs, then by the number of units."""
    rows = {(row["data set"], row["method"], row["units"]): f"{row['ridge 10'][0]:.1f}" for row in results["rows"]}
    usual = {data_set: n for data_set, method, n in rows if method in LENGTHS}
    names = [name.removeprefix("Prototypes, ") for name in LENGTHS]
    print(f"\n| Prototypes | {' | '.join(names)} | default |\n|---{'|---' * (len(names) + 1)}|")
    for data_set, n in usual.items():
        cells = [rows.get((data_set, method, n), "") for method in (*LENGTHS, "Prototypes")]
        print(f"| {data_set} | {' | '.join(cells)} |")
    for method in RULED:
        print(f"\n| {method} | {' | '.join(f'{n} units' for n in N_UNITS)} |\n|---{'|---' * len(N_UNITS)}|")
        for data_set in usual:
            print(f"| {data_set} | {' | '.join(rows.get((data_set, method, n), '') for n in N_UNITS)} |")


def print_summary(results):
    """A table of all sets: ten labels a class, ridge and logistic regression."""
    rows = {data_set: shown(results, data_set) for data_set in results["grounds"]}
    print(f"\n| features | {' | '.join(rows)} |\n|---{'|---' * len(rows)}|")
    for method in dict.fromkeys(name for some in rows.values() for name in some):
        cells = []
        for some in rows.values():
            cell = []
            for judge in [f"{name} 10" for name in JUDGES] if method in some else ():
                scores = {name: round(row[judge][0], 1) for name, row in some.items()}
                mark = "**" * (scores[method] == max(scores.values()))
                cell.append(f"{mark}{scores[method]:.1f}{mark}")
            cells.append(", ".join(cell))
        print(f"| {method} | {' | '.join(cells)} |")


def draw(results, path):
    """A panel for each set: the accuracy of each method with ten labels a class, by both judges."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(results["grounds"])
    rows = {data_set: shown(results, data_set) for data_set in names}
    methods = list(dict.fromkeys(name for some in rows.values() for name in some))[::-1]
    size = (2.2 + 2.3 * len(names), 1.2 + 0.27 * len(methods))
    figure, panels = plt.subplots(1, len(names), figsize=size, sharey=True, layout="constrained", squeeze=False)
    for panel, data_set in zip(panels[0], names, strict=True):
        scores = {name: [row[f"{judge} 10"][0] for judge in JUDGES] for name, row in rows[data_set].items()}
        every = np.sort(np.ravel(list(scores.values())))
        low = every[len(every) // 5] - 4  # what is far below is not shown
        for place, method in enumerate(methods):
            pair, kind = scores.get(method, []), method.split(maxsplit=1)[0].strip(",")
            color = {"Prototypes": "tab:orange", "raw": "tab:green"}.get(kind, "tab:blue")
            panel.plot(pair, [place] * len(pair), color=color, lw=1, alpha=0.5)
            for score, face in zip(pair, (color, "white"), strict=bool(pair)):
                panel.plot(score, place, "o", color=color, ms=6, mfc=face)
            if pair and max(pair) < low:
                panel.annotate(f"\u2190 {max(pair):.0f}", (low, place), va="center", color=color)
        panel.set_xlim(low, every[-1] + 1)
        panel.set_title(data_set, fontsize=11, loc="left")
        panel.grid(color="0.93")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_yticks(range(len(methods)), methods)
    figure.supxlabel(
        "% correct with ten labels a class. Filled: ridge regression; white: logistic regression", fontsize=10
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path, help="what embeddings.py wrote")
    parser.add_argument("--chart", type=Path, help="where to draw it, a PNG")
    options = parser.parse_args()
    results = json.loads(options.json.read_text())
    print_all(results)
    if options.chart:
        draw(results, options.chart)


if __name__ == "__main__":
    main()
