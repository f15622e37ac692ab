"""Balanced assignments and balanced k-means against min-cost flow, in one run, by turns.

    python -m venv /tmp/constrained && /tmp/constrained/bin/pip install k-means-constrained
    python benchmarks/bench_balanced.py --constrained /tmp/constrained/bin/python
    python benchmarks/bench_balanced.py --large                # and 1,000,000 x 32 in 1,000 groups: some minutes

k-means-constrained is needed for the comparison only. It brings a NumPy of its own, so it has an environment of its own
and runs as a process of it, which measures its own times; without --constrained its columns are left out.

- One assignment: samples around hidden centres to centres drawn among them, squared distances, equal sizes. The
  optimum is that of the auction with tol=0, which proves it up to the rounding of float64; the flow, whose costs are
  rounded to thousandths, is told beside it. The flow's time is first what KMeansConstrained spends on one assignment
  once it has the distances (graph, solver, reading the result), then that of the solver alone (SimpleMinCostFlow.solve
  of OR-Tools).
- Threads: the same assignment with one thread and with two, by turns; results must be equal.
- Fits: BalancedKMeans and KMeansConstrained from the same first centres, both at their defaults otherwise.
- Large: sizes, inertia against KMeans, memory, and an inverted file with the groups as lists. Lists are probed nearest
  first until so many samples have been looked at on average: recall@10 of both at equal work, and how the work varies.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
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
    started = time.perf_counter()
    model = KMeansConstrained(k, size_min=len(X) // k, size_max=-(-len(X) // k), init=data["C"], n_init=1,
                              random_state=0, n_jobs=1).fit(X)
    print(json.dumps({"seconds": time.perf_counter() - started, "inertia": float(model.inertia_),
                      "rounds": int(model.n_iter_)}))
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


def timed(function, *arguments, **options):
    started = time.perf_counter()
    result = function(*arguments, **options)
    return time.perf_counter() - started, result


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
    line = f"| {n_samples:,} x {n_groups:,} | {1e3 * min(seconds):.1f} | {above} |"
    if theirs:
        whole, alone = np.min(theirs, axis=0)
        line += f" {1e3 * whole:.0f} | {1e3 * alone:.0f} | {100 * (found['total'] / best - 1):.4f} % |"
        line += f" {whole / min(seconds):.1f} | {alone / min(seconds):.1f} |"
    print(line, flush=True)


def two_threads(n_samples, n_groups, repeats):
    X = blobs(n_samples, 16, n_groups)
    cost = squared_distances(X, X[np.random.RandomState(1).choice(n_samples, n_groups, replace=False)])
    seconds, winners = {1: [], 2: []}, {}
    for _ in range(repeats):
        for n_threads, all_seconds in seconds.items():
            with threadpool_limits(n_threads):
                if blas_threads() != n_threads:
                    print(f"the BLAS library has {blas_threads()} thread(s) only: no comparison of threads")
                    return
                took, winners[n_threads] = timed(balanced_assignment, cost, n_samples // n_groups)
                all_seconds.append(took)
    assert (winners[1] == winners[2]).all()
    one, two = min(seconds[1]), min(seconds[2])
    print(
        f"\n{n_samples:,} x {n_groups:,}: one thread {one:.3f} s, two {two:.3f} s: {one / two:.2f} times as fast, "
        f"same result"
    )


def fits(n_samples, n_groups, rival, repeats):
    X = blobs(n_samples, 16, n_groups)
    some = X[np.random.RandomState(0).permutation(n_samples)[: 16 * n_groups]]
    C = kmeans_plusplus(some, n_groups, random_state=0)[0]
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
    found = ask_rival(rival, "fit", X=X, C=C)
    if found is not None:
        print(f"| KMeansConstrained | {found['seconds']:.2f} | {found['rounds']} | {found['inertia']:.6g} | equal |")
        print(
            f"\n{found['seconds'] / min(seconds):.1f} times as fast, inertia "
            f"{100 * (model.inertia_ / found['inertia'] - 1):+.3f} %"
        )


def searches(X, queries, centers, labels, true, work):
    """recall@10 of an inverted file with these lists, and the samples looked at by each query."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(len(centers) + 1))
    sizes = np.diff(starts)
    nearest = np.argsort(squared_distances(queries, centers), axis=1)
    n_probes = next(n for n in range(1, len(centers) + 1) if sizes[nearest[:, :n]].sum(axis=1).mean() >= work)
    looked_at = sizes[nearest[:, :n_probes]].sum(axis=1)
    hits = 0
    for query, lists, wanted in zip(queries, nearest, true, strict=True):
        rows = np.concatenate([order[starts[j] : starts[j + 1]] for j in lists[:n_probes]])
        distances = np.square(X[rows] - query).sum(axis=1)
        hits += len(np.intersect1d(rows[np.argsort(distances)[:10]], wanted))
    return hits / (10 * len(queries)), looked_at, sizes, n_probes


