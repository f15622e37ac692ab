"""Sparse codes of patches, against SPAMS and scikit-learn in one run, at the same accuracy.

    python benchmarks/bench_sparse_coding.py --data DATA            # STL-10 patches, DATA holding stl10_binary
    python benchmarks/bench_sparse_coding.py --data DATA --model M  # with the components of a saved model
    python benchmarks/bench_sparse_coding.py --quick                # bundled photographs, few components

Every solver gets the loosest of its tolerances at which the objective of *every* patch is at most 1e-3 of itself above
the minimum. The minimum is known from both sides: codes in float64 with a tolerance of 1e-8, and the value of the dual
problem at their residual, which is never above it. SPAMS (``pip install spams-bin``) is left out if it is not there.
"""

import argparse
import json
import os
import warnings

import history
import numpy as np
from common import timed
from scipy import sparse
from sklearn.datasets import load_sample_images
from sklearn.decomposition import sparse_encode

from epls import EPLS, ImageFeatures, SparseCodingEncoder, load_model
from epls.datasets import load_stl10
from epls.images.patches import normalize_patches, sample_patches
from epls.utils.threads import blas_threads

ACCURACY = 1e-3
OUR_TOLERANCES = [0.1, 0.03, 0.01, 3e-3, 1e-3]
SPAMS_TOLERANCES = [1.0, 0.3, 0.1, 0.03, 0.01, 3e-3]
SKLEARN_ITERATIONS = [30, 100, 300, 1000]  # sparse_encode has no tolerance, and in float32 it does not reach its own


def objective(patches, components, codes, alpha):
    residual = patches - codes @ components
    return 0.5 * np.square(residual).sum(axis=1) + alpha * np.abs(codes).sum(axis=1)


def lower_bound(patches, components, codes, alpha):
    """The dual value at the residual, scaled to be feasible."""
    residual = patches - codes @ components
    slopes = np.abs(residual @ components.T).max(axis=1, keepdims=True)
    feasible = residual * np.minimum(1, alpha / np.maximum(slopes, alpha))
    return (feasible * patches).sum(axis=1) - 0.5 * np.square(feasible).sum(axis=1)


def our_solver(components, alpha, tolerance):
    encoder = SparseCodingEncoder(components, alpha, tol=tolerance, split_sign=False)
    encoder.transform(components[:2])  # compile
    return lambda patches: encoder.transform(patches)


def spams_solver(components, alpha, tolerance, n_threads):
    import spams

    columns = np.asfortranarray(components.T)

    def solve(patches):
        samples = np.asfortranarray(patches.T)
        start = sparse.csc_matrix((len(components), len(patches)), dtype=np.float32)
        return spams.cd(
            samples, columns, start, lambda1=alpha, mode=2, itermax=5000, tol=tolerance, numThreads=n_threads
        ).T

    return solve


def sklearn_solver(components, alpha, most_iterations, n_threads, dtype=np.float32):
    components = components.astype(dtype)
    return lambda patches: sparse_encode(
        patches.astype(dtype), components, algorithm="lasso_cd", alpha=alpha, max_iter=most_iterations, n_jobs=n_threads
    )


