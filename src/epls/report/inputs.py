"""The inputs of the units of a layer: the channels of its images, by the weights of the components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..images.features import ImageFeatures
from ..images.models import ModelLayer
from ..utils.types import Array, Indices

_STRONGEST = 8  # channels of each unit


@dataclass(frozen=True)
class UnitInputs:
    """The weights with which some units of a layer see its channels; ``n`` units.

    Attributes
    ----------
    layer : ModelLayer
        The layer.
    numbers : ndarray of int of shape (n,)
        The numbers of the units, in increasing order.
    groups : ndarray of int of shape (n,)
        The group of each unit.
    weights : list of ndarray of shape (patch_size, patch_size, n_channels of the group)
        The component of each unit.
    """

    layer: ModelLayer
    numbers: Indices
    groups: Indices
    weights: list[Array]

    def components(self) -> Array:
        """Return the components over all channels, (n, patch_size**2 * n_channels), to compare units across groups."""
        size = self.layer.patch_size
        room = np.zeros((len(self.numbers), size, size, self.layer.n_channels), np.float32)
        for place, group, weights in zip(room, self.groups, self.weights, strict=True):
            place[:, :, self.layer.channels[group]] = weights
        return room.reshape(len(room), -1)

    def shares(self, k: int) -> Array:
        """Return the share of each channel of its group in the energy of the ``k``-th unit's component."""
        energies = np.square(self.weights[k]).sum(axis=(0, 1), dtype=np.float64)
        return energies / (energies.sum() or 1.0)

    def strongest(self, k: int) -> list[dict[str, Any]]:
        """Return the strongest channels of the ``k``-th unit, the strongest first.

        Each comes with its share, the sign of the sum of its weights, and its weights, row by row, in percent of the
        unit's largest weight.
        """
        weights, shares = self.weights[k], self.shares(k)
        channels = self.layer.channels[self.groups[k]]
        percent = np.rint(100 * weights / (np.abs(weights).max() or 1.0)).astype(int)
        return [
            {
                "channel": int(channels[c]),
                "share": round(float(shares[c]), 4),
                "sign": int(np.sign(weights[:, :, c].sum())),
                "weights": percent[:, :, c].ravel().tolist(),
            }
            for c in np.argsort(-shares, kind="stable")[:_STRONGEST]
        ]

    def most_used(self) -> Indices:
        """Return the channels that are among the strongest of any unit, those with the largest total share first."""
        totals = np.zeros(self.layer.n_channels)
        for k, group in enumerate(self.groups):
            shares = self.shares(k)
            strongest = np.argsort(-shares, kind="stable")[:_STRONGEST]
            totals[self.layer.channels[group][strongest]] += shares[strongest]
        return np.argsort(-totals, kind="stable")[: np.count_nonzero(totals)]


def inputs_of(layer: ModelLayer, numbers: Indices) -> UnitInputs:
    """Return the inputs of the units with these numbers, in increasing order."""
    counts = [group.encoder_.n_codes for group in layer.groups]
    groups = np.searchsorted(np.cumsum(counts), numbers, side="right")
    firsts = np.cumsum([0, *counts])
    components = [signed_components(group) for group in layer.groups]
    shape = (layer.patch_size, layer.patch_size, -1)
    weights = [components[g][number - firsts[g]].reshape(shape) for g, number in zip(groups, numbers, strict=True)]
    return UnitInputs(layer, numbers, groups, weights)


def signed_components(features: ImageFeatures) -> Array:
    """Return the component of each code. If the encoder splits signs, the mirrored components follow."""
    components = features.encoder_.components()
    n_codes = features.encoder_.n_codes
    if n_codes == len(components):
        return components
    if n_codes == 2 * len(components):
        return np.concatenate([components, -components])
    raise ValueError(
        f"the model has {len(components)} components but returns {n_codes} codes: a report requires one code "
        f"for each component, or two (one for each sign)"
    )