def large(n_samples, n_groups, n_features=32, n_queries=1000):
    X = blobs(n_samples + n_queries, n_features, n_groups // 4)
    X, queries = X[:-n_queries], X[-n_queries:]
    print(f"\n{n_samples:,} x {n_features} in {n_groups:,} groups, {blas_threads()} thread(s)", flush=True)
    took, model = timed(BalancedKMeans(n_groups, random_state=0).fit, X)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"BalancedKMeans: {took:.0f} s, {model.n_iter_} rounds, largest memory of the process {memory:.2f} GiB",
        flush=True,
    )
    limit = KMeans(n_groups, n_init=1, random_state=0, max_iter=model.n_iter_)
    took, unlimited = timed(limit.fit, X)
    print(
        f"KMeans, as many rounds: {took:.0f} s; inertia {model.inertia_:.6g} against {unlimited.inertia_:.6g} "
        f"({100 * (model.inertia_ / unlimited.inertia_ - 1):+.2f} %)"
    )
    true = np.concatenate(
        [np.argpartition(squared_distances(some, X), 10)[:, :10] for some in np.array_split(queries, 50)]
    )
    print(
        "| lists | smallest | largest | variation of sizes | lists probed | mean work | 99th percentile | recall@10 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for work in (n_samples // 200, n_samples // 50):
        for name, kmeans in (("equal", model), ("k-means", unlimited)):
            recall, looked_at, sizes, n_probes = searches(
                X, queries, kmeans.cluster_centers_, kmeans.labels_, true, work
            )
            variation = sizes.std() / sizes.mean()
            print(
                f"| {name} | {sizes.min()} | {sizes.max()} | {variation:.3f} | {n_probes} | {looked_at.mean():.0f} | "
                f"{np.percentile(looked_at, 99):.0f} | {recall:.4f} |",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--constrained", metavar="PYTHON", help="a Python that has k-means-constrained")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="1,000,000 x 32 in 1,000 groups, too")
    parser.add_argument("--only-large", action="store_true", help="nothing else")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    options = parser.parse_args()
    if options.constrained is None:
        print("k-means-constrained is left out: install it as --help says, and give --constrained PYTHON")
    balanced_assignment(np.random.RandomState(0).uniform(size=(1000, 20)).astype(np.float32), 50)  # compile
    BalancedKMeans(10).fit(blobs(2000, 4, 10))
    if options.quick:
        one_assignment(1000, 10, options.constrained, 1)
        two_threads(3000, 50, 1)
        fits(2000, 10, options.constrained, 1)
        large(5000, 20, n_queries=50)
        return
    if not options.only_large:
        columns = "flow, ms | its solver, ms | above | ratio | ratio to the solver"
        print(f"| one assignment, one thread | auction, ms | above the optimum | {columns} |")
        print("|---|---|---|---|---|---|---|---|")
        for n_samples, n_groups in ((2000, 20), (10_000, 100), (20_000, 100)):
            one_assignment(n_samples, n_groups, options.constrained, options.repeats)
        two_threads(100_000, 1000, options.repeats)
        fits(20_000, 100, options.constrained, options.repeats)
    if options.large or options.only_large:
        large(1_000_000, 1000)


if __name__ == "__main__":
    main()
