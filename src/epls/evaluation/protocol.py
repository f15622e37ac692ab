"""How features are judged: by a linear classifier for each fold of labelled images, on images it has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from .svm import L2SVMCV

Array = NDArray[np.floating]
Labels = NDArray[np.int64]

_MANY_SAMPLES = 20_000


@dataclass(frozen=True)
class Verdict:
    """What one classifier reached: percent of test images told right, with the C that cross-validation chose."""

    accuracy: float
    C: float


def judge(train: Array, train_labels: Labels, test: Array, test_labels: Labels) -> Verdict:
    """Train the paper's classifier on features, test it on others. Both arrays are overwritten.

    Features are standardised by mean and variance of the training samples. The classifier is a linear one-vs-all SVM
    with squared hinge loss, its C chosen by 5-fold cross-validation on the training samples; of many samples, a fifth
    held out once tells as much.
    """
    scaler = StandardScaler(copy=False).fit(train)
    # Shuffled: samples that come in some order make folds that differ, and a C that suits none.
    if len(train) < _MANY_SAMPLES:
        cv = StratifiedKFold(5, shuffle=True, random_state=0)
    else:
        cv = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    classifier = L2SVMCV(cv=cv).fit(scaler.transform(train), train_labels)
    right = classifier.predict(scaler.transform(test)) == test_labels
    return Verdict(100 * float(np.mean(right)), float(classifier.C_))
