"""The printed algorithm by epoch: error, units that are never active, noise filters and accuracy, in one chart.

    python benchmarks/paper_epochs.py DATA --json paper_epochs.json --chart docs/paper_epochs.png

DATA holds STL-10. Features are judged by the quick protocol with 400 units; one seed. vSGD has no schedule, so a
training of 20 epochs is the beginning of one of 40. The printed rule to stop is not applied; a ring marks the first
length shown at which it would have ended the training. The default is a training of its own for each length. What is in
the JSON file is not computed again.
"""

import argparse
import json
import warnings
from dataclasses import replace
from pathlib import Path

from common import results_in
from paper_mends import FORMS, LENGTH
from sklearn.exceptions import ConvergenceWarning
from stl10_proxy import judged

from epls import PAPER
from epls.algorithm.progress import has_settled
from epls.datasets import load_stl10

EPOCHS = (2, 5, 10, 20, 40)
ROWS = {
    "as printed": LENGTH,
    **{f"as printed, {name}": replace(LENGTH, **form) for name, form in FORMS.items() if "parameter" not in name},
    "default": None,
}
PANELS = {
    "error": "error",
    "never active": "never active, of 400",
    "noise filters %": "noise filters, %",
    "natural, sum": "% correct (sums)",
}


def ended_at(curve):
    """The epoch that the printed rule would have ended the training with, if any."""
    return next((n for n in range(2, len(curve) + 1) if has_settled(curve[:n], PAPER.tol)), None)


def draw(results, path):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(PANELS), figsize=(14, 3.4), layout="constrained")
    for row in ROWS:
        points = [(epochs, results[f"{row} | {epochs}"]) for epochs in EPOCHS if f"{row} | {epochs}" in results]
        for axis, (figure_name, title) in zip(axes, PANELS.items(), strict=True):
            values = [float(str(found[figure_name]).split()[0]) for _, found in points]
            (line,) = axis.plot([epochs for epochs, _ in points], values, marker=".", label=row)
            ends = [found["ended at"] for _, found in points if found["ended at"]]
            if ends:
                after = next(k for k, (epochs, _) in enumerate(points) if epochs >= ends[0])
                axis.plot(points[after][0], values[after], "o", mfc="none", ms=9, color=line.get_color())
            axis.set(title=title, xscale="log", xlabel="epochs")
            axis.set_xticks(EPOCHS, EPOCHS)
            axis.minorticks_off()
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--chart", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    data, results = load_stl10(options.data), results_in(options.json, {})
    for row, settings in ROWS.items():
        for epochs in EPOCHS:
            key = f"{row} | {epochs}"
            if key not in results:
                model, found = judged(data, settings={"settings": settings, "max_iter": epochs})
                results[key] = found | {"ended at": settings and ended_at(model.loss_curve_)}
                print(key, json.dumps(results[key]), flush=True)
                if options.json:
                    options.json.write_text(json.dumps(results, indent=1))
    if options.chart:
        draw(results, options.chart)


if __name__ == "__main__":
    main()
