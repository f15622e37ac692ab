"""The filters of fitted features of images in scikit-learn's HTML diagram."""

from __future__ import annotations

from typing import Any

from ..utils.diagrams import Illustrated, Illustration
from ..utils.tiles import filter_grid

_MOST_FILTERS = 60


class IllustratedFeatures(Illustrated):
    """Image features, with one or more layers, whose diagram shows the filters of the layer that sees pixels."""

    def _sk_visual_block_(self) -> Any:
        """Return one open box, not one for each estimator among the parameters: they are in a table."""
        from sklearn.utils._repr_html.estimator import _VisualBlock

        return _VisualBlock("single", self, names=type(self).__name__, name_details=str(self))

    def _illustrations(self) -> list[Illustration]:
        if hasattr(self, "encoder_"):
            return [_of_filters(self)]
        layers = getattr(self, "layers_", [])
        return [_of_layer(number, layer) for number, layer in enumerate(layers, 1)]


def _of_filters(features: Any, layer: str = "") -> Illustration:
    """Return the filters of ``ImageFeatures``: all of them, or a random selection."""
    components = features.encoder_.components()
    size, n = features.patch_size, len(components)
    picture = filter_grid(components, (size, size, features.n_channels_), n_filters=_MOST_FILTERS)
    shown = f"{_MOST_FILTERS} of {n:,} filters" if n > _MOST_FILTERS else f"{n:,} filters"
    return f"{layer}{shown} of {size} x {size} pixels", picture


def _of_layer(number: int, layer: Any) -> Illustration:
    if number == 1 and len(layer.features_) == 1:
        return _of_filters(layer.features_[0], f"layer {number}: ")
    groups = f" in {len(layer.features_)} groups" if len(layer.features_) > 1 else ""
    of_map = " of the map below" if number > 1 else ""
    return (
        f"layer {number}: {layer.n_codes:,} units{groups}, patches of {layer.patch_size} x {layer.patch_size}{of_map}",
        None,
    )
