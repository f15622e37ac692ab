"""The images of an experiment: what features are learned from, and what classifiers are trained and tested on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..datasets import CIFAR10, STL10, load_cifar10, load_stl10


@dataclass(frozen=True)
class LabelledImages:
    """Images of one size, and their classes."""

    images: Any
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """The images of an experiment.

    Features are learned from ``unlabelled``: images of their own, or the first images of ``train`` without their
    labels, as ``source`` says. For each of the ``folds``, a classifier is trained on the images of ``train`` with its
    numbers and tested on ``test``. If there is no ``test``, it is tested on the other images of ``train``: this is the
    development protocol, which keeps the test set unseen. ``remarks`` are messages about the images for the user.
    """

    unlabelled: Any
    train: LabelledImages
    folds: Sequence[NDArray[np.int64]]
    test: LabelledImages | None = None
    remarks: tuple[str, ...] = ()
    source: Literal["training", "unlabelled"] = "training"

    @property
    def protocol(self) -> str:
        """The name of the protocol."""
        return "development" if self.test is None else "test"

    @property
    def learns_from_tested(self) -> bool:
        """Whether features are learned from some of the test images."""
        return (
            self.test is None
            and self.source == "training"
            and any(len(self.tested(fold)) and self.tested(fold)[0] < len(self.unlabelled) for fold in self.folds)
        )

    def tested(self, fold: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the test images of a fold, in increasing order."""
        if self.test is not None:
            return np.arange(len(self.test.labels))
        return np.setdiff1d(np.arange(len(self.train.labels)), fold)

    def origin(self) -> dict[str, Any]:
        """Return the source of the patches that features are learned from, as plain values."""
        return {"from": self.source, "images": len(self.unlabelled), "tested_on_some": self.learns_from_tested}


def load_task(dataset: str, folder: Path, n_folds: int, *, protocol: str | None = None, download: bool = False) -> Task:
    """Load a data set with its own split into images to learn from, to train classifiers on, and to test.

    ``dataset`` is "stl10" or "cifar10", and ``n_folds`` the number of STL-10's folds to use; CIFAR-10 has one. The
    protocol "test" tests on the test set; "development" on training images that the classifier has not seen: those
    outside the fold and, for CIFAR-10, the last of five parts. By default, the test set is used if its files exist.
    The ``remarks`` of the task say which files are missing and what is used instead.
    """
    if dataset == "cifar10":
        return _cifar10(load_cifar10(folder, download=download), protocol)
    stl = load_stl10(folder, download=download)
    if protocol == "test" and (stl.test_images is None or stl.test_labels is None):
        raise ValueError(
            f'protocol="test" needs test_X.bin and test_y.bin, which are not in {folder}: get them with download=True '
            f'(on the command line, --download), or use protocol="development", which tests each fold on the other '
            f"training images"
        )
    return _stl10(stl, n_folds, protocol)


def _stl10(stl: STL10, n_folds: int, protocol: str | None) -> Task:
    task = Task(stl.train_images, LabelledImages(stl.train_images, stl.train_labels), list(stl.folds[:n_folds]))
    remarks = []
    if stl.unlabelled_images is not None:
        task = replace(task, unlabelled=stl.unlabelled_images, source="unlabelled")
    else:
        remarks.append(
            "unlabeled_X.bin is missing: patches are drawn from the training images instead, without their labels"
        )
    if protocol != "development" and stl.test_images is not None and stl.test_labels is not None:
        task = replace(task, test=LabelledImages(stl.test_images, stl.test_labels))
    elif protocol is None:
        remarks.append("test_X.bin is missing: each fold is tested on the training images outside of it")
    return replace(task, remarks=tuple(remarks))


def _cifar10(cifar: CIFAR10, protocol: str | None) -> Task:
    train = LabelledImages(cifar.train_images, cifar.train_labels)
    n_train = len(train.labels)
    if protocol == "development":
        n_train = n_train * 4 // 5  # the last of the five official batches is held out
        return Task(train.images[:n_train], train, [np.arange(n_train)])
    return Task(train.images, train, [np.arange(n_train)], LabelledImages(cifar.test_images, cifar.test_labels))
