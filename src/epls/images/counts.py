"""The default number of patches to learn from."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ..algorithm.settings import batch_rows
from ..learners.base import DEFAULT_COMPONENTS

PATCHES_PER_UNIT, FEWEST_PATCHES = 100, 50_000


def usual_n_patches(estimator: Any) -> int:
    """Return the number of patches an estimator learns from."""
    return max(PATCHES_PER_UNIT * _n_units(estimator), FEWEST_PATCHES)


def patches_per_image(estimator: Any, n_patches: int, n_images: int) -> int:
    """Return the number of patches of an image in a mini-batch of an estimator; more if there are few images."""
    batch_size, n_units = getattr(estimator, "batch_size", None), _n_units(estimator) or DEFAULT_COMPONENTS
    if batch_size is None:
        batch_size = getattr(getattr(estimator, "settings", None), "batch_size", None)
    if not isinstance(batch_size, Integral):
        batch_size = n_units if batch_size == "n_components" else batch_rows(n_units, n_patches)
    return max(int(batch_size), -(-n_patches // n_images))


def _n_units(estimator: Any) -> int:
    """Return the number of components that an estimator will have, or 0 if no parameter says so."""
    settings = (getattr(estimator, name, None) for name in ("n_components", "n_clusters"))
    return next((int(setting) for setting in settings if isinstance(setting, Integral)), 0)
