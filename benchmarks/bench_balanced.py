"""Balanced assignments and balanced k-means against min-cost flow, in one run, by turns.

    python -m venv /tmp/constrained && /tmp/constrained/bin/pip install k-means-constrained
    python benchmarks/bench_balanced.py --constrained /tmp/constrained/bin/python
    python benchmarks/bench_balanced.py --only-large --json large.json     # 1,000,000 x 32 in 1,000 groups: ten minutes
    python benchmarks/bench_balanced.py --only-large --large-rows 200000   # the same with fewer samples
    python benchmarks/bench_balanced.py --only-asked --constrained /tmp/constrained/bin/python

k-means-constrained is needed for the comparison only. It brings a NumPy of its own, so it has an environment of its own
and runs as a process of it, which measures its own times; without --constrained its columns are left out.

- One assignment: samples around hidden centres to centres drawn among them, squared distances, equal sizes. The
  optimum is that of the auction with tol=0, which proves it up to the rounding of float64; the flow, whose costs are
  rounded to thousandths, is told beside it. The flow's time is first what KMeansConstrained spends on one assignment
  once it has the distances (graph, solver, reading the result), then that of the solver alone (SimpleMinCostFlow.solve
  of OR-Tools).
- Threads: the same assignment with one thread and with two, by turns; results must be equal.
- Fits: BalancedKMeans and KMeansConstrained from the same first centres, both at their defaults otherwise.
- Asked: what users of k-means-constrained found slow (its issues 16 and 47), in seconds of the processor. 23,000 x 50
  in 10 groups of half to twice the mean size, and with weights; 132,034 titles as rows of 17,693 sparse numbers in 25
  groups of 5,000 to 13,203; and 50 dense columns for these titles, since KMeansConstrained takes no sparse rows, with
  at most --asked-rounds rounds. The data are made up, with the shapes of those of the issues. A fit ends in one of many
  local optima, so inertias are told for several seeds.
- Large: sizes, inertia against KMeans from the same first centres and with as many rounds, memory, and an inverted file
  with the groups as lists. A query looks at the lists of the nearest centres. At equal work, that is at the same number
  of samples looked at on average: recall@10, and the work of the query at the 99th percentile. Numbers are interpolated
  between whole numbers of lists.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import history
import numpy as np
from common import peak_gibibytes, timed
from scipy import sparse
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from threadpoolctl import threadpool_limits

from epls import BalancedKMeans, balanced_assignment
from epls.utils.threads import blas_threads

# Run by the interpreter that has k-means-constrained: reads problems, writes seconds and totals.
RIVAL = r"""
import json, sys, time
import numpy as np
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow
from k_means_constrained import KMeansConstrained
from k_means_constrained import k_means_constrained_ as inside

task, path = sys.argv[1:]
data = np.load(path)
if task == "assign":
    X, C, size = data["X"], data["C"], int(data["size"])
    D = np.square(X).sum(axis=1)[:, None] - 2 * X @ C.T + np.square(C).sum(axis=1)
    D = np.maximum(D, 0).astype(np.float64)
    started = time.perf_counter()
    edges, costs, capacities, supplies, n_C, n_X = inside.minimum_cost_flow_problem_graph(X, C, D, size, size)
    labels = inside.solve_min_cost_flow_graph(edges, costs, capacities, supplies, n_C, n_X)
    seconds = time.perf_counter() - started
    flow = SimpleMinCostFlow()
    flow.add_arcs_with_capacity_and_unit_cost(edges[:, 0], edges[:, 1], capacities, costs)
    flow.set_nodes_supplies(np.arange(len(supplies)), supplies)
    started = time.perf_counter()
    flow.solve()
    alone = time.perf_counter() - started
    total = float(D[np.arange(len(X)), np.asarray(labels)].sum())
    print(json.dumps({"seconds": seconds, "alone": alone, "total": total}))
else:
    X, k = data["X"], len(data["C"])
    smallest, largest = map(int, data["sizes"])
    started = time.perf_counter(), time.process_time()
    model = KMeansConstrained(k, size_min=smallest, size_max=largest, init=data["C"], n_init=1, random_state=0,
                              max_iter=int(data["rounds"]), n_jobs=1).fit(X)
    print(json.dumps({"seconds": time.perf_counter() - started[0], "processor": time.process_time() - started[1],
                      "inertia": float(model.inertia_), "rounds": int(model.n_iter_)}))
