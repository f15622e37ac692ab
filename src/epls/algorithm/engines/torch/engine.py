"""The layer of units in torch: what :class:`epls.algorithm.engines.numpy.NumpyGradient` computes, on any device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ....data.samples import Batch
from ....utils.threads import RowThreads
from ...activations import Activation
from ...target import Target
from ..numpy import BatchGradient, BatchReport, LayerGradient, gather_batch, not_finite
from .activations import in_torch
from .devices import resolve_device, to_device

Array = NDArray[np.floating]


class TorchGradient(LayerGradient):
    """Outputs and gradients on a device.

    Weights come from the trainer and gradients go back to it, as arrays: they are a few megabytes. Outputs come back
    for the auction. On the processor all of these are the same memory.

    Parameters
    ----------
    device : str
        A device of torch, "cuda" for example.
    center, scale, activation, loss, needs_curvature
        As for :class:`epls.algorithm.engines.numpy.NumpyGradient`. The activation must be one of the library's.
    """

    def __init__(
        self,
        device: str,
        center: Array,
        scale: float,
        activation: Activation,
        loss: str = "matching",
        needs_curvature: bool = False,
    ) -> None:
        self.device: str | None = device
        self._place = resolve_device(device)
        in_torch(activation)
        super().__init__(center, scale, activation, loss, needs_curvature)
        self._inputs: Array = np.empty((0, 0))

    def gradient(self, weights: Array, batch: Batch, target: Target, threads: RowThreads) -> BatchGradient:
        """Outputs, winners, and the derivative of the loss by the weights."""
        f, functions = self.activation, in_torch(self.activation)
        inputs, net = self._forward(weights, batch)
        kept_net = net.clone() if self.needs_curvature or not self.matching else None
        outputs = functions.in_place(net)
        winners = target.assign(finite(outputs, f).numpy(force=True))

        columns = to_device(winners, self._place)[:, None]
        at_winner = outputs.gather(1, columns)
        differences = outputs.sub_(f.inactive) if f.inactive != 0 else outputs
        differences.scatter_(1, columns, at_winner - f.active)
        errors = torch.linalg.vector_norm(differences, dim=1).square_()
        report = BatchReport(winners, at_winner[:, 0].numpy(force=True), errors.numpy(force=True))

        curvatures = None
        if kept_net is not None:
            slopes = functions.slope(kept_net)
            if self.needs_curvature:
                curvatures = (
                    slopes if self.matching else slopes.square() + differences * functions.curvature(kept_net)
                ).numpy(force=True)
            if not self.matching:
                differences *= slopes
        gradient = (differences.T @ inputs).numpy(force=True)
        if not self.needs_curvature:  # nobody looks at the factors, and the large one need not be brought back
            return BatchGradient(gradient, report)
        factors = (self._inputs[: len(winners)], differences.numpy(force=True))
        return BatchGradient(gradient, report, *factors, curvatures)

    def largest_net(self, weights: Array, batch: Batch) -> Array:
        """The largest net input of each unit in a batch."""
        largest: Array = self._forward(weights, batch)[1].amax(dim=0).numpy(force=True)
        return largest

    def net_quantile(self, weights: Array, batch: Batch, share: float) -> Array:
        """What a share of each unit's net inputs in a batch does not exceed."""
        return np.asarray(np.quantile(self._forward(weights, batch)[1].numpy(force=True), share, axis=0))

    def _forward(self, weights: Array, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        X, indices = batch
        if len(indices) > len(self._inputs):
            self._inputs = np.ones((len(indices), weights.shape[1]), weights.dtype)
        gather_batch(X, indices, self.center, self.scale, self._inputs[: len(indices)])
        inputs = to_device(self._inputs[: len(indices)], self._place)
        return inputs, inputs @ to_device(weights, self._place).T

    def __getstate__(self) -> dict[str, Any]:
        """Without the buffer, which is made anew."""
        return self.__dict__ | {"_inputs": np.empty((0, 0))}


def layer_on_device(device: str, weights: Array, intercept: Array, activation: Activation) -> Callable[[Array], Array]:
    """What makes outputs of centred and scaled samples."""
    place, functions = resolve_device(device), in_torch(activation)
    columns, bias = to_device(weights, place).T, to_device(intercept, place)

    def outputs(inputs: Array) -> Array:
        net = torch.addmm(bias, to_device(inputs, place), columns)
        found: Array = finite(functions.in_place(net), activation).numpy(force=True)
        return found

    return outputs


def finite(outputs: torch.Tensor, activation: Activation) -> torch.Tensor:
    """Outputs, if they are finite."""
    if not torch.isfinite(torch.linalg.vector_norm(outputs)).item():
        raise not_finite(activation)
    return outputs
