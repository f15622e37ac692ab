"""How features are judged: by a linear classifier for each fold of labelled images, on images it has not seen."""

from __future__ import annotations

from dataclasses import dataclass

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

    Features are standardised by mean and variance of the training samples. The classifier is a linear one-vs-all SVM
    with squared hinge loss, its C chosen by 5-fold cross-validation on the training samples; of many samples, a fifth
    held out once tells as much.
    """
    scaler = StandardScaler(copy=False).fit(train)
    classifier = _classifier(train_labels).fit(scaler.transform(train), train_labels)
    right = classifier.predict(scaler.transform(test)) == test_labels
    return Verdict(100 * float(np.mean(right)), float(classifier.C_))


def cross_validated(features: Array, labels: Labels) -> float:
    """Percent classified correctly in cross-validation with the best C, to compare features by.

    The array is overwritten.
    """
    classifier = _classifier(labels).fit(StandardScaler(copy=False).fit_transform(features), labels)
    return 100 * float(classifier.scores_.mean(axis=0).max())


def _classifier(labels: Labels) -> L2SVMCV:
    # Shuffled: samples that come in some order make folds that differ, and a C that suits none.
    if len(labels) < _MANY_SAMPLES:
        n_parts = min(5, int(np.unique(labels, return_counts=True)[1].min()))
        return L2SVMCV(cv=StratifiedKFold(max(n_parts, 2), shuffle=True, random_state=0))
    return L2SVMCV(cv=StratifiedShuffleSplit(1, test_size=0.2, random_state=0))
