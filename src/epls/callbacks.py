"""Callbacks for ``set_callbacks``, and the estimators that call them after each epoch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import sklearn

from .utils.sklearn import HAS_CALLBACKS, CallbackSupportMixin

__all__ = ["Callback", "OnEpoch"]


class Callback:
    """A callback that does nothing at any of scikit-learn's hooks; a subclass overrides some."""

    def setup(self, estimator: Any, context: Any) -> None:
        """Called when ``fit`` begins."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> Any:
        """Called when ``fit`` or an epoch begins."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> Any:
        """Called when ``fit`` or an epoch ends. Training ends if it returns True after an epoch."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Called when ``fit`` ends, also after an error."""


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


def report_epochs(learner: Any, report: Callable[[int, int], None]) -> None:
    """Let a learner call ``report(epochs_done, epochs_at_most)`` after each epoch, if it can."""
    if HAS_CALLBACKS and hasattr(learner, "set_callbacks"):
        learner.set_callbacks(OnEpoch(report))


class Epochs(CallbackSupportMixin):
    """An estimator whose ``fit`` has epochs. With scikit-learn before 1.9, it has no callbacks."""

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set callbacks for the next fits: those of this library, such as :class:`OnEpoch`, or of others.

        This needs scikit-learn 1.9.
        """
        if HAS_CALLBACKS:
            return super().set_callbacks(*callbacks)
        if callbacks:
            raise ImportError(
                f"callbacks, such as OnEpoch and Checkpoint, need scikit-learn 1.9 or later, but this is "
                f"{sklearn.__version__}: upgrade it, or fit without them"
            )
        return self

    @property
    def callbacks(self) -> tuple[Any, ...]:
        """The callbacks that were set."""
        return tuple(getattr(self, "_skl_callbacks", ()))

    def begin_fit(self, n_epochs: int) -> Any:
        """Set up the callbacks of a fit with at most ``n_epochs`` epochs; return scikit-learn's context."""
        if not HAS_CALLBACKS:
            return None
        return self._init_callback_context(max_subtasks=n_epochs).call_on_fit_task_begin(estimator=self)

    def epochs(
        self,
        n_epochs: int,
        fit_task: Any = None,
        *,
        n_done: int = 0,
        attributes: Callable[[], dict[str, Any]] | None = None,
    ) -> Generator[int]:
        """Iterate over the numbers of at most ``n_epochs`` epochs. Callbacks are notified of each, and can end them.

        To end earlier, leave the loop: the current epoch counts as done. ``fit_task`` is the result of
        :meth:`begin_fit`, if it was called before. Callbacks are also notified of the first ``n_done`` epochs, those
        of an earlier training that this one continues. ``attributes`` returns the attributes of a fitted estimator, for
        callbacks that need one.
        """
        if not HAS_CALLBACKS:
            yield from range(n_epochs)
            return
        fit_task = fit_task or self.begin_fit(n_epochs)
        try:
            for epoch in range(n_epochs):
                task = fit_task.subcontext(task_name="epoch").call_on_fit_task_begin(estimator=self)
                try:
                    if epoch >= n_done:
                        yield epoch
                finally:
                    stop = task.call_on_fit_task_end(estimator=self, reconstruction_attributes=attributes)
                if stop and epoch >= n_done:
                    break
        finally:
            fit_task.call_on_fit_task_end(estimator=self)


@contextmanager
def earlier_fit_kept(estimator: Any) -> Iterator[None]:
    """Restore the result of an earlier fit if this one fails: validation has already changed ``n_features_in_``."""
    names = ("n_features_in_", "feature_names_in_")
    before = {name: estimator.__dict__[name] for name in names if name in estimator.__dict__}
    try:
        yield
    except BaseException:
        for name in names:
            estimator.__dict__.pop(name, None)
        estimator.__dict__.update(before)
        raise
