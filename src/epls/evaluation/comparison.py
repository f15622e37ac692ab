"""Does a learner help? Compare features of several learners with the same classifier on your own labelled samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils import check_random_state

from ..algorithm.layer import activation_of
from ..callbacks import report_epochs
from ..images.features import ImageFeatures
from ..images.reading import ImageCollection
from ..images.recipes import quick_features
from ..images.stack import DeepFeatures
from ..learners import LEARNERS
from ..learners.base import Learner
from ..learners.epls import EPLS
from ..learners.prototypes import Prototypes
from ..learners.raw import Raw
from ..metrics import never_active
from ..utils.settings import with_settings
from ..utils.threads import threads_for
from ..utils.types import Indices, Progress
from ..utils.wording import counted
from .summary import never_active_units
from .svm import folds_for, svm_for

Labels = NDArray[np.int64]  # the number of the class of each sample

_FEWEST_LABELS = 2  # per class, since the classifier chooses its C by cross-validation
_STRENGTHS = np.logspace(-1, 4, 6)  # of a logistic regression on samples of unit length


@dataclass(frozen=True)
class ComparedLearner:
    """One row of a comparison.

    Attributes
    ----------
    name : str
        The name of the learner.
    accuracy, std : float
        The percentage of samples classified correctly: mean and standard deviation over the folds.
    folds : tuple of float
        The percentage of each fold.
    n_features : int
        The number of features of a sample.
    seconds : dict of str to float
        The times of "learn", "encode" and "judge". Those of a classifier are "learn" and, for its predictions, "judge".
    n_units, n_never_active : int or None
        The number of units, and of those that respond to all samples alike (on images, to 10,000 patches). None if the
        learner is not one of this library, or has several layers.
    n_to_tune : int or None
        The number of settings that the learner and its encoder expect to be tuned. None as for ``n_units``.
    failed : str or None
        If the learner failed, the reason.
    """

    name: str
    accuracy: float = np.nan
    std: float = np.nan
    folds: tuple[float, ...] = ()
    n_features: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    n_units: int | None = None
    n_never_active: int | None = None
    n_to_tune: int | None = None
    failed: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the row for a JSON file, which does not support NaN."""
        return asdict(self) | ({"accuracy": None, "std": None} if self.failed is not None else {})


class Comparison(tuple[ComparedLearner, ...]):
    """The result of :func:`compare`: a row for each learner, in the given order. It is shown as a table, best first."""

    __slots__ = ()

    def table(self) -> list[tuple[str, ...]]:
        """Return the cells of the table. The first row has the titles of the columns."""
        titles = ("learner", "% correct (std)", "features", "learn s", "encode s", "to tune", "never active")
        rows = sorted(self, key=lambda row: (row.failed is not None, -row.accuracy if row.failed is None else 0))
        return [titles, *map(_cells, rows)]

    def __repr__(self) -> str:
        table = self.table()
        figures = zip(*(cells[1:] for cells in table if len(cells) > 2), strict=True)  # of those that did not fail
        first, widths = max(len(cells[0]) for cells in table), [max(map(len, column)) for column in figures]
        lines = []
        for name, *cells in table:
            aligned = [f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False)]
            lines.append("  ".join([name.ljust(first), *aligned]).rstrip())
        return "\n".join(lines)


def _cells(row: ComparedLearner) -> tuple[str, ...]:
    if row.failed is not None:
        return (row.name, f"failed: {row.failed}")
    learn, encode = (f"{row.seconds[stage]:.2g}" if row.seconds[stage] else "" for stage in ("learn", "encode"))
    to_tune = "" if row.n_to_tune is None else str(row.n_to_tune)
    silent = "" if row.n_units is None else f"{row.n_never_active} of {row.n_units}"
    return (row.name, f"{row.accuracy:.1f} ({row.std:.2f})", f"{row.n_features:,}", learn, encode, to_tune, silent)


