"""Load labelled images from the usual sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ..datasets import CIFAR10, STL10, ImageFolder, load_cifar10, load_stl10
from ..datasets.arrays import load_archive
from ..datasets.folder import Channels
from ..utils.wording import counted
from .classes import class_numbers
from .experiment import LabelledImages, Progress, Task

_FEWEST_OF_A_CLASS = 4  # so that a classifier has two of each class to choose its C


def load_labelled(
    path: Path,
    n_folds: int,
    seed: int,
    *,
    channels: Channels | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Task:
    """Load images of one size with their classes, and choose the training images of each classifier.

    Features are learned from the same images, without their labels.

    Parameters
    ----------
    path : Path
        A folder with a subfolder of images for each class; an .npz file with "images" and "labels"; or the folder that
        contains ``stl10_binary`` or ``cifar-10-batches-bin``.
    n_folds : int
        The number of classifiers. For STL-10, its first folds are used. Otherwise, images are split into this many
        parts, at least two and at most half the number of images in the rarest class. Each classifier is trained on all
        parts but one.
    seed : int
        Determines how images are split.
    channels, skip_bad, progress
        See :class:`epls.ImageFolder`.

    Returns
    -------
    Task
        The images. ``skipped`` lists those that could not be used.
    """
    skipped: Sequence[tuple[Path, str]] = ()
    if (path / "stl10_binary").is_dir():
        return _stl10(load_stl10(path), n_folds)
    if (path / "cifar-10-batches-bin").is_dir():
        labelled = _cifar10(load_cifar10(path)).train
    elif path.suffix.lower() == ".npz" and path.is_file():
        labelled = _from_archive(path)
    elif path.is_dir():
        folder = ImageFolder(path, channels=channels, skip_bad=skip_bad, progress=progress)
        labelled, skipped = _from_folder(folder, path), folder.skipped
    else:
        raise ValueError(f"{path} is neither a folder nor an .npz file: give a folder with a sub-folder for each class")
    counts = np.bincount(labelled.labels, minlength=1)
    if len(counts) < 2 or counts.min() < _FEWEST_OF_A_CLASS:
        raise ValueError(
            f"{path} has {counted(len(counts), 'classes', 'class')}, the smallest with "
            f"{counted(int(counts.min()), 'images')}: give two or more classes of at least "
            f"{_FEWEST_OF_A_CLASS} images, to learn from and to test"
        )
    n_parts = min(max(n_folds, 2), int(counts.min()) // 2)
    splits = StratifiedKFold(n_parts, shuffle=True, random_state=seed)
    parts = splits.split(np.zeros(len(labelled.labels)), labelled.labels)
    return Task(labelled.images, labelled, [train for train, _ in parts][:n_folds], skipped=skipped)


def load_official(
    dataset: str, folder: Path, n_folds: int, *, protocol: str | None = None, download: bool = False
) -> Task:
    """Load a data set with its own split into images to learn from, to train classifiers on, and to test.

    Parameters
    ----------
    dataset : {"stl10", "cifar10"}
        The data set.
    folder : Path
        The folder with its official files.
    n_folds : int
        The number of folds of STL-10 to use; CIFAR-10 has one.
    protocol : {"development", "test"} or None, default=None
        Whether to test on the test set, or on training images that the classifier has not seen: those outside the fold
        and, for CIFAR-10, the last of five parts. By default, the test set is used if its files exist.
    download : bool, default=False
        Whether to download missing files.

    Returns
    -------
    Task
        The images. ``remarks`` says which files are missing and what is used instead.
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
    return _stl10(stl, n_folds, protocol, with_unlabelled=True)


def _stl10(stl: STL10, n_folds: int, protocol: str | None = "development", *, with_unlabelled: bool = False) -> Task:
    task = Task(stl.train_images, LabelledImages(stl.train_images, stl.train_labels), list(stl.folds[:n_folds]))
    remarks = []
    if with_unlabelled and stl.unlabelled_images is not None:
        task = replace(task, unlabelled=stl.unlabelled_images, source="unlabelled")
    elif with_unlabelled:
        remarks.append(
            "unlabeled_X.bin is missing: patches are drawn from the training images instead, without their labels"
        )
    if protocol != "development" and stl.test_images is not None and stl.test_labels is not None:
        task = replace(task, test=LabelledImages(stl.test_images, stl.test_labels))
    elif protocol is None:
        remarks.append("test_X.bin is missing: each fold is tested on the training images outside of it")
    return replace(task, remarks=tuple(remarks))


def _cifar10(cifar: CIFAR10, protocol: str | None = None) -> Task:
    train = LabelledImages(cifar.train_images, cifar.train_labels)
    n_train = len(train.labels)
    if protocol == "development":
        n_train = n_train * 4 // 5  # the last of the five official batches is held out
        return Task(train.images[:n_train], train, [np.arange(n_train)])
    return Task(train.images, train, [np.arange(n_train)], LabelledImages(cifar.test_images, cifar.test_labels))


def _from_archive(path: Path) -> LabelledImages:
    images, labels = load_archive(path, ("images", "labels"))
    if images.ndim not in (3, 4) or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{path}: images of shape {images.shape} and labels of shape {labels.shape} do not match: give "
            f"(n, height, width[, channels]) and (n,)"
        )
    return LabelledImages(images, class_numbers(labels, path))


def _from_folder(folder: ImageFolder, path: Path) -> LabelledImages:
    if folder.labels is None or folder.class_names is None:
        raise ValueError(
            f"{path} has images outside of sub-folders: give one with a sub-folder of images for each class"
        )
    skipped = {file.relative_to(path).parts[0] for file, _ in folder.skipped if file.parent != path}
    if lost := sorted(skipped - set(folder.class_names)):
        raise ValueError(
            f"{path} has no image of the class {lost[0]} that can be used: repair its images, or remove this sub-folder"
        )
    sizes = sorted({shape[:2] for shape in folder.shapes})
    if len(sizes) > 1:
        raise ValueError(
            f"the images of {path} have {len(sizes)} sizes, from {sizes[0]} to {sizes[-1]}: resize all to the same size"
        )
    return LabelledImages(np.stack([folder[k] for k in range(len(folder))]), folder.labels)
