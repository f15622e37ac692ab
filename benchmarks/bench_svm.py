"""The SVM and its choice of C against scikit-learn's, side by side on the same features, folds and grid.

    python benchmarks/bench_svm.py                         # made-up features, 1,000 x 6,400
    python benchmarks/bench_svm.py --data FEATURES.npz     # features (n, d), labels (n,), folds (10, n_train)
    python benchmarks/bench_svm.py --folds 10              # scikit-learn takes some minutes for each
    python benchmarks/bench_svm.py --large                 # made-up features, 50,000 x 6,400, without scikit-learn
    python benchmarks/bench_svm.py --large --features 20000
    python benchmarks/bench_svm.py --large --cifar10 DATA  # features of random patches instead, 50,000 x 6,400

For each fold, L2SVMCV and GridSearchCV(LinearSVC()) choose C on its training samples, of standardised features, by
5-fold cross-validation, and are tested on all other samples. The grid is short (C times the mean squared norm of a
sample from 0.01 to 10) because above it LinearSVC takes up to a minute for a single fit. Both of its solvers are tried,
on as many processes as there are BLAS threads, and the quicker one counts; --dual-only leaves the slower one out. The
intercept is penalised as LinearSVC does it; also told is what L2SVMCV gives at its defaults, with a free intercept.

With --large, L2SVMCV chooses C by 5-fold cross-validation on all training samples. Seconds are those of fit; the peak
is that of the whole process, with the training samples in it; a product is one vector times the samples and back. The
gap of the final problems is that stated by L2SVMCV's tol, computed here from the weights that it returned.
"""

import argparse
import warnings

import history
import numpy as np
from common import peak_gibibytes, timed
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from epls.evaluation.svm import L2SVMCV
from epls.utils.threads import blas_threads

RELATIVE_CS = np.logspace(-2, 1, 7)