def compare(
    X: Any,
    y: ArrayLike,
    learners: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    n_labels: int | None = None,
    folds: int | Sequence[ArrayLike] = 5,
    random_state: Any = 0,
    progress: Progress = lambda stage, done, total: None,
    on_row: Callable[[ComparedLearner, Any], None] = lambda row, learner: None,
) -> Comparison:
    """Compare the features of several learners by the accuracy of a linear classifier.

    Each learner learns from all samples, without labels. Then, for each fold, a linear SVM (:class:`epls.L2SVMCV`) is
    trained on the features of the labelled samples and tested on the others. Cross-validation on the labelled samples
    chooses C, and whether features are standardised one by one or share one scale. So a learner sees the test samples
    but never their labels, as in applications with many samples and few labels.

    Parameters
    ----------
    X : array-like or data frame of shape (n_samples, n_features), or images
        The samples. Images have the form that :class:`epls.ImageFeatures` accepts: an array with three or four
        dimensions, a sequence of arrays, or an :class:`epls.ImageFolder`.
    y : array-like of shape (n_samples,)
        The class of each sample: numbers or texts, none of them missing. Spaces around texts do not count.
    learners : mapping of names to estimators, sequence of estimators, or None
        Anything with ``fit`` and ``transform``, including pipelines and your own learners. They are cloned, and work
        on copies of arrays and data frames. If their ``random_state`` is None, they are seeded from the one given
        here. For vectors, there may be classifiers, too: they are trained on the labelled samples themselves, without
        features. For images, an estimator for vectors learns from patches, whose size and number suit the images; see
        :func:`around_learner`. None compares the raw values, PCA and, for vectors, a logistic regression on samples of
        unit length and Prototypes, for images EPLS.
    n_labels : int or None, default=None
        The number of training samples of each class for the classifier. None uses all samples outside the test fold.
    folds : int or sequence of index arrays, default=5
        The number of folds in cross-validation. With ``n_labels``, the number of random draws of labelled samples. Or
        the training samples of each fold, for data with folds of their own.
    random_state : int, RandomState instance or None, default=0
        Determines the folds, and seeds the learners.
    progress : callable, optional
        Called with the stage, the number of steps done and the total number of steps. The stages are "compare", which
        counts learners, and those of the learners of this library, such as "EPLS: learn".
    on_row : callable, optional
        Called with each row when it is known, and the fitted estimator, which is None if it failed.

    Returns
    -------
    Comparison
        A row for each learner. ``print`` shows a table, and ``pandas.DataFrame(comparison)`` contains all figures. The
        row of a learner that failed says why.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> from epls import Prototypes, Raw
    >>> from epls.evaluation import compare
    >>> X, y = load_iris(return_X_y=True)
    >>> result = compare(X, y, {"raw columns": Raw(), "PCA": PCA(2), "Prototypes": Prototypes(10)}, n_labels=5)
    >>> [row.name for row in result]
    ['raw columns', 'PCA', 'Prototypes']
    >>> all(row.accuracy > 80 for row in result)
    True
    """
    n_samples = len(X)
    if np.shape(y) != (n_samples,):
        raise ValueError(f"y has shape {np.shape(y)}, but X has {n_samples} samples: give one label for each")
    labels = class_numbers(y)
    random = check_random_state(random_state)
    trained_on = list(_folds(labels, n_labels, folds, random))
    named = _named(X, labels, n_labels, learners)
    for learner in named.values():
        for method in ("fit", "predict" if _classifies(learner, X) else "transform"):
            if not hasattr(learner, method):
                raise TypeError(f"{learner!r} has no {method}: give an estimator with fit and transform")
    seed = random.randint(2**31 - 1)  # the same for all
    found = []
    for number, (name, learner) in enumerate(named.items()):
        progress("compare", number, len(named))
        row, fitted = _compared(name, learner, seed, X, labels, trained_on, progress)
        on_row(row, fitted)
        found.append(row)
    progress("compare", len(named), len(named))
    return Comparison(found)


def around_learner(learner: Any, X: Any) -> ImageFeatures:
    """Return unfitted features of images whose components this learner learns; None uses EPLS.

    Everything else is as in the default features (:func:`epls.images.recipes.quick_features`), with one layer and
    without mirror images: the size, number and stride of patches, and the number of units of EPLS. A learner of this
    library has its own whitening and encoder.
    """
    shapes = np.array([shape[:2] for shape in ImageCollection(X, 1).shapes()])
    recipe: Any = quick_features(len(X), *map(int, shapes.min(axis=0)), layers=1, mirror=False, random_state=None)
    if isinstance(learner, Learner):
        recipe.set_params(whiten=learner.whitens, encoder=learner.own_encoder)
    return recipe if learner is None else recipe.set_params(estimator=learner)


