"""Settings of estimators by name, as users give them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any


def with_settings(estimator: Any, given: dict[str, Any], name: str) -> Any:
    """Return the estimator with these parameters set. An error names it and its parameters.

    If it has a parameter ``settings``, the fields of its type are accepted by name, too: the ``loss`` of EPLS.
    """
    available = estimator.get_params(deep=False)
    settings_type: Any = getattr(estimator, "settings_type", None)
    inner = {field.name for field in fields(settings_type)} if settings_type else set()
    if unknown := set(given) - set(available) - inner:
        has = ", ".join(sorted({*available, *inner})) or "none"
        raise ValueError(f"{name} has no setting {', '.join(sorted(unknown))}; it has {has}")
    params = {key: value for key, value in given.items() if key in available}
    if changed := {key: value for key, value in given.items() if key not in available}:
        settings = params.get("settings", available["settings"]) or settings_type()
        params["settings"] = replace(settings, **changed)
    return estimator.set_params(**params)