def made_up(n_samples, n_features, n_train, n_folds=10):
    """Classes that overlap, in features whose Gram matrix has eigenvalues that fall like 1/k."""
    random = np.random.default_rng(0)
    deviations = 1 / np.sqrt(np.arange(1, n_features // 4 + 1))
    labels = np.arange(n_samples) % 10
    centres = 0.09 * random.standard_normal((10, len(deviations)))
    hidden = deviations * (random.standard_normal((n_samples, len(deviations))) + centres[labels])
    features = hidden @ random.standard_normal((len(deviations), n_features))
    folds = [random.permutation(n_samples)[:n_train] for _ in range(n_folds)]
    return features.astype(np.float32), labels, folds


def standardised(features, train, test):
    mean, deviation = features[train].mean(axis=0), np.sqrt(features[train].var(axis=0) + 0.01)
    return (features[train] - mean) / deviation, (features[test] - mean) / deviation


def made_up_large(n_samples, n_features):
    """As in made_up, a block at a time."""
    random = np.random.default_rng(0)
    deviations = (1 / np.sqrt(np.arange(1, n_features // 4 + 1))).astype(np.float32)
    mixing = random.standard_normal((len(deviations), n_features), np.float32)
    mixing /= np.sqrt(np.square(deviations[:, None] * mixing).sum(axis=0))  # features of variance 1
    labels = np.arange(n_samples) % 10
    centres = 0.09 * random.standard_normal((10, len(deviations)), np.float32)
    features = np.empty((n_samples, n_features), np.float32)
    for start in range(0, n_samples, 1000):
        own = labels[start : start + 1000]
        hidden = deviations * (random.standard_normal((len(own), len(deviations)), np.float32) + centres[own])
        features[start : start + 1000] = hidden @ mixing
    return features, labels


def features_of_cifar10(folder, n_samples, n_features):
    """Features of random patches, the first to be had, and the labels; the test images come last."""
    from epls import ImageFeatures
    from epls.datasets import load_cifar10
    from epls.learners.random_patches import RandomPatches

    data = load_cifar10(folder)
    learner = RandomPatches(n_features // 8, random_state=0)
    encoder = ImageFeatures(
        learner, patch_size=6, encoder="soft_threshold", whiten=True, stride=2, n_patches=50_000, random_state=0
    ).fit(data.train_images[:5000])
    train = np.linspace(0, len(data.train_images) - 1, n_samples).astype(int)
    features = np.empty((n_samples + len(data.test_images), 8 * (n_features // 8)), np.float32)
    for chosen, first in ((data.train_images[train], 0), (data.test_images, n_samples)):
        for start in range(0, len(chosen), 1000):
            codes = encoder.transform(chosen[start : start + 1000])
            features[first + start : first + start + len(codes)] = codes
    return features, np.r_[data.train_labels[train], data.test_labels]


def largest_gap(model, X, y):
    """Half the squared norm of the gradient, as a share of the objective; of the worst class."""
    square = 1 + sum(np.square(row, dtype=np.float64).sum() for row in X) / len(X)
    scaling = 10 * np.sqrt(square)
    coef, intercept = model.coef_.astype(np.float64), model.intercept_.astype(np.float64)
    gradient, value = np.c_[coef, intercept / scaling], 0.5 * (np.square(coef).sum(axis=1) + (intercept / scaling) ** 2)
    for start in range(0, len(X), 1000):
        block = X[start : start + 1000].astype(np.float64)
        signs = np.where(y[start : start + 1000] == model.classes_[:, None], 1.0, -1.0)
        hinge = np.maximum(0, 1 - signs * (coef @ block.T + intercept[:, None]))
        weighted = 2 * model.C_ * signs * hinge
        gradient -= np.c_[weighted @ block, scaling * weighted.sum(axis=1)]
        value += model.C_ * np.square(hinge).sum(axis=1)
    return (0.5 * np.square(gradient).sum(axis=1) / value).max()


def large(n_train, n_features, folder, run):
    if folder:
        features, labels = features_of_cifar10(folder, n_train, n_features)
    else:
        features, labels = made_up_large(n_train + n_train // 5, n_features)
    train = features[:n_train]
    total, squares = np.zeros(train.shape[1]), np.zeros(train.shape[1])
    for start in range(0, n_train, 1000):
        total += train[start : start + 1000].sum(axis=0, dtype=np.float64)
        squares += np.square(train[start : start + 1000], dtype=np.float64).sum(axis=0)
    mean = total / n_train
    features -= mean
    features /= np.sqrt(squares / n_train - mean**2 + 1e-8)
    print(f"{n_train:,} x {train.shape[1]:,} {train.dtype}, {blas_threads()} BLAS thread(s)", flush=True)
    before, model = peak_gibibytes(), L2SVMCV()
    seconds = timed(model.fit, train, labels[:n_train])[0]
    peak, accuracy = peak_gibibytes(), model.score(features[n_train:], labels[n_train:])
    print(
        f"  {seconds:.0f} s, peak {peak:.2f} GB ({before:.2f} before, of which {features.nbytes / 2**30:.2f} are the "
        f"samples, held out ones too); {model.n_products_:,} products, {100 * accuracy:.2f} % of those held out"
    )
    print(
        f"  C={model.C_:.2e}, value {1 + np.argmin(abs(model.Cs_ - model.C_))} of {len(model.Cs_)}; cross-validated "
        f"{', '.join(f'{100 * score:.2f}' for score in model.scores_.mean(axis=0))} %; "
        f"largest gap {largest_gap(model, train, labels[:n_train]):.1e}"
    )
    run.add(seconds={"fit": seconds, "fit, a product": seconds / model.n_products_})


def objectives(model, X, y, C):
    """Of each class, in double precision."""
    coef, intercept = model.coef_.astype(np.float64), model.intercept_.astype(np.float64)
    signs = np.where(y == model.classes_[:, None], 1.0, -1.0)
    hinge = np.maximum(0, 1 - signs * (coef @ X.T.astype(np.float64) + intercept[:, None]))
    return 0.5 * (np.square(coef).sum(axis=1) + intercept**2) + C * np.square(hinge).sum(axis=1)


def compare(X, y, X_test, y_test, n_jobs, solvers):
    """Print what one fold gives; the accuracies of both, and the ratio of their times, and the seconds of ours."""
    grid = RELATIVE_CS / (1 + np.square(X, dtype=np.float64).sum(axis=1).mean())
    ours, default = L2SVMCV(Cs=grid, intercept_scaling=1), L2SVMCV()
    (seconds, _), (default_seconds, _) = timed(ours.fit, X, y), timed(default.fit, X, y)
    print(
        f"  L2SVMCV: {seconds:.2f} s, {100 * ours.score(X_test, y_test):.2f} % with C={ours.C_:.2e}; at the defaults "
        f"{default_seconds:.2f} s, {100 * default.score(X_test, y_test):.2f} % with C={default.C_:.2e} "
        f"(value {1 + np.argmin(abs(default.Cs_ - default.C_))} of {len(default.Cs_)})",
        flush=True,
    )
    best_seconds, theirs = np.inf, None
    for dual in solvers:
        search = GridSearchCV(LinearSVC(dual=dual), {"C": grid}, cv=5, n_jobs=n_jobs)
        search_seconds, _ = timed(search.fit, X, y)
        C, model = search.best_params_["C"], search.best_estimator_
        expected = objectives(L2SVMCV(Cs=C, intercept_scaling=1).fit(X, y), X, y, C)
        excess = objectives(model, X, y, C) / expected - 1
        scores = np.array([search.cv_results_[f"split{k}_test_score"] for k in range(5)])
        print(
            f"  GridSearchCV(LinearSVC(dual={dual})): {search_seconds:.1f} s, {100 * search.score(X_test, y_test):.2f} "
            f"% with C={C:.2e}; objectives above ours of that C by {excess.min():.1e} to {excess.max():.1e}; scores of "
            f"folds differ by {abs(scores - ours.scores_).max():.3f} at most",
            flush=True,
        )
        if search_seconds < best_seconds:
            best_seconds, theirs = search_seconds, search
    return ours.score(X_test, y_test), theirs.score(X_test, y_test), best_seconds / seconds, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="an .npz file of features, labels and folds")
    parser.add_argument("--folds", type=int, default=1, help="how many of the folds to take")
    parser.add_argument("--dual-only", action="store_true", help="only LinearSVC's dual solver")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--large", action="store_true", help="L2SVMCV alone, on 50,000 samples")
    parser.add_argument("--samples", type=int, default=50_000, help="training samples of --large")
    parser.add_argument("--features", type=int, default=6_400, help="features of --large")
    parser.add_argument("--cifar10", metavar="DATA", help="a folder with CIFAR-10, for the features of --large")
    history.add_option(parser)
    options = parser.parse_args()
    run = history.Run(options)
    if options.large:
        if options.quick:
            options.samples, options.features = 3000, 2040
        large(options.samples, options.features, options.cifar10, run)
        run.finish()
        return
    if options.data:
        arrays = np.load(options.data)
        features, labels, folds = arrays["features"], arrays["labels"], arrays["folds"]
    else:
        features, labels, folds = made_up(300, 200, 100) if options.quick else made_up(5000, 6400, 1000)
    warnings.simplefilter("ignore")  # of LinearSVC, that it has not converged
    n_jobs = 1 if options.quick else blas_threads()
    results = []
    for k, train in enumerate(folds[: options.folds]):
        test = np.setdiff1d(np.arange(len(labels)), train)
        X, X_test = standardised(features, train, test)
        print(f"Fold {k}: {X.shape[0]:,} x {X.shape[1]:,} {X.dtype}, {len(test):,} held out, {n_jobs} process(es)")
        results.append(
            compare(X, labels[train], X_test, labels[test], n_jobs, (True,) if options.dual_only else (True, False))
        )
    ours, theirs, ratio, seconds = np.mean(results, axis=0)
    print(f"Mean: {100 * ours:.2f} % against {100 * theirs:.2f} %, {ratio:.0f} times as fast as the quicker solver")
    run.add(gains={"L2SVMCV against GridSearchCV(LinearSVC())": ratio}, seconds={"L2SVMCV, a fold": seconds})
    run.finish()


if __name__ == "__main__":
    main()
