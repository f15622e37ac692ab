"""Features for vectors: Prototypes, the vectors themselves, and rivals, on real embeddings, spectra and digits.

    python benchmarks/embeddings_data.py DATA                                                 the vectors, once
    python benchmarks/embeddings.py DATA --json docs/embeddings.json --chart docs/embeddings.png
    python benchmarks/embeddings.py DATA --json docs/embeddings.json --rules                  length, number of units
    python benchmarks/embeddings_chart.py docs/embeddings.json                                the tables again
    python benchmarks/embeddings.py --speed                                  against KMeans, in one run
    python benchmarks/embeddings.py --speed 1000000 --folder DATA            out of core: 384 columns, 4,096 units
    python benchmarks/embeddings.py --quick

Methods learn from all vectors of a set, without labels, with as many units as Prototypes has by default: a tenth of the
samples, at most 400. Five times, the blocks of a set (see embeddings_data.py; mostly single samples) are divided into
two halves; 5 or 10 labels of each class come from one half, and all samples of the other are classified.

ridge       % correct: ridge regression on standardised columns, penalty by leave-one-out
logistic    % correct: logistic regression on the features as they are, penalty by five folds
10-NN       % of the ten nearest (cosine, standardised columns; no sample of the same block) that have the same class
probe       AUC of the best single unit for each class: chosen on one half, tested on the other
variance    % of the vectors' variance that a linear map from the 16 largest outputs of each sample explains
never       units whose output is 0 for all samples (below a millionth of the largest output)
stability   mean absolute cosine of units of two seeds, matched one to one; means of samples less the mean of all
seconds     of the processor, to learn and to encode, one thread

A row that is in the JSON file is not run again.
"""

import argparse
import json
import re
import threading
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import embeddings_chart
import embeddings_methods
import numpy as np
from common import results_in, timed
from embeddings_data import NAMES
from embeddings_methods import AUTOENCODERS, LENGTHS, METHODS, N_UNITS, RULED, SPARSITIES
from history import machine
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import normalize, scale
from threadpoolctl import threadpool_limits

from epls import Prototypes
from epls.utils.files import write_atomically

N_DRAWS, N_LABELS, N_ACTIVE = 5, (5, 10), 16
TITLES = dict(zip(NAMES, ("STL-10", "CIFAR-10", "words", "Indian Pines", "digits"), strict=True))
# Without chance, or too slow to learn twice.
ONE_SEED = {"PCA", "PCA, 100", "NMF", *(f"{kind}, k = {k}" for kind in AUTOENCODERS for k in SPARSITIES if k != 16)}


