"""How features are judged: by a linear classifier for each fold of labelled images, on images it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from ..utils.types import Array
from .svm import L2SVMCV

Labels = NDArray[np.int64]

_MANY_SAMPLES = 20_000


@dataclass(frozen=True)
class Verdict:
    """Percent of test images that one classifier classified correctly, with the C that cross-validation chose."""

    accuracy: float
    C: float


def judge(train: Array, train_labels: Labels, test: Array, test_labels: Labels) -> Verdict:
    """Train the paper's classifier on features, test it on others. Both arrays are overwritten.

    Features are (n_samples, n_features), or (n_samples, 2, n_features) for two views of each sample: the classifier
    then learns from both, and its decisions about both are added.

    Features are standardised by mean and variance of the training samples. The classifier is a linear one-vs-all SVM
    with squared hinge loss, its C chosen by 5-fold cross-validation on the training samples; of many samples, a fifth
    held out once tells as much.
    """
    n_views, n_features = (train.shape[1] if train.ndim == 3 else 1), train.shape[-1]
    rows, tested = train.reshape(-1, n_features), test.reshape(-1, n_features)
    scaler = StandardScaler(copy=False).fit(rows)
    classifier = _classifier(train_labels, n_views).fit(scaler.transform(rows), np.repeat(train_labels, n_views))
    if n_views == 1:
        predicted = classifier.predict(scaler.transform(tested))
    else:
        decisions = classifier.decision_function(scaler.transform(tested)).reshape(len(test), n_views, -1).sum(axis=1)
        numbers = decisions.argmax(axis=1) if decisions.shape[1] > 1 else (decisions[:, 0] > 0).astype(int)
        predicted = classifier.classes_[numbers]
    return Verdict(100 * float(np.mean(predicted == test_labels)), float(classifier.C_))


def cross_validated(features: Array, labels: Labels) -> float:
    """Percent classified correctly in cross-validation with the best C, to compare features by.

    The array is overwritten.
    """
    classifier = _classifier(labels).fit(StandardScaler(copy=False).fit_transform(features), labels)
    return 100 * float(classifier.scores_.mean(axis=0).max())


def _classifier(labels: Labels, n_views: int = 1) -> L2SVMCV:
    # Shuffled: samples that come in some order make folds that differ, and a C that suits none.
    if len(labels) < _MANY_SAMPLES:
        n_parts = min(5, int(np.unique(labels, return_counts=True)[1].min()))
        splitter: Any = StratifiedKFold(max(n_parts, 2), shuffle=True, random_state=0)
    else:
        splitter = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    if n_views == 1:
        return L2SVMCV(cv=splitter)
    # The views of a sample stay on one side: C would be chosen by samples that are all but known.
    views = np.arange(len(labels) * n_views).reshape(-1, n_views)
    splits = splitter.split(labels, labels)
    return L2SVMCV(cv=[(views[train].ravel(), views[test].ravel()) for train, test in splits])
