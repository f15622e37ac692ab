"""Fits in epochs: callbacks are told of each, and what an earlier fit left stays whole if one fails."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.callback import CallbackSupportMixin


class Epochs(CallbackSupportMixin):
    """An estimator whose ``fit`` has epochs."""

    def begin_fit(self, n_epochs: int) -> Any:
        """Set up the callbacks of a fit that has so many epochs at most; scikit-learn's context of it."""
        return self._init_callback_context(max_subtasks=n_epochs).call_on_fit_task_begin(estimator=self)

    def epochs(
        self,
        n_epochs: int,
        fit_task: Any = None,
        *,
        n_done: int = 0,
        attributes: Callable[[], dict[str, Any]] | None = None,
    ) -> Generator[int]:
        """The numbers of the epochs; callbacks are told of each, and can end them.

        Whoever needs no more of them leaves the loop: the epoch that was under way counts as done.

        Parameters
        ----------
        n_epochs : int
            How many there are at most.
        fit_task : context or None
            What :meth:`begin_fit` returned, where something was to be done between that and the first epoch.
        n_done : int
            How many were done before, by a training that this one continues: callbacks are told of them, too.
        attributes : callable or None
            Returns the attributes of a fitted estimator, for callbacks that want one.
        """
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
    """What an earlier fit left stays whole if this one fails: validation has by then changed the features."""
    names = ("n_features_in_", "feature_names_in_")
    before = {name: estimator.__dict__[name] for name in names if name in estimator.__dict__}
    try:
        yield
    except BaseException:
        for name in names:
            estimator.__dict__.pop(name, None)
        estimator.__dict__.update(before)
        raise
