"""Evaluate features by a linear classifier for each fold of labelled images, on images that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from ..utils.threads import row_blocks
from ..utils.types import Array
from .linear import chosen_labels
from .ridge import LeastSquaresCV
from .svm import L2SVMCV

Labels = NDArray[np.int64]

_MANY_SAMPLES = 20_000
_BLOCK_SAMPLES = 5_000


@dataclass(frozen=True)
class Verdict:
    """The percentage of test images that a classifier classified correctly, and the C or the penalty that it chose."""

    accuracy: float
    C: float | None = None
    penalty: float | None = None


def judge(train: Array, train_labels: Labels, test: Array, test_labels: Labels, classifier: str = "svm") -> Verdict:
    """Train the paper's classifier on features and test it on others. Both arrays are overwritten.

    Features are (n_samples, n_features), or (n_samples, 2, n_features) for two views of each sample: the classifier
    then learns from both, and its decisions about both are added.

    Features are standardised by mean and variance of the training samples. The classifier is linear and one-vs-all.
    "svm" has the squared hinge loss, and its C is chosen by 5-fold cross-validation on the training samples; with many
    samples, a single held-out fifth is enough. "least_squares" has the squared loss, see :class:`LeastSquaresCV`.
    """
    n_views, n_features = (train.shape[1] if train.ndim == 3 else 1), train.shape[-1]
    rows, tested = train.reshape(-1, n_features), test.reshape(-1, n_features)
    scaler = _fitted_scaler(rows)
    model = LeastSquaresCV() if classifier == "least_squares" else _svm(train_labels, n_views)
    model.fit(scaler.transform(rows), np.repeat(train_labels, n_views))
    margins = model.decision_function(scaler.transform(tested))
    predicted = chosen_labels(model.classes_, margins.reshape(len(test), n_views, *margins.shape[1:]).sum(axis=1))
    accuracy = 100 * float(np.mean(predicted == test_labels))
    return Verdict(accuracy, getattr(model, "C_", None), getattr(model, "alpha_", None))


def cross_validated(features: Array, labels: Labels) -> float:
    """Return the percentage classified correctly in cross-validation with the best C, to compare features.

    The array is overwritten.
    """
    classifier = _svm(labels).fit(_fitted_scaler(features).transform(features), labels)
    return 100 * float(classifier.scores_.mean(axis=0).max())


def _fitted_scaler(features: Array) -> StandardScaler:
    """Transforms in place, a few samples at a time, because it makes a copy in double precision for the variance."""
    scaler = StandardScaler(copy=False)
    for some in row_blocks(len(features), _BLOCK_SAMPLES):
        scaler.partial_fit(features[some])
    return scaler


def _svm(labels: Labels, n_views: int = 1) -> L2SVMCV:
    # Shuffled: folds of sorted samples would differ, and no C would suit all of them.
    if len(labels) < _MANY_SAMPLES:
        n_parts = min(5, int(np.unique(labels, return_counts=True)[1].min()))
        splitter: Any = StratifiedKFold(max(n_parts, 2), shuffle=True, random_state=0)
    else:
        splitter = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    if n_views == 1:
        return L2SVMCV(cv=splitter)
    # Both views of a sample stay on the same side. Otherwise C would be chosen on samples that are almost known.
    views = np.arange(len(labels) * n_views).reshape(-1, n_views)
    splits = splitter.split(labels, labels)
    return L2SVMCV(cv=[(views[train].ravel(), views[test].ravel()) for train, test in splits])
