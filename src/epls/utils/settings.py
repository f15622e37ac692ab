"""Settings of estimators by name, as users give them."""

from __future__ import annotations

from typing import Any


def with_settings(estimator: Any, settings: dict[str, Any], name: str) -> Any:
    """Return the estimator with these parameters set. An error names it and its parameters."""
    available = estimator.get_params(deep=False)
    if unknown := set(settings) - set(available):
        has = ", ".join(sorted(available)) or "none"
        raise ValueError(f"{name} has no setting {', '.join(sorted(unknown))}; it has {has}")
    return estimator.set_params(**settings)