def library_learner(name: str, settings: dict[str, Any], **shared: Any) -> Learner:
    """Return a learner of the library by its name, with these settings.

    ``shared`` are settings that learners have in common, such as ``n_components`` and ``random_state``. A learner that
    lacks one, or that cannot choose its number of components, ignores it.
    """
    learner: Learner = LEARNERS[name]()
    known = set(learner.get_params()) - ({"n_components"} if learner.complete else set())
    given = {key: value for key, value in shared.items() if key in known}
    return with_settings(learner, given | settings, name)


def class_numbers(labels: ArrayLike) -> NDArray[np.int64]:
    """Return the number of each label among the sorted classes. Spaces around texts do not count.

    Raise a ValueError if one is missing: None, NaN, an empty text, or the text "nan", which other programs write for
    NaN.
    """
    values: NDArray[Any] = np.asarray(labels)
    if values.dtype.kind in "US":
        values = np.char.strip(values)
        missing = np.isin(np.char.lower(values), np.array(["", "nan"], dtype=values.dtype.kind))
    elif values.dtype.kind == "O":
        values = np.array([value.strip() if isinstance(value, str) else value for value in values], dtype=object)
        missing = np.array([_is_missing(value) for value in values], dtype=bool)
    else:
        missing = values != values  # NaN and NaT differ from themselves
    if missing.any():
        raise ValueError(
            f"y has no label (empty or NaN) for {missing.sum():,} of {len(values):,} samples: fill in these "
            f"labels, or leave the samples out"
        )
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() in ("", "nan")
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA is neither equal nor unequal to anything
        return True


def _compared(
    name: str, learner: Any, seed: int, X: Any, labels: Labels, folds: list[Indices], progress: Progress
) -> tuple[ComparedLearner, Any]:
    """Return the row of a learner, and the fitted learner; ``folds`` are the training samples of each."""
    try:
        if _classifies(learner, X):
            return _classified(name, learner, seed, X, labels, folds)
        learner = clone(learner)
        if _are_images(X) and not _takes_images(learner):
            learner = around_learner(learner, X)
        learner = _seeded(learner, seed)
        inner = learner.estimator if isinstance(learner, ImageFeatures) else learner
        if isinstance(inner, Learner):
            report_epochs(inner, lambda done, total: progress(f"{name}: learn", done, total))
        times = [time.perf_counter()]
        learner.fit(_copied(X))
        times.append(time.perf_counter())
        features = _features(learner, _copied(X), name, progress)
        times.append(time.perf_counter())
        accuracies = []
        for train in folds:
            test = np.setdiff1d(np.arange(len(labels)), train)
            accuracies.append(_accuracy(features[train], labels[train], features[test], labels[test]))
        times.append(time.perf_counter())
        about_units = _about_units(learner, X, features)
    # Learners of users may raise anything, or even call sys.exit, and the others are still compared.
    except (Exception, SystemExit) as error:
        return ComparedLearner(name, failed=_reason(error)), None
    row = ComparedLearner(
        name,
        accuracy=float(np.mean(accuracies)),
        std=float(np.std(accuracies)),
        folds=tuple(accuracies),
        n_features=features.shape[1],
        seconds=dict(zip(("learn", "encode", "judge"), np.diff(times).tolist(), strict=True)),
        **about_units,
    )
    return row, learner


def _classifies(learner: Any, X: Any) -> bool:
    """Return whether a learner is a classifier of the samples themselves. For images, it is not: they need features."""
    return is_classifier(learner) and not _are_images(X)