"""


def blobs(n_samples, n_features, n_centers, seed=0):
    """Samples around centres that have very different shares of them."""
    random = np.random.RandomState(seed)
    shares = random.exponential(size=n_centers)
    centers = random.uniform(-10, 10, size=(n_centers, n_features))
    which = random.choice(n_centers, size=n_samples, p=shares / shares.sum())
    X = centers[which] + 3 * random.standard_normal((n_samples, n_features))
    return X.astype(np.float32)


def squared_distances(X, C):
    D = np.square(X).sum(axis=1)[:, None] - 2 * X @ C.T + np.square(C).sum(axis=1)
    return np.maximum(D, 0, out=D)


def ask_rival(python, task, **arrays):
    """What k-means-constrained gives, or None."""
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, **arrays)
        run = subprocess.run([python, "-c", RIVAL, task, path], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{python} cannot run k-means-constrained; see --help for how to install it\n{run.stderr[-1500:]}")
    return json.loads(run.stdout.splitlines()[-1])


def one_assignment(n_samples, n_groups, rival, repeats):
    X = blobs(n_samples, 16, n_groups)
    C = X[np.random.RandomState(1).choice(n_samples, n_groups, replace=False)]
    cost, size = squared_distances(X, C), n_samples // n_groups
    rows = np.arange(n_samples)
    seconds, theirs = [], []
    with threadpool_limits(1):
        best = cost[rows, balanced_assignment(cost, size, tol=0)].sum(dtype=np.float64)
        for _ in range(repeats):  # by turns
            took, (winners, gap) = timed(balanced_assignment, cost, size, return_gap=True)
            seconds.append(took)
            found = ask_rival(rival, "assign", X=X, C=C, size=size)
            theirs += [] if found is None else [(found["seconds"], found["alone"])]
    assert (np.bincount(winners, minlength=n_groups) == size).all()
    total = cost[rows, winners].sum(dtype=np.float64)
    above = f"{100 * (total / best - 1):.4f} % (bound {100 * gap / best:.4f} %)"
    figures = {"rows": n_samples, "groups": n_groups, "seconds": min(seconds), "above": total / best - 1}
    line = f"| {n_samples:,} x {n_groups:,} | {1e3 * min(seconds):.1f} | {above} |"
    if theirs:
        whole, alone = np.min(theirs, axis=0)
        line += f" {1e3 * whole:.0f} | {1e3 * alone:.0f} | {100 * (found['total'] / best - 1):.4f} % |"
        line += f" {whole / min(seconds):.1f} | {alone / min(seconds):.1f} |"
        figures |= {"flow_seconds": whole, "solver_seconds": alone}
    print(line, flush=True)
    return figures


def two_threads(n_samples, n_groups, repeats):
    X = blobs(n_samples, 16, n_groups)
    cost = squared_distances(X, X[np.random.RandomState(1).choice(n_samples, n_groups, replace=False)])
    seconds, winners = {1: [], 2: []}, {}
    for _ in range(repeats):
        for n_threads, all_seconds in seconds.items():
            with threadpool_limits(n_threads):
                if blas_threads() != n_threads:
                    print(f"the BLAS library has {blas_threads()} thread(s) only: no comparison of threads")
                    return None
                took, winners[n_threads] = timed(balanced_assignment, cost, n_samples // n_groups)
                all_seconds.append(took)
    assert (winners[1] == winners[2]).all()
    one, two = min(seconds[1]), min(seconds[2])
    print(
        f"\n{n_samples:,} x {n_groups:,}: one thread {one:.3f} s, two {two:.3f} s: {one / two:.2f} times as fast, "
        f"same result",
        flush=True,
    )
    return {"rows": n_samples, "groups": n_groups, "one": one, "two": two, "ratio": one / two}


def fits(n_samples, n_groups, rival, repeats):
    X = blobs(n_samples, 16, n_groups)
    C = first_centers(X, n_groups)
    seconds = []
    for _ in range(repeats):
        took, model = timed(BalancedKMeans(n_groups, init=C, random_state=0).fit, X)
        seconds.append(took)
    sizes = np.bincount(model.labels_, minlength=n_groups)
    took, unlimited = timed(KMeans(n_groups, init=C, n_init=1).fit, X)
    print(f"\n{n_samples:,} x 16 in {n_groups} groups, from the same centres")
    print("| method | seconds | rounds | inertia | sizes |")
    print("|---|---|---|---|---|")
    print(
        f"| BalancedKMeans | {min(seconds):.2f} | {model.n_iter_} | {model.inertia_:.6g} | {sizes.min()} to "
        f"{sizes.max()} |"
    )
    of_kmeans = np.bincount(unlimited.labels_, minlength=n_groups)
    print(
        f"| KMeans, without limits | {took:.2f} | {unlimited.n_iter_} | {unlimited.inertia_:.6g} | "
        f"{of_kmeans.min()} to {of_kmeans.max()} |",
        flush=True,
    )
    found = ask_rival(rival, "fit", X=X, C=C, sizes=[n_samples // n_groups, -(-n_samples // n_groups)], rounds=300)
    figures = {"rows": n_samples, "groups": n_groups, "seconds": min(seconds), "inertia": model.inertia_}
    if found is not None:
        figures |= {"constrained_seconds": found["seconds"], "constrained_inertia": found["inertia"]}
        print(f"| KMeansConstrained | {found['seconds']:.2f} | {found['rounds']} | {found['inertia']:.6g} | equal |")
        print(
            f"\n{found['seconds'] / min(seconds):.1f} times as fast, inertia "
            f"{100 * (model.inertia_ / found['inertia'] - 1):+.3f} %"
        )
    return figures


def asked(rival, n_rounds, n_rows=(23_000, 132_034), n_seeds=5):
    """What users of k-means-constrained asked for, in seconds of the processor: means over data of several seeds."""
    mean = n_rows[0] // 10
    smallest, largest = 5000 * n_rows[1] // 132_034, n_rows[1] // 10
    titles = [made_up_titles(n_rows[1])]
    columns = [TruncatedSVD(50, random_state=0).fit_transform(titles[0]).astype(np.float32)]
    many = [blobs(n_rows[0], 50, 30, seed) for seed in range(n_seeds)]
    cases = [  # what, samples, groups, sizes, highest weight of a sample, most rounds of the other
        ("issue 47: half to twice the mean size", many, 10, (mean // 2, 2 * mean), 1, 300),
        ("issue 47, equal sizes", many, 10, (mean, mean), 1, 300),
        ("issue 47, equal weights", many, 10, None, 10, 0),
        ("issue 16: sparse", titles, 25, (smallest, largest), 1, 0),
        (f"issue 16, 50 columns, {n_rounds} rounds", columns, 25, (smallest, largest), 1, n_rounds),
    ]
    print("\n| | rows | groups | BalancedKMeans, s | KMeansConstrained, s | ratio | inertia, ratio (range) |")
    print("|---|---|---|---|---|---|---|")
    figures = []
    for name, data, n_groups, sizes, weight, most_rounds in cases:
        limits = {} if sizes is None else {"size_min": sizes[0], "size_max": sizes[1]}
        took, theirs, inertia = [], [], []
        for X in data:
            C = first_centers(X, n_groups)
            weights = None if weight == 1 else np.random.RandomState(0).randint(1, weight + 1, X.shape[0])
            model = BalancedKMeans(n_groups, init=C, max_iter=n_rounds if most_rounds == n_rounds else 100, **limits)
            BalancedKMeans(2).fit(X[:50], sample_weight=None if weights is None else weights[:50])  # compile
            started = time.process_time()
            model.fit(X, sample_weight=weights)
            took.append(time.process_time() - started)
            if rival is not None and most_rounds:
                found = ask_rival(rival, "fit", X=X, C=C, sizes=sizes, rounds=most_rounds)
                theirs.append(found["processor"])
                inertia.append(model.inertia_ / found["inertia"])
        line = f"| {name} | {X.shape[0]:,} x {X.shape[1]:,} | {n_groups} | {np.mean(took):.2f} |"
        if theirs:
            gain, spread = np.mean(theirs) / np.mean(took), f"{min(inertia):.3f} to {max(inertia):.3f}"
            line += f" {np.mean(theirs):.2f} | {gain:.1f} | {np.mean(inertia):.3f} ({spread}) |"
        print(line, flush=True)
        figures.append({"name": name, "processor": took, "constrained": theirs, "inertia": inertia})
    return figures


def made_up_titles(n_rows, n_words=17_693, n_kinds=60):
    """Tf-idf of titles of five words on average; words follow Zipf's law, and each kind of title has its own."""
    random = np.random.RandomState(0)
    kinds = random.choice(n_kinds, n_rows, p=random.dirichlet(np.ones(n_kinds)))
    rows = np.repeat(np.arange(n_rows), 1 + random.poisson(4.3, n_rows))
    ranks = np.minimum(random.zipf(1.3, len(rows)), n_words) - 1
    own = random.uniform(size=len(rows)) < 0.7  # the others are words of all kinds
    words = np.where(own, (ranks * 101 + kinds[rows] * 211) % n_words, ranks)
    counts = sparse.csr_matrix((np.ones(len(rows)), (rows, words)), shape=(n_rows, n_words))
    return TfidfTransformer().fit_transform(counts)


