"""What the printed algorithm does, and what each of our departures from it is worth, by itself.

    python benchmarks/paper_mends.py                                   # digits and photographs, a minute or two
    python benchmarks/paper_mends.py --data DATA --seeds 3             # and STL-10 by the quick protocol, 400 units
    python benchmarks/paper_mends.py --data DATA --components 1600 --patches 160000 --output mends-1600.json
    python benchmarks/paper_mends.py --data DATA --seeds 3 --output mends.json --markdown   # the table of docs/paper.md
    python benchmarks/paper_mends.py --quick

"As printed" is `EPLS(settings=epls.PAPER)`. Its stop rule ends training at the first epoch that does not lower the
error, so all other rows train for 20 epochs, or for as many as have 2,400 steps, more than the default (row "length").
Some change what the text leaves open: how many rates vSGD has, and what is compared with the inhibitor. Others add one
departure to that row. The rows "default but without ..." take one departure away from the default: it is then as in the
paper. With --output, what is
done is kept in that file, and a later run goes on from there.
"""

import argparse
import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from common import normalized_patches, results_in
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import StratifiedShuffleSplit
from stl10_proxy import judged

from epls import EPLS, PAPER, TrainingSettings
from epls.algorithm.settings import batch_rows, enough_epochs
from epls.datasets import load_stl10
from epls.metrics import never_active, noise_filters

LENGTH = replace(PAPER, tol=None)
MENDS = {
    "biases start at the quantile": {"biases": "quantile"},
    "biases steered": {"biases": "steered"},
    "Adam": {"optimizer": "adam"},
    "matching loss": {"loss": "matching"},
    "auction": {"target": "auction"},
    "units woken": {"wake": True},
    "norm limit, batches and remainder": {"max_norm": "auto", "batch_size": None, "drop_last": False},
}
FORMS = {
    "a single rate": {"optimizer": "vsgd_global"},
    "a rate for each parameter": {"optimizer": "vsgd"},
    "outputs scaled to 0..1": {"target": "literal_scaled"},
}
UNSTOPPED = "as printed, 100 epochs without the stop rule"
ROWS = {
    "as printed": {"settings": PAPER},
    UNSTOPPED: {"settings": LENGTH, "max_iter": 100},
    "length": {"settings": LENGTH},
    **{f"length, {name}": {"settings": replace(LENGTH, **form)} for name, form in FORMS.items()},
    **{f"length, {name}": {"settings": replace(LENGTH, **mend)} for name, mend in MENDS.items()},
    "default": {},
    "default but without biases steered": {"settings": TrainingSettings(biases="random")},
    "default but without Adam": {"settings": TrainingSettings(optimizer="vsgd_block")},
    "default but without matching loss": {"settings": TrainingSettings(loss="squared", biases="steered")},
    "default but without auction": {"settings": TrainingSettings(target="literal")},
    "default but without units woken": {"settings": TrainingSettings(wake=False)},
    "default but without norm limit, batches and remainder": {
        "settings": TrainingSettings(max_norm=PAPER.max_norm, batch_size=PAPER.batch_size, drop_last=PAPER.drop_last)
    },
}


def at_full_length(settings, n_components, n_samples):
    """The settings, with 20 epochs, or with as many as have 2,400 steps."""
    as_printed = settings.get("settings", TrainingSettings()).batch_size is not None
    n_rows = n_components if as_printed else batch_rows(n_components, n_samples)
    return {"max_iter": enough_epochs(n_samples // n_rows, 20, 2400)} | settings


def on_vectors(X, n_components, settings, seed):
    """The model, and what it does on its training data."""
    model = EPLS(n_components, random_state=seed, **settings).fit(X)
    codes = model.transform(X)
    return codes, {
        "epochs": model.n_iter_,
        "error": round(model.loss_curve_[-1], 4),
        "never active": len(never_active(codes, "logistic")),
        "noise filters %": round(100 * len(noise_filters(model.components_, X)) / n_components, 2),
    }


def on_digits(settings, seed):
    """50 units; ten labels a class, the same classifier and splits as `epls demo`."""
    X, y = load_digits(return_X_y=True)
    codes, found = on_vectors(X, 50, settings, seed)
    scores = []
    for train, test in StratifiedShuffleSplit(20, train_size=100, random_state=0).split(X, y):
        penalties = np.logspace(-3, 3, 13) * max(codes.var(axis=0).sum(), 1e-12)
        scores.append(100 * RidgeClassifierCV(alphas=penalties).fit(codes[train], y[train]).score(codes[test], y[test]))
    return found | {"accuracy": round(float(np.mean(scores)), 2)}


def on_photographs(settings, seed):
    """100 units on 20,000 patches of the photographs that come with scikit-learn."""
    return on_vectors(normalized_patches(20_000, 8, seed=seed), 100, settings, seed)[1]


def mean(results, kind, row, seeds, figure):
    """The mean of a figure over the seeds; the leading number, where it has a spread."""
    found = [results.get(f"{kind} | {row} | seed {seed}", {}).get(figure) for seed in range(seeds)]
    return float(np.mean([float(str(value).split()[0]) for value in found])) if None not in found else None


def tell_table(results, kinds, rows, seeds):
    """Rows of a Markdown table: for each kind of data accuracies, units that are never active and noise filters."""
    figures = {"accuracy": ".1f", "natural, sum": ".1f", "natural, log": ".1f", "never active": ".0f"}
    figures |= {"noise filters %": ".0f", "epochs": ".0f"}
    columns = [
        (kind, figure)
        for kind in kinds
        for figure in figures
        if mean(results, kind, "default", seeds, figure) is not None
    ]
    print("| | " + " | ".join(f"{kind}: {figure}" for kind, figure in columns) + " |")
    print("|---" * (1 + len(columns)) + "|")
    for row in rows:
        values = [(mean(results, kind, row, seeds, figure), figures[figure]) for kind, figure in columns]
        print(f"| {row} | " + " | ".join("" if value is None else format(value, form) for value, form in values) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of stl10_binary")
    parser.add_argument("--components", type=int, default=400)
    parser.add_argument("--patches", type=int, default=96_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", nargs="*", help="only these rows")
    parser.add_argument("--output", type=Path, help="JSON file of results")
    parser.add_argument("--markdown", action="store_true", help="end with the table of the means over seeds")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    kinds = {"digits": (on_digits, 50, 1797), "photographs": (on_photographs, 100, 20_000)}
    if options.data:
        data = load_stl10(options.data)
        of_stl10 = options.components, options.patches
        kinds[f"STL-10, {options.components} units"] = (
            lambda settings, seed: judged(data, *of_stl10, seed=seed, settings=settings)[1],
            *of_stl10,
        )
    rows = options.rows or (["as printed", "default"] if options.quick else ROWS)
    results = results_in(options.output, {})
    for seed in range(options.seeds):
        for row in rows:
            for kind, (run, *sizes) in kinds.items():
                key = f"{kind} | {row} | seed {seed}"
                if key not in results and not (row == UNSTOPPED and kind.startswith("STL-10")):  # hours
                    results[key] = run(at_full_length(ROWS[row], *sizes), seed)
                    print(key, json.dumps(results[key], allow_nan=False), flush=True)
                    if options.output:
                        options.output.write_text(json.dumps(results, indent=1, allow_nan=False))
    if options.markdown:
        tell_table(results, kinds, rows, options.seeds)


if __name__ == "__main__":
    main()
