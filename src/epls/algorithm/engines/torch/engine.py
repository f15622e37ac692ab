"""The layer in torch: what :class:`epls.algorithm.engines.numpy.NumpyEngine` computes, on any device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ....data.shuffling import Batch
from ....utils.types import Array
from ...activations import Activation
from ...layer import UnitLayer, not_finite, standardize
from ..base import BatchGradient, BatchReport, Factors, LayerSettings, LocalEngine
from .activations import in_torch
from .devices import resolve_device, to_device


class TorchEngine(LocalEngine):
    """Outputs and gradients on a device.

    Weights come from training and gradients return to it as arrays of a few megabytes. Outputs return for the auction.
    On the processor, all of these share memory.
    """

    def __init__(self, settings: LayerSettings, n_components: int) -> None:
        super().__init__(settings, n_components)
        self._place = resolve_device(str(settings.device))
        in_torch(settings.activation)  # only the library's own are supported
        self._inputs: Array = np.empty((0, 0))

    def gradient(self, weights: Array, batch: Batch) -> BatchGradient:
        """Return the outputs, the winners, and the derivative of the loss with respect to the weights."""
        settings, f, functions = self.settings, self.settings.activation, in_torch(self.settings.activation)
        inputs, net = self._net(weights, batch)
        kept_net = net.clone() if settings.needs_factors or not settings.matching else net
        outputs = functions.in_place(net)
        winners = self.target.assign(finite(outputs, f).numpy(force=True))

        columns = to_device(winners, self._place)[:, None]
        at_winner = outputs.gather(1, columns)
        differences = outputs.sub_(f.inactive) if f.inactive != 0 else outputs
        differences.scatter_(1, columns, at_winner - f.active)
        errors = torch.linalg.vector_norm(differences, dim=1).square_()
        report = BatchReport(winners, at_winner[:, 0].numpy(force=True), errors.numpy(force=True))

        curvatures = self._curvatures(kept_net, differences) if settings.needs_factors else None
        summed = differences.sum(dim=0) if settings.steered and not settings.matching else None
        if not settings.matching:
            differences *= functions.slope(kept_net)
        gradient = _product(differences.T, inputs, settings.half).numpy(force=True)
        if settings.half:
            gradient[:, -1] = differences.sum(dim=0).numpy(force=True)
        if summed is not None:
            gradient[:, -1] = summed.numpy(force=True)
        if curvatures is None:  # the factors are not needed, so the large one stays on the device
            return BatchGradient(gradient, report)
        factors = (self._inputs[: len(winners)], differences.numpy(force=True), curvatures.numpy(force=True))
        return BatchGradient(gradient, report, Factors(*factors))

    def _curvatures(self, net: torch.Tensor, differences: torch.Tensor) -> torch.Tensor:
        """Return the second derivative of each sample's loss by each net input."""
        functions = in_torch(self.settings.activation)
        slopes = functions.slope(net)
        return slopes if self.settings.matching else slopes.square() + differences * functions.curvature(net)

    def largest_net(self, weights: Array, batch: Batch) -> Array:
        """Return the largest net input of each unit in a batch."""
        largest: Array = self._net(weights, batch)[1].amax(dim=0).numpy(force=True)
        return largest

    def net_quantile(self, weights: Array, batch: Batch, share: float) -> Array:
        """Return a quantile of each unit's net inputs in a batch."""
        return np.asarray(np.quantile(self._net(weights, batch)[1].numpy(force=True), share, axis=0))

    def _net(self, weights: Array, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        X, rows = batch
        if len(rows) > len(self._inputs):
            self._inputs = np.ones((len(rows), weights.shape[1]), weights.dtype)
        standardize(X, rows, self.settings.center, self.settings.scale, self._inputs[: len(rows)])
        inputs = to_device(self._inputs[: len(rows)], self._place)
        columns = to_device(weights, self._place).T
        if not self.settings.half:
            return inputs, inputs @ columns
        return inputs, _product(inputs[:, :-1], columns[:-1], half=True) + columns[-1]

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the buffer, which is created again."""
        return self.__dict__ | {"_inputs": np.empty((0, 0))}


def _product(A: torch.Tensor, B: torch.Tensor, half: bool) -> torch.Tensor:
    """Return the product in the type of the factors, computed in bfloat16 if ``half`` and the factors are float32."""
    return (A.bfloat16() @ B.bfloat16()).float() if half and A.dtype == torch.float32 else A @ B


def layer_on_device(
    device: str, layer: UnitLayer, dtype: np.dtype[np.floating], half: bool = False
) -> Callable[[Array], Array]:
    """Return the function that computes outputs of samples on a device."""
    place, functions = resolve_device(device), in_torch(layer.activation)
    columns, bias = (to_device(array.astype(dtype, copy=False), place) for array in (layer.weights, layer.intercept))

    def outputs(samples: Array) -> Array:
        inputs = np.empty(samples.shape, dtype)
        standardize(samples, np.arange(len(samples)), layer.mean, layer.scale, inputs)
        rows = to_device(inputs, place)
        net = _product(rows, columns.T, half).add_(bias) if half else torch.addmm(bias, rows, columns.T)
        found: Array = finite(functions.in_place(net), layer.activation).numpy(force=True)
        return found

    return outputs


def finite(outputs: torch.Tensor, activation: Activation) -> torch.Tensor:
    """Return outputs, after checking that they are finite."""
    if not torch.isfinite(torch.linalg.vector_norm(outputs)).item():
        raise not_finite(activation, str(outputs.dtype).removeprefix("torch."))
    return outputs
