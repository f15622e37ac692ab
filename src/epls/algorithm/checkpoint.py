"""Checkpoints: training that is killed at any moment continues where it stopped, and ends with the same bits."""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import suppress
from dataclasses import asdict
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from ..callbacks import Callback
from ..data.samples import Samples
from ..utils.container import DamagedError, VersionError, read_container, write_container
from ..utils.fields import COUNT, CURVE
from ..utils.files import FolderLock, open_regular
from .activations import Activation
from .progress import EpochReport, Progress
from .training import Training

_KEPT = 2
_FORMAT = 5
_log = logging.getLogger(__name__)


class Checkpoint(Callback):
    """Save the state of training to disk, and continue from there when the same training starts again.

    This is a callback for ``EPLS.set_callbacks``, and a setting of :class:`epls.DeepFeatures`. At regular intervals,
    even within an epoch, it writes everything that training depends on: the weights, the averages of the optimiser, the
    counts of the target, the random numbers and the position in the data. ``fit`` with the same settings and data then
    continues from the newest checkpoint. It ends with the same result, bit for bit, as without the interruption (with
    the same number of threads). If a checkpoint is damaged, the one before it is used. When ``fit`` ends, its
    checkpoints are removed.

    Other data are detected by their size, mean, scale and a few of their rows. Small changes can go unnoticed, so if
    you change the data, start with an empty folder.

    Parameters
    ----------
    folder : path-like
        The folder for the checkpoints, created if needed. Only one training can use it at a time: a second one fails.
    seconds : float, default=60
        The time from one checkpoint to the next. A checkpoint is three times as large as the weights.
    keep : bool, default=False
        Whether to keep the checkpoints when ``fit`` ends. Call :meth:`clear` to remove them once the result is used.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS
    >>> X, _ = load_digits(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = EPLS(10, max_iter=3).set_callbacks(Checkpoint(folder)).fit(X)
    """

    def __init__(self, folder: str | os.PathLike[str], *, seconds: float = 60.0, keep: bool = False) -> None:
        if not seconds >= 0:
            raise ValueError(f"seconds={seconds!r}: give 0 or more")
        self.folder = Path(folder)
        self.seconds = seconds
        self.keep = keep
        #: Held while ``fit`` runs. If checkpoints are kept, it is held until they are cleared.
        self.lock = FolderLock(self.folder, "training", "give each training a folder of its own")
        self._last = time.monotonic()
        self._written = 0

    def setup(self, estimator: Any, context: Any) -> None:
        """Reject a learner that cannot resume within a fit."""
        if not getattr(estimator, "resumes", False):
            raise TypeError(f"{type(estimator).__name__} cannot resume from a checkpoint, only EPLS can: leave it out")

    def teardown(self, estimator: Any, context: Any) -> None:
        """Release the folder, which the learner has locked."""
        self.lock.release()

    def of_group(self, estimator: Any, layer: int, group: int) -> Any:
        """Return a clone of an estimator that keeps its training in a subfolder, until :meth:`clear` is called."""
        part = Checkpoint(self.folder / f"layer{layer}-group{group:04d}", seconds=self.seconds, keep=True)
        part.setup(estimator, None)
        return clone(estimator).set_callbacks(*estimator.callbacks, part)

    def resume(self, run: dict[str, Any], training: Training, samples: Samples) -> bool:
        """Restore training from the newest checkpoint of a run, and return whether there is one.

        ``run`` describes the settings and data. Checkpoints of a different run raise an error. If several processes
        learn together, the first one reads the checkpoint, and all continue from it.
        """
        content = samples.from_first(self._newest() if samples.part == 0 else b"")
        if not content:
            return False
        header, arrays = read_container(content, _FORMAT)
        found = header.get("run")
        if found != _comparable(run):
            found = found if isinstance(found, dict) else {}
            differing = sorted(k for k in run if found.get(k) != _comparable(run)[k])
            raise ValueError(
                f"{self.folder} has a checkpoint of another training, with different {', '.join(differing)}: give "
                f"another folder, or empty this one"
            )
        try:
            of_training = {k.removeprefix("training."): a for k, a in arrays.items() if k.startswith("training.")}
            training.restore(header["training"] | of_training)
            training.progress = _progress(header["progress"], arrays, len(training.weights))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(
                f"the newest file in {self.folder} is not a checkpoint that epls wrote ({error}): empty the folder"
            ) from error
        return True

    def _newest(self) -> bytes:
        """Return the content of the newest checkpoint that is not damaged; empty if there is none."""
        for unfinished in self.folder.glob(".checkpoint-*"):  # of a process that was killed while writing
            unfinished.unlink(missing_ok=True)
        self._last = time.monotonic()
        for path in reversed(self._files()):
            number = int(path.stem.removeprefix("checkpoint-"))
            self._written = max(self._written, number)  # new numbers must be higher, even than that of a damaged one
            try:
                with open_regular(path) as file:
                    content: bytes = file.read()
                read_container(content, _FORMAT)
            except VersionError as error:
                raise ValueError(
                    f"{path} was written by another version of epls ({error}; this one has format {_FORMAT}): finish "
                    f"the training with that version, or empty the folder to start again"
                ) from error
            except (DamagedError, OSError) as error:
                _log.warning("%s is damaged and ignored: %s", path, error)
                continue
            return content
        return b""

    def save_when_due(self, run: dict[str, Any], training: Training) -> None:
        """Write a checkpoint if the last one is old enough."""
        if time.monotonic() - self._last >= self.seconds:
            self.save(run, training)

    def save(self, run: dict[str, Any], training: Training) -> None:
        """Write a checkpoint, and remove all but the last two.

        If the disk is full or missing, training continues without a checkpoint and a warning is logged. The next
        attempt follows when the next checkpoint is due.
        """
        try:
            self._save(run, training)
        except OSError as error:
            _log.warning("no checkpoint was written to %s: %s", self.folder, error)
        self._last = time.monotonic()

    def _save(self, run: dict[str, Any], training: Training) -> None:
        state, progress = training.state(), training.progress
        name, key, position, has_gauss, gauss = progress.random_state
        arrays = {f"training.{k}": v for k, v in state.items() if isinstance(v, np.ndarray)}
        arrays |= {"wins": progress.wins, "live": progress.live, "random": np.asarray(key)}
        header = {
            "format": _FORMAT,
            "run": _comparable(run),
            "training": {k: v for k, v in state.items() if not isinstance(v, np.ndarray)},
            "progress": {
                "n_batches": progress.n_batches,
                "error": progress.error,
                "random": [name, int(position), int(has_gauss), float(gauss)],
                "reports": [asdict(report) for report in progress.reports],
            },
        }
        self._written += 1
        write_container(self.folder / f"checkpoint-{self._written:08d}.safetensors", header, arrays)
        for old in self._files()[:-_KEPT]:
            old.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all checkpoints once training is done."""
        for path in self._files():
            path.unlink(missing_ok=True)
        for folder in self.folder.glob("layer[0-9]*-group[0-9]*"):
            Checkpoint(folder).clear()
            (folder / ".lock").unlink(missing_ok=True)
            with suppress(OSError):  # it holds something else, too
                folder.rmdir()

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("checkpoint-" + "[0-9]" * 8 + ".safetensors"))


def description_of_run(
    params: dict[str, Any], samples: Samples, training: Training, batch_size: int, max_iter: int
) -> dict[str, Any]:
    """Return the settings and data of a training, which must be the same to continue from a checkpoint."""
    random_state = params["random_state"]
    if random_state is not None and not isinstance(random_state, Integral):
        raise ValueError(
            f"random_state={random_state!r} differs each time, so a checkpoint could not be resumed: give a number, or "
            f"None to store the seed in the checkpoint"
        )
    of_training = {f"settings.{name}": value for name, value in asdict(training.engine.objective.settings).items()}
    del params["settings"]  # None is the same as the defaults
    return (
        {name: _as_text(value) for name, value in (params | of_training).items()}
        | samples.describe()
        | {
            "size of a batch": batch_size,
            "epochs": max_iter,
            "type": training.weights.dtype.name,
            "shape of the weights": list(training.weights.shape),
        }
    )


def _as_text(value: Any) -> str:
    """Return a setting as text that is the same in every process."""
    if isinstance(value, Activation):
        return value.name
    return repr(value.item() if isinstance(value, np.generic) else value)


def _progress(plain: dict[str, Any], arrays: dict[str, Any], n_components: int) -> Progress:
    """Return the progress in a checkpoint after checking that it is plausible."""
    name, position, has_gauss, gauss = plain["random"]
    random_state = (name, arrays["random"], position, has_gauss, gauss)
    # NumPy accepts a position beyond the end of the key, and would then read out of bounds.
    if arrays["random"].shape != (624,) or type(position) is not int or not 0 <= position <= 624:
        raise ValueError("its random state is damaged")
    np.random.RandomState().set_state(random_state)  # checks the rest
    numbers = [plain["error"], *(value for report in plain["reports"] for value in report.values())]
    COUNT.check("n_batches", plain["n_batches"], {})
    CURVE.check("its progress", numbers, {})
    for array in (arrays["wins"], arrays["live"]):
        if array.shape != (n_components,) or array.dtype.kind != "i":
            raise ValueError(f"its progress is not that of {n_components} units")
    reports = [EpochReport(**report) for report in plain["reports"]]
    return Progress(plain["n_batches"], random_state, plain["error"], arrays["wins"], arrays["live"], reports)


def _comparable(run: dict[str, Any]) -> dict[str, Any]:
    """Return the value as it comes back from JSON, to the last digit."""
    plain: dict[str, Any] = json.loads(json.dumps(run, allow_nan=False))
    return plain