def data_and_components(options):
    images = load_stl10(options.data).train_images if options.data else load_sample_images().images
    if options.model:
        components = load_model(options.model).estimator_.components_
    else:
        learner = EPLS(options.components, random_state=0, max_iter=1 if options.quick else 20)
        components = ImageFeatures(learner, random_state=0, n_patches=2000 if options.quick else None).fit(images)
        components = components.estimator_.components_
    components = components / np.linalg.norm(components, axis=1, keepdims=True)
    pixels = sample_patches(images, options.patches, 10, random_state=1)
    return normalize_patches(pixels, contrast_floor=10.0), components.astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--model", help="ImageFeatures of 10 x 10 patches, by epls fit; else they are learned first")
    parser.add_argument("--components", type=int, default=1600)
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--patches", type=int, default=10_000)
    parser.add_argument("--sklearn-patches", type=int, default=1000, help="scikit-learn gets fewer: it is slow")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    history.add_option(parser)
    options = parser.parse_args()
    run = history.Run(options)
    if options.quick:
        options.components, options.patches, options.sklearn_patches, options.repeats = 40, 60, 20, 1
    # scikit-learn tells of every patch that it stopped early; its processes take the setting from the environment.
    warnings.simplefilter("ignore")
    os.environ["PYTHONWARNINGS"] = "ignore"
    patches, components = data_and_components(options)
    n_threads = blas_threads()
    wide_patches, wide_components = patches.astype(np.float64), components.astype(np.float64)
    exact = SparseCodingEncoder(wide_components, options.alpha, tol=1e-8, split_sign=False).transform(wide_patches)
    best = lower_bound(wide_patches, wide_components, exact, options.alpha)
    scale = np.maximum(best, 1e-6)  # constant patches have a minimum of 0

    def worst_gap(codes):
        codes = codes.toarray() if sparse.issparse(codes) else codes
        reached = objective(wide_patches[: len(codes)], wide_components, codes, options.alpha)
        return float(((reached - best[: len(codes)]) / scale[: len(codes)]).max())

    def loosest(new_solver, settings, n_patches):
        """The first setting that is accurate enough, how accurate it is, the solver, and its patches."""
        for setting in settings:
            solve = new_solver(setting)
            gap = worst_gap(solve(patches[:n_patches]))
            if gap <= ACCURACY:
                break
        else:
            raise SystemExit(f"none of {settings} is accurate to {ACCURACY}: the worst patch is {gap:.1e} off")
        return setting, gap, solve, patches[:n_patches]

    def ours(tolerance):
        return our_solver(components, options.alpha, tolerance)

    rivals = {
        "epls": loosest(ours, OUR_TOLERANCES, options.patches),
        "epls, default tolerance": loosest(ours, [SparseCodingEncoder().tol], options.patches),
    }
    try:
        rivals["spams.cd"] = loosest(
            lambda tolerance: spams_solver(components, options.alpha, tolerance, n_threads),
            SPAMS_TOLERANCES,
            options.patches,
        )
    except ImportError:
        print("without SPAMS: pip install spams-bin")
    rivals["sklearn lasso_cd, float64, its default iterations"] = loosest(
        lambda iterations: sklearn_solver(components, options.alpha, iterations, n_threads, np.float64),
        [1000],
        options.sklearn_patches,
    )
    rivals["sklearn lasso_cd, float32, as few iterations as will do"] = loosest(
        lambda iterations: sklearn_solver(components, options.alpha, iterations, n_threads),
        SKLEARN_ITERATIONS,
        options.sklearn_patches,
    )

    columns = np.ascontiguousarray(components.T)
    seconds = {name: [] for name in [*rivals, "bare product"]}
    for _ in range(options.repeats):  # side by side, so that a change of the machine's speed meets all alike
        for name, (_, _, solve, some) in rivals.items():
            seconds[name].append(timed(solve, some)[0] / len(some))
        seconds["bare product"].append(timed(lambda: patches @ columns)[0] / len(patches))
    fastest = np.median(seconds["epls"])
    table = {
        name: {
            "microseconds a patch": round(1e6 * float(np.median(times)), 1),
            "times epls": round(float(np.median(times) / fastest), 2),
            **({"setting": rivals[name][0], "worst gap": f"{rivals[name][1]:.1e}"} if name in rivals else {}),
        }
        for name, times in seconds.items()
    }
    reached = objective(wide_patches, wide_components, exact, options.alpha)
    result = {
        "patches": len(patches),
        "components": len(components),
        "alpha": options.alpha,
        "threads": n_threads,
        "codes that are not 0, per patch": round(float((exact != 0).sum(axis=1).mean()), 1),
        "minimum known to": f"{float(((reached - best) / scale).max()):.0e}",
        "solvers": table,
    }
    print(json.dumps(result, indent=1, allow_nan=False))
    run.add(
        ratios={"epls / bare product": fastest / np.median(seconds["bare product"])},
        gains={f"epls against {name}": np.median(seconds[name]) / fastest for name in rivals if "epls" not in name},
        seconds={"epls, a patch": fastest},
    )
    run.finish()


if __name__ == "__main__":
    main()