def first_centers(X, n_groups):
    """Far from each other, among some of the samples."""
    some = X[np.random.RandomState(0).permutation(X.shape[0])[: 16 * n_groups]]
    centers = kmeans_plusplus(some, n_groups, random_state=0)[0]
    return centers.toarray() if sparse.issparse(centers) else centers


def true_neighbors(X, queries, n_neighbors=10):
    """The nearest samples of each query."""
    norms = np.square(X).sum(axis=1)
    found = [
        np.argpartition(norms - 2 * some @ X.T, n_neighbors)[:, :n_neighbors] for some in np.array_split(queries, 50)
    ]
    return np.concatenate(found)


class InvertedFile:
    """The groups of a clustering as lists, and where queries find their neighbors in them.

    A list that is looked at is looked at in full, so that a true neighbor is found if its list is among those probed.
    """

    def __init__(self, model, queries, neighbors):
        n_groups = len(model.cluster_centers_)
        nearest = np.argsort(squared_distances(queries, model.cluster_centers_), axis=1)
        ranks = np.argsort(nearest, axis=1)
        self.sizes = np.bincount(model.labels_, minlength=n_groups)
        self._rank_of_neighbors = np.take_along_axis(ranks, model.labels_[neighbors], axis=1)
        self._work = np.cumsum(self.sizes[nearest], axis=1)

    def at_work(self, work):
        """Recall, the 99th percentile of the work and the number of lists, where the mean work is this."""
        means = self._work.mean(axis=0)
        n = int(np.searchsorted(means, work))  # n + 1 lists are at least so much work, n are less
        assert 0 < n < len(means), "less work than a single list, or more than all"
        share = (work - means[n - 1]) / (means[n] - means[n - 1])
        of_both = [
            ((self._rank_of_neighbors < lists).mean(), np.percentile(self._work[:, lists - 1], 99), lists)
            for lists in (n, n + 1)
        ]
        recall, percentile, lists = (1 - share) * np.array(of_both[0]) + share * np.array(of_both[1])
        return {"work": work, "lists": lists, "work_99": percentile, "recall": recall}