def _classified(
    name: str, classifier: Any, seed: int, X: Any, labels: Labels, folds: list[Indices]
) -> tuple[ComparedLearner, Any]:
    """Return the row of a classifier that is trained on the samples themselves, and the one of the last fold."""
    rows = X.iloc if hasattr(X, "iloc") else np.asarray(X)
    accuracies, seconds = [], dict.fromkeys(("learn", "encode", "judge"), 0.0)
    for train in folds:
        test = np.setdiff1d(np.arange(len(labels)), train)
        classifier = _seeded(clone(classifier), seed)
        times = [time.perf_counter()]
        with threads_for(len(train) * np.shape(X)[1] * len(np.unique(labels))):
            classifier.fit(rows[train], labels[train])
        times.append(time.perf_counter())
        accuracies.append(100 * float(np.mean(classifier.predict(rows[test]) == labels[test])))
        times.append(time.perf_counter())
        for stage, took in zip(("learn", "judge"), np.diff(times).tolist(), strict=True):
            seconds[stage] += took
    mean, std = float(np.mean(accuracies)), float(np.std(accuracies))
    return ComparedLearner(name, mean, std, tuple(accuracies), np.shape(X)[1], seconds), classifier


def _reason(error: BaseException) -> str:
    """Return the first line of a message. If it ends with a colon, the next one belongs to it."""
    first, *others = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    while first.endswith(":") and others:
        first = f"{first} {others.pop(0)}"
    if first and isinstance(error, (ValueError, TypeError)):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _copied(X: Any) -> Any:
    """Return a copy that a learner may change. Samples that cannot be changed, or are read from files, stay."""
    if isinstance(X, (list, tuple)):
        return deepcopy(X)
    if isinstance(X, np.ndarray) and not X.flags.writeable:  # perhaps a memory map that is larger than the memory
        return X
    return X.copy() if hasattr(X, "copy") else X


def _accuracy(train: NDArray[Any], train_labels: Labels, test: NDArray[Any], test_labels: Labels) -> float:
    """Return the percentage of test samples that a linear classifier classifies correctly.

    Features are scaled one by one or all together, whichever is better in cross-validation on the training samples.
    Columns in different units need the first; the small last components of PCA need the second.
    """
    center, deviations = train.mean(axis=0), train.std(axis=0)
    tried = []
    for scale in (np.where(deviations > 0, deviations, 1), np.sqrt(np.mean(deviations**2)) or 1.0):
        classifier = svm_for(train_labels).fit((train - center) / scale, train_labels)
        tried.append((float(classifier.scores_.mean(axis=0).max()), scale, classifier))
    _, scale, classifier = max(tried, key=lambda trial: trial[0])
    return 100 * float(np.mean(classifier.predict((test - center) / scale) == test_labels))


def _features(learner: Any, X: Any, name: str, progress: Progress) -> NDArray[Any]:
    """Return the features of all samples as an array of real numbers, after checking its shape."""
    if isinstance(learner, (ImageFeatures, DeepFeatures)):
        for number, row in enumerate(learner.iter_transform(X)):
            if number == 0:
                features: Any = np.empty((len(X), len(row)), row.dtype)
            features[number] = row
            progress(f"{name}: encode", number + 1, len(X))
        return features
    features = learner.transform(X)
    features = np.asarray(features.toarray() if hasattr(features, "toarray") else features)
    if features.ndim != 2 or len(features) != len(X):
        raise ValueError(f"transform returned shape {features.shape}, but ({len(X)}, n_features) is needed")
    return features if features.dtype in (np.float32, np.float64) else features.astype(np.float64)


def _about_units(learner: Any, X: Any, features: NDArray[Any]) -> dict[str, Any]:
    """Return the figures of a row about the units of a learner of this library."""
    if isinstance(learner, ImageFeatures) and isinstance(learner.estimator_, Learner):
        return {
            "n_units": len(learner.encoder_.components()),
            "n_never_active": never_active_units(learner, X),
            "n_to_tune": len(learner.estimator_.meta_parameters) + len(learner.encoder_.meta_parameters),
        }
    if isinstance(learner, Learner):
        n_silent = len(never_active(features, activation_of(learner)))
        return {"n_units": features.shape[1], "n_never_active": n_silent, "n_to_tune": len(learner.meta_parameters)}
    return {}


