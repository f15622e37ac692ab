"""The part of scikit-learn 1.9's callbacks that this library needs, for releases before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any


@dataclass
class Task:
    """A fit or one of its epochs, as a callback sees it: ``sklearn.callback.CallbackContext``."""

    estimator_name: str
    task_name: str
    task_id: int = 0
    max_subtasks: int = 0
    parent: Task | None = None
    n_subtasks: int = 0

    def subcontext(self, task_name: str) -> Task:
        """Return the next task within this one."""
        self.n_subtasks += 1
        return Task(self.estimator_name, task_name, self.n_subtasks - 1, parent=self)

    def call_on_fit_task_begin(self, *, estimator: Any) -> Task:
        """Tell all callbacks that the task begins."""
        for callback in estimator._skl_callbacks:
            callback.on_fit_task_begin(estimator, self)
        return self

    def call_on_fit_task_end(self, *, estimator: Any, reconstruction_attributes: Any = None) -> bool:
        """Tell all callbacks that the task ends, and return whether one of them asks to stop."""
        answers = [callback.on_fit_task_end(estimator, self) for callback in estimator._skl_callbacks]
        return any(answers)


class CallbackSupportMixin:
    """An estimator with callbacks: ``sklearn.callback.CallbackSupportMixin``."""

    _skl_callbacks: tuple[Any, ...] = ()
    _fit_task: Task | None = None
    _to_tear_down: list[Any]

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set the callbacks."""
        self._skl_callbacks = callbacks
        return self

    def _init_callback_context(self, max_subtasks: int) -> Task:
        self._fit_task = Task(type(self).__name__, "fit", max_subtasks=max_subtasks)
        self._to_tear_down = []
        for callback in self._skl_callbacks:
            self._to_tear_down.append(callback)
            callback.setup(self, self._fit_task)
        return self._fit_task

    def __sklearn_clone__(self) -> Any:
        """Return a clone with the same callbacks."""
        return super().__sklearn_clone__().set_callbacks(*self._skl_callbacks)  # type: ignore[misc]


def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that tells callbacks of its end, also after an error: ``sklearn.callback.with_callbacks``."""

    @wraps(method)
    def managed(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(estimator, *args, **kwargs)
        finally:
            task = getattr(estimator, "_fit_task", None)
            if task is not None:
                for callback in estimator._to_tear_down:
                    callback.teardown(estimator, task)
                del estimator._fit_task, estimator._to_tear_down

    return managed
