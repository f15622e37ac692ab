"""Callbacks for ``set_callbacks``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .utils.epochs import Callback


class OnEpoch(Callback):
    """Call ``report(epochs_done, epochs_at_most)`` after each epoch of a learner.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS
    >>> X, _ = load_digits(return_X_y=True)
    >>> done = []
    >>> _ = EPLS(10, max_iter=3).set_callbacks(OnEpoch(lambda epoch, total: done.append((epoch, total)))).fit(X)
    >>> done
    [(1, 3), (2, 3), (3, 3)]
    """

    def __init__(self, report: Callable[[int, int], None]) -> None:
        self._report = report

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Report if the task that ended is an epoch."""
        if context.task_name == "epoch":
            self._report(context.task_id + 1, context.parent.max_subtasks)
