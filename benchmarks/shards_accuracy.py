"""What balancing every shard by itself does to the accuracy: STL-10's development protocol, one shard and four.

    python benchmarks/shards_accuracy.py DATA --output OUT

All shards are in this process, which gives the same bits as a cluster. Stages are kept in OUT, so that a run goes on
where it was stopped.
"""

import argparse
import json
from pathlib import Path
from unittest.mock import patch

from epls import EPLS
from epls.cli.options import StageProgress
from epls.distributed import fit
from epls.paper.cache import Cache
from epls.paper.experiment import Settings, run_experiment
from epls.paper.task import load_task


def accuracy(n_shards, settings, task, output, progress):
    """Mean and deviation over the folds, and what learning was like."""
    with patch.object(EPLS, "fit", lambda self, X, y=None: fit(self, X, n_shards=n_shards)):
        outcome = run_experiment(settings, task, Cache(output / f"{n_shards} shards"), progress)
    report = outcome.report()
    learner = outcome.features.estimator_
    return {
        "shards": n_shards,
        "accuracy": report["accuracy"],
        "std": report["std"],
        "epochs": learner.n_iter_,
        "error": learner.loss_curve_[-1],
        "seconds": report["seconds"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder that holds stl10_binary")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--units", type=int, default=1600)
    parser.add_argument("--patches", type=int)
    parser.add_argument("--stride", type=int, default=1)
    options = parser.parse_args()
    settings = Settings(n_components=options.units, n_patches=options.patches, stride=options.stride)
    task = load_task("stl10", options.data, 10, protocol="development")
    with StageProgress() as progress:
        rows = [accuracy(n, settings, task, options.output, progress) for n in options.shards]
    for row in rows:
        print(
            f"{row['shards']} shard(s): {row['accuracy']:.2f} ({row['std']:.2f}), error {row['error']:.4f} after "
            f"{row['epochs']} epochs"
        )
    print(json.dumps(rows, allow_nan=False))


if __name__ == "__main__":
    main()