def large(n_samples, n_groups, n_features=32, n_queries=1000):
    X = blobs(n_samples + n_queries, n_features, n_groups // 4)
    X, queries = X[:-n_queries], X[-n_queries:]
    print(f"\n{n_samples:,} x {n_features} in {n_groups:,} groups, {blas_threads()} thread(s)", flush=True)
    start = first_centers(X, n_groups)
    took, model = timed(BalancedKMeans(n_groups, init=start, random_state=0).fit, X)
    memory = peak_gibibytes()
    print(
        f"BalancedKMeans: {took:.0f} s, {model.n_iter_} rounds, largest memory of the process {memory:.2f} GiB",
        flush=True,
    )
    figures = {"rows": n_samples, "groups": n_groups, "seconds": took, "rounds": model.n_iter_, "memory_gib": memory}
    took, unlimited = timed(KMeans(n_groups, init=start, n_init=1, max_iter=model.n_iter_).fit, X)
    print(
        f"KMeans, {unlimited.n_iter_} rounds: {took:.0f} s; inertia {model.inertia_:.6g} against "
        f"{unlimited.inertia_:.6g} ({100 * (model.inertia_ / unlimited.inertia_ - 1):+.2f} %)",
        flush=True,
    )
    figures |= {"kmeans_seconds": took, "inertia": model.inertia_, "kmeans_inertia": float(unlimited.inertia_)}
    print("| lists | smallest | largest | variation of sizes | probed | mean work | 99th percentile | recall@10 |")
    print("|---|---|---|---|---|---|---|---|")
    neighbors, figures["searches"] = true_neighbors(X, queries), []
    files = {
        name: InvertedFile(found, queries, neighbors) for name, found in (("equal", model), ("k-means", unlimited))
    }
    for work in (5 * n_samples // n_groups, 20 * n_samples // n_groups):
        for name, file in files.items():
            found, sizes = file.at_work(work), file.sizes
            variation = sizes.std() / sizes.mean()
            figures["searches"].append({"name": name, "variation": variation} | found)
            print(
                f"| {name} | {sizes.min()} | {sizes.max()} | {variation:.3f} | {found['lists']:.1f} | {work} | "
                f"{found['work_99']:.0f} | {found['recall']:.4f} |",
                flush=True,
            )
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--constrained", metavar="PYTHON", help="a Python that has k-means-constrained")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="1,000,000 x 32 in 1,000 groups, too")
    parser.add_argument("--only-large", action="store_true", help="nothing else")
    parser.add_argument("--only-threads", action="store_true", help="one thread against two, and nothing else")
    parser.add_argument("--only-asked", action="store_true", help="what users of k-means-constrained asked for")
    parser.add_argument("--asked-rounds", type=int, default=3, metavar="N", help="of 132,034 dense rows")
    parser.add_argument("--large-rows", type=int, default=1_000_000, metavar="N", help="samples of --large")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    history.add_option(parser)
    options = parser.parse_args()
    run = history.Run(options)
    if options.constrained is None:
        print("k-means-constrained is left out: install it as --help says, and give --constrained PYTHON")
    balanced_assignment(np.random.RandomState(0).uniform(size=(1000, 20)).astype(np.float32), 50)  # compile
    BalancedKMeans(10).fit(blobs(2000, 4, 10))
    figures = measure(options)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    record(figures, run)
    run.finish()


def record(figures, run):
    """Add the times to the history."""
    for one in figures.get("assignments", []):
        name = f"assignment {one['rows']} x {one['groups']}"
        run.add(seconds={name: one["seconds"]})
        if "flow_seconds" in one:
            run.add(gains={f"{name}, against the flow": one["flow_seconds"] / one["seconds"]})
    if figures.get("threads"):
        run.add(gains={"two threads against one": figures["threads"]["ratio"]})
    if "fit" in figures:
        run.add(seconds={"BalancedKMeans": figures["fit"]["seconds"]})
        if "constrained_seconds" in figures["fit"]:
            gain = figures["fit"]["constrained_seconds"] / figures["fit"]["seconds"]
            run.add(gains={"BalancedKMeans against KMeansConstrained": gain})
    if "large" in figures:
        large = figures["large"]
        run.add(ratios={"large: BalancedKMeans / KMeans": large["seconds"] / large["kmeans_seconds"]})
        run.add(seconds={"large: BalancedKMeans": large["seconds"]})


def measure(options):
    """All figures that are asked for, by name."""
    if options.quick:
        return {
            "assignments": [one_assignment(1000, 10, options.constrained, 1)],
            "threads": two_threads(3000, 50, 1),
            "fit": fits(2000, 10, options.constrained, 1),
            "large": large(5000, 40, n_queries=50),
            "asked": asked(options.constrained, 2, n_rows=(2000, 3000), n_seeds=2),
        }
    if options.only_threads:
        return {"threads": two_threads(100_000, 1000, options.repeats)}
    if options.only_asked:
        return {"asked": asked(options.constrained, options.asked_rounds)}
    figures = {}
    if not options.only_large:
        columns = "flow, ms | its solver, ms | above | ratio | ratio to the solver"
        print(f"| one assignment, one thread | auction, ms | above the optimum | {columns} |")
        print("|---|---|---|---|---|---|---|---|")
        sizes = ((2000, 20), (10_000, 100), (20_000, 100))
        figures["assignments"] = [one_assignment(*size, options.constrained, options.repeats) for size in sizes]
        figures["threads"] = two_threads(100_000, 1000, options.repeats)
        figures["fit"] = fits(20_000, 100, options.constrained, options.repeats)
    if options.large or options.only_large:
        figures["large"] = large(options.large_rows, 1000)
    return figures


if __name__ == "__main__":
    main()
