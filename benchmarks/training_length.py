"""What is gained by training longer, and lost by training less: the default number of epochs times 1/4 to 4.

    python benchmarks/training_length.py                          # digits, ten labels a class
    python benchmarks/training_length.py --data DATA --seeds 3    # and STL-10 by the quick protocol, 400 units
    python benchmarks/training_length.py --quick

Training has no rule that ends it early: the learning rate falls to 0 over the number of epochs that is given, or that
follows from the size of the data. So each length is a training of its own.
"""

import argparse
import json

import numpy as np
from paper_mends import on_digits
from stl10_proxy import judged

from epls.algorithm.settings import batch_rows, usual_epochs
from epls.datasets import load_stl10

FACTORS = (0.25, 0.5, 1, 2, 4)


def epochs(n_components, n_samples, factor):
    """The default number of epochs, times a factor."""
    n_batches = -(-n_samples // batch_rows(n_components, n_samples))
    return max(1, round(factor * usual_epochs(n_batches, n_components)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of stl10_binary")
    parser.add_argument("--components", type=int, default=400)
    parser.add_argument("--patches", type=int, default=96_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    data = load_stl10(options.data) if options.data else None
    for factor in (0.25, 1) if options.quick else FACTORS:
        settings = {"max_iter": epochs(50, 1797, factor)}
        found = [on_digits(settings, seed) for seed in range(options.seeds)]
        tell("digits", factor, settings, [run["accuracy"] for run in found], [run["error"] for run in found])
        if data is not None:
            settings = {"max_iter": epochs(options.components, options.patches, factor)}
            found = [
                judged(data, options.components, options.patches, seed=seed, settings=settings)[1]
                for seed in range(options.seeds)
            ]
            for pooling in ("sum", "log"):
                accuracies = [float(run[f"natural, {pooling}"].split()[0]) for run in found]
                tell(f"STL-10, {pooling}", factor, settings, accuracies, [run["error"] for run in found])


def tell(kind, factor, settings, accuracies, errors):
    line = {"data": kind, "factor": factor, **settings, "accuracies": accuracies, "mean": round(np.mean(accuracies), 2)}
    print(json.dumps(line | {"error": round(float(np.mean(errors)), 4)}, allow_nan=False), flush=True)


if __name__ == "__main__":
    main()