@dataclass(frozen=True)
class Ground:
    """A set of vectors with labels and blocks, and the number of units for it."""

    name: str
    X: np.ndarray
    y: np.ndarray
    blocks: np.ndarray
    n_units: int

    def halves(self, draw):
        """The samples of a random half of the blocks, and the others."""
        order = np.random.RandomState(draw).permutation(np.unique(self.blocks))
        first = np.isin(self.blocks, order[: len(order) // 2])
        return np.flatnonzero(first), np.flatnonzero(~first)

    def labelled(self, draw, n_labels):
        """Samples to learn from, and to test on."""
        ours, others = self.halves(draw)
        ours = np.random.RandomState(draw).permutation(ours)
        return np.concatenate([ours[self.y[ours] == k][:n_labels] for k in np.unique(self.y)]), others


def load_ground(name, folder):
    with np.load(Path(folder) / "vectors" / f"{name}.npz") as found:
        X, y, blocks = (found[part] for part in ("vectors", "labels", "blocks"))
    return Ground(TITLES[name], X, y, blocks, Prototypes().default_n_components(len(X)))


def made_up_ground():
    random = np.random.RandomState(0)
    centres, y = 3 * random.randn(8, 40), np.arange(240) % 8
    X = np.abs(centres[y] + random.randn(240, 40)).astype(np.float32)
    return Ground("made up", X, y // 4, np.arange(240) // 2, 24)


def judged(features, ground, briefly):
    """What is measured of features; briefly: what needs little time."""
    columns, outputs = scale(features.astype(np.float64)), np.abs(features).max(axis=0)
    found = scores("ridge", ridge, columns, ground) | {"10-NN": round(100 * same_class(columns, ground), 2)}
    if briefly:
        return found
    return (
        found
        | scores("logistic", logistic, one_size(features), ground)
        | {
            "probe": round(probe(features, ground), 4),
            "variance": round(100 * explained(features, ground), 2),
            "never": int(np.sum(outputs < outputs.max() / 1e6)),
        }
    )


def scores(name, judge, features, ground):
    """Mean and standard deviation over the draws, for each number of labels."""
    found = {}
    for n_labels in N_LABELS:
        correct = []
        for draw in range(N_DRAWS):
            train, test = ground.labelled(draw, n_labels)
            correct.append(100 * judge(features[train], ground.y[train], features[test], ground.y[test]))
        found[f"{name} {n_labels}"] = [round(float(np.mean(correct)), 2), round(float(np.std(correct)), 2)]
    return found


def ridge(X, y, test, test_y):
    return RidgeClassifierCV(np.logspace(-1, 5, 13)).fit(X, y).score(test, test_y)


def logistic(X, y, test, test_y):
    """As on all columns: what the labelled samples do not span has no weight."""
    directions = np.linalg.svd(X, full_matrices=False)[2].T
    settings = {"cv": 5, "scoring": "neg_log_loss"}
    search = GridSearchCV(LogisticRegression(max_iter=300), {"C": np.logspace(-1, 5, 7)}, **settings)
    return search.fit(X @ directions, y).best_estimator_.score(test @ directions, test_y)


def one_size(features):
    """Centred, and with rows of mean squared length 1."""
    centred = features.astype(np.float64) - features.mean(axis=0)
    return centred / np.sqrt(np.square(centred).sum(axis=1).mean())


def same_class(columns, ground, n_nearest=10):
    """The mean share of the nearest samples of other blocks that have the same class."""
    rows, shares = normalize(columns).astype(np.float32), []
    for some in np.array_split(np.arange(len(rows)), -(-len(rows) // 1000)):
        cosines = rows[some] @ rows.T
        cosines[ground.blocks[some, None] == ground.blocks] = -np.inf
        nearest = np.argpartition(-cosines, n_nearest, axis=1)[:, :n_nearest]
        shares.append((ground.y[nearest] == ground.y[some, None]).mean(axis=1))
    return float(np.concatenate(shares).mean())


def probe(features, ground):
    scores = []
    for draw in range(N_DRAWS):
        halves = [(rankdata(features[half], axis=0), ground.y[half]) for half in ground.halves(draw)]
        for k in np.unique(ground.y):
            (areas, tested) = (area_under_curve(ranks, y == k) for ranks, y in halves)
            best = np.argmax(np.maximum(areas, 1 - areas))
            scores.append(tested[best] if areas[best] > 0.5 else 1 - tested[best])
    return float(np.mean(scores))


def area_under_curve(ranks, of_class):
    """Of each column: the probability that a member of the class has a larger output than another sample."""
    n = of_class.sum()
    return (ranks[of_class].sum(axis=0) - n * (n + 1) / 2) / (n * (len(ranks) - n))


def explained(features, ground):
    largest = np.argpartition(-np.abs(features), min(N_ACTIVE, features.shape[1]) - 1, axis=1)[:, :N_ACTIVE]
    few = np.zeros(features.shape, np.float64)
    np.put_along_axis(few, largest, np.take_along_axis(features, largest, axis=1), axis=1)
    train, test = ground.halves(0)
    model = Ridge(1e-3 * np.square(few).sum() / few.shape[1]).fit(few[train], ground.X[train])
    errors, spread = ground.X[test] - model.predict(few[test]), ground.X[test] - ground.X[train].mean(axis=0)
    return 1 - float(np.square(errors).sum() / np.square(spread).sum())


def agreement(units, others):
    """The mean absolute cosine of units, matched one to one."""
    cosines = np.abs(normalize(units) @ normalize(others).T)
    return float(cosines[linear_sum_assignment(-cosines)].mean())


def measured(name, method, ground, briefly):
    """A row: seconds and judgements."""
    seconds, (features, units) = timed(method, ground.X, ground.n_units, 0, clock=time.process_time)
    found = {"seconds": round(seconds, 1), "features": features.shape[1]} | judged(features, ground, briefly)
    if not briefly and units is not None and name not in ONE_SEED:
        found["stability"] = round(agreement(units, method(ground.X, ground.n_units, 1)[1]), 3)
    return found


def run(grounds, methods, results, path, briefly=False):
    """Measure the rows that are not among the results, and add them; the file is complete after each."""
    for ground in grounds:
        sizes = {"samples": len(ground.X), "columns": ground.X.shape[1], "classes": int(ground.y.max()) + 1}
        if results["grounds"].setdefault(ground.name, sizes) != sizes:
            raise SystemExit(f"{path} has rows of {ground.name} with other sizes than {sizes}: give another file")
        for name, method in methods.items():
            who = {"data set": ground.name, "method": name, "units": ground.n_units}
            if any(who.items() <= done.items() and (briefly or "probe" in done) for done in results["rows"]):
                continue
            try:
                result = who | measured(name, method, ground, briefly)
            except (ImportError, ValueError) as error:
                print(f"{ground.name}: {name} is left out: {error}", flush=True)
                continue
            results["rows"].append(result)
            print(json.dumps(result, allow_nan=False), flush=True)
            if path:
                lines = ",\n".join(json.dumps(row, allow_nan=False) for row in results["rows"])
                head = json.dumps({k: v for k, v in results.items() if k != "rows"})
                write_atomically(path, f'{head[:-1]}, "rows": [\n{lines}\n]}}\n'.encode())


def print_speed():
    """The processor seconds of Prototypes and of KMeans, by turns, for clustered vectors that are made up."""
    for n_samples, n_columns in ((5_000, 1_280), (100_000, 384)):
        X = next(clustered(n_samples, n_columns, n_samples))
        Prototypes(400, max_iter=1, random_state=0).fit(X[:2000])  # compiles
        ours, _ = timed(Prototypes(400, random_state=0).fit, X, clock=time.process_time)
        theirs, _ = timed(KMeans(400, n_init=1, random_state=0).fit, X, clock=time.process_time)
        print(
            f"{n_samples:,} x {n_columns}: {ours:.1f} s; KMeans {theirs:.1f} s; ratio {ours / theirs:.2f}", flush=True
        )


def clustered(n_samples, n_columns, n_block):
    """Blocks of made-up vectors around 1,000 centres of different frequency."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((1000, n_columns), np.float32)
    shares = random.dirichlet(np.ones(1000))
    for start in range(0, n_samples, n_block):
        which = random.choice(1000, min(n_block, n_samples - start), p=shares)
        yield centres[which] + random.standard_normal((len(which), n_columns), np.float32)


def print_out_of_core(n_samples, folder, n_columns=384, n_units=4096):
    """Seconds and memory of Prototypes from a memory map. Pages of the map, which the system can drop, do not count."""
    path = Path(folder) / f"made_up_{n_samples}.npy"
    if not path.exists():
        file = np.lib.format.open_memmap(path, "w+", np.float32, (n_samples, n_columns))
        for number, block in enumerate(clustered(n_samples, n_columns, 10_000)):
            file[10_000 * number : 10_000 * number + len(block)] = block
        file.flush()
        del file
    peaks, ended = [0], threading.Event()

    def watch():
        while not ended.wait(0.1):
            peaks.append(int(re.search(r"RssAnon:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]))

    watcher = threading.Thread(target=watch)
    watcher.start()
    model = Prototypes(n_units, random_state=0)
    seconds, _ = timed(model.fit, np.load(path, mmap_mode="r"), clock=time.process_time)
    ended.set()
    watcher.join()
    sizes = f"{n_samples:,} x {n_columns}, {n_units} units, {model.n_iter_} epochs"
    print(f"{sizes}: {seconds:.0f} s; {max(peaks) / 2**20:.2f} GiB beside the map")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?")
    parser.add_argument("--json", type=Path, help="the results, which grow row by row")
    parser.add_argument("--chart", type=Path, help="where to draw them, a PNG")
    parser.add_argument("--data-set", choices=NAMES, nargs="+", default=NAMES, help="only these")
    parser.add_argument("--method", choices=METHODS, nargs="+", default=METHODS, metavar="NAME", help="only these")
    parser.add_argument("--rules", action="store_true", help="what the defaults of Prototypes are chosen by")
    parser.add_argument("--speed", type=int, nargs="?", const=0, metavar="N", help="with N: N rows, out of core")
    parser.add_argument("--folder", default=".", help="for the file of the rows out of core")
    parser.add_argument("--quick", action="store_true", help="made-up vectors and few steps, to see that it runs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of methods that did not converge within their iterations
    with one_thread():
        if options.speed is not None:
            print_out_of_core(options.speed, options.folder) if options.speed else print_speed()
            return
        results = results_in(options.json, {"machine": machine(), "grounds": {}, "rows": []})
        grounds = [load_ground(name, options.data) for name in options.data_set] if options.data else []
        if options.quick:
            embeddings_methods.N_STEPS, grounds = 10, [made_up_ground()]
        for name in ("OMP-1, soft threshold", "EPLS, natural", *RULED) if grounds else ():
            METHODS[name](made_up_ground().X, 24, 0)  # compiles: not counted
        for ground in grounds if options.rules else ():
            run([ground], LENGTHS, results, options.json, briefly=True)
            for n_units in (n for n in N_UNITS if n <= len(ground.X) // 2):
                other = replace(ground, n_units=n_units)
                run([other], {name: METHODS[name] for name in RULED}, results, options.json, briefly=True)
        if not options.rules:
            run(grounds, {name: METHODS[name] for name in options.method}, results, options.json)
    embeddings_chart.print_all(results)
    if options.chart:
        embeddings_chart.draw(results, options.chart)


def one_thread():
    """For torch too, where it is installed."""
    with suppress(ImportError):
        import torch

        torch.set_num_threads(1)
    return threadpool_limits(1)


if __name__ == "__main__":
    main()