def _folds(labels: Labels, n_labels: int | None, folds: Any, random: np.random.RandomState) -> Iterator[Indices]:
    """Return the training samples of each fold; the classifier is tested on the others."""
    given = not isinstance(folds, (int, np.integer))
    if (not given and folds < 1) or (n_labels is not None and n_labels < _FEWEST_LABELS):
        raise ValueError(f"folds={folds} must be at least 1, n_labels={n_labels} at least {_FEWEST_LABELS} or None")
    if given and n_labels is not None:
        raise ValueError(f"n_labels={n_labels} draws its own samples: give the number of draws as folds")
    counts = check_classes(labels, n_labels)
    if given:
        yield from (np.asarray(train) for train in folds)
        return
    if n_labels is None:
        n_parts = min(max(folds, 2), int(counts.min()) // 2)
        splits = StratifiedKFold(n_parts, shuffle=True, random_state=random).split(labels, labels)
        yield from [train for train, _ in splits][:folds]
        return
    of_classes = [np.flatnonzero(labels == k) for k in range(len(counts))]
    for _ in range(folds):
        yield np.sort(np.concatenate([random.permutation(samples)[:n_labels] for samples in of_classes]))


def check_classes(labels: Labels, n_labels: int | None) -> NDArray[np.int64]:
    """Refuse classes that are too few or too small to train a classifier and to test it; return their sizes."""
    counts = np.bincount(labels)
    have = f"the labels have {counted(len(counts), 'classes', 'class')}"
    if len(counts) < 2:
        raise ValueError(f"{have}: give samples of at least two classes")
    have += f", the smallest with {counted(int(counts.min()), 'samples')}"
    if n_labels is not None and counts.min() <= n_labels:
        raise ValueError(
            f"{have}; n_labels={n_labels} needs at least {n_labels + 1} in each: give a smaller n_labels (on the "
            f"command line, --n-labels)"
        )
    if n_labels is None and counts.min() < 2 * _FEWEST_LABELS:
        raise ValueError(
            f"{have}; at least {2 * _FEWEST_LABELS} in each are needed to train a classifier and to test it: add "
            f"samples, or leave small classes out"
        )
    return counts


def _named(
    X: Any, labels: Labels, n_labels: int | None, learners: Mapping[str, Any] | Sequence[Any] | None
) -> dict[str, Any]:
    if learners is None and not _are_images(X):
        n_units = Prototypes().checked_n_components(len(X))
        return vector_learners(X, labels, n_labels, n_units) | {f"Prototypes({n_units})": Prototypes(n_units)}
    if learners is None:
        features = around_learner(None, X)
        n_units = features.estimator.n_components
        n_pca = min(n_units, features.patch_size**2 * ImageCollection(X, 1).n_channels)
        return {"raw pixels": Raw(), f"PCA({n_pca})": PCA(n_pca), f"EPLS({n_units})": EPLS(n_units)}
    if isinstance(learners, Mapping):
        return dict(learners)
    named: dict[str, Any] = {}
    for learner in learners:
        name = " ".join(str(learner).split())
        if name in named:
            raise ValueError(f"two learners are called {name}: give a dict with a name for each")
        named[name] = learner
    return named


def vector_learners(X: Any, labels: Labels, n_labels: int | None, n_units: int) -> dict[str, Any]:
    """Return by name what features of vectors should beat, since many vectors need no features.

    It is the vectors as they are, judged like all features; a logistic regression on vectors of unit length, which is
    hard to beat on embeddings; and PCA with at most ``n_units`` components.
    """
    n_pca = min(n_units, *np.shape(X))
    fewest = n_labels or int(np.bincount(labels).min()) // 2  # at least, outside the test fold
    logistic = make_pipeline(Normalizer(), LogisticRegression(max_iter=1000))
    grid, cv = {"logisticregression__C": _STRENGTHS.tolist()}, folds_for(len(labels), fewest)
    search = GridSearchCV(logistic, grid, cv=cv, error_score="raise")
    return {"raw columns": Raw(), "raw, unit length, logistic regression": search, f"PCA({n_pca})": PCA(n_pca)}


def _are_images(X: Any) -> bool:
    """Return whether each sample has more than one dimension."""
    return len(X.shape) > 2 if hasattr(X, "shape") else np.asarray(X[0]).ndim > 1


def _seeded(learner: Any, seed: int) -> Any:
    unset = [key for key, value in learner.get_params().items() if key.endswith("random_state") and value is None]
    return learner.set_params(**dict.fromkeys(unset, seed))


def _takes_images(learner: Any) -> bool:
    while isinstance(learner, (Pipeline, FeatureUnion)):
        learner = learner[0] if isinstance(learner, Pipeline) else learner.transformer_list[0][1]
    return isinstance(learner, (ImageFeatures, DeepFeatures))
