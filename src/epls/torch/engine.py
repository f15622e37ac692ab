"""Training and ``transform`` on any device: devices, activations and :class:`TorchEngine`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ..algorithm.activations import Activation
from ..algorithm.engine import BatchGradient, BatchReport, Engine, Objective
from ..algorithm.layer import UnitLayer, not_finite, standardize
from ..algorithm.optimizers import Factors
from ..data.shuffling import Batch
from ..utils.types import Array

_COMMON = ("cpu", "cuda", "mps", "xpu")
_WITHOUT_FLOAT64 = {"mps"}


def resolve_device(name: str) -> torch.device:
    """Return the device with this name, if it can be used."""
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]
        raise ValueError(
            f"device={name!r} cannot be used here ({reason}): give one of {[d for d in _COMMON if _usable(d)]}, or "
            f"None to compute with NumPy, as in set_params(device=None)"
        ) from error
    return device


def to_device(array: np.ndarray[Any, Any], device: torch.device) -> torch.Tensor:
    """Return an array as a tensor, which shares its memory on the processor."""
    if array.dtype == np.float64 and device.type in _WITHOUT_FLOAT64:
        raise ValueError(
            f"device={device.type!r} does not support float64: give float32, as in X.astype('float32'), or another "
            f"device"
        )
    # torch warns about read-only memory, such as that of a memory map.
    return torch.from_numpy(array if array.flags.writeable else array.copy()).to(device)


def _usable(name: str) -> bool:
    try:
        torch.ones(1, device=name).item()
    except (RuntimeError, AssertionError, NotImplementedError):
        return False
    return True


Function = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class TorchActivation:
    """The torch counterpart of :class:`epls.algorithm.activations.Activation`."""

    module: Callable[[], nn.Module]
    in_place: Function  # replaces net inputs by outputs, and returns them
    slope: Function
    curvature: Function
    #: A function whose slope is f: the matching loss of net inputs z is ``primitive(z) - target * z``. None if f is not
    #: increasing.
    primitive: Function | None


class _Absolute(nn.Module):
    def forward(self, net: torch.Tensor) -> torch.Tensor:
        return net.abs()


def _logistic_slope(z: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(z) * torch.sigmoid(-z)


def _logistic_curvature(z: torch.Tensor) -> torch.Tensor:
    return _logistic_slope(z) * (1 - 2 * torch.sigmoid(z))


def _tanh_curvature(z: torch.Tensor) -> torch.Tensor:
    h = torch.tanh(z)
    return -2 * h * (1 - h * h)


def _softplus(z: torch.Tensor) -> torch.Tensor:
    return torch.logaddexp(z, z.new_zeros(()))


def _log_cosh(z: torch.Tensor) -> torch.Tensor:
    return z.abs() + _softplus(-2 * z.abs()) - math.log(2)


def _softplus_primitive(z: torch.Tensor) -> torch.Tensor:
    """Return -Li2(-exp(z)) by the dilogarithm's series in softplus(z), at most log 2 for z <= 0, and its reflection."""
    u = _softplus(-z.abs())
    below = u + u**2 / 4 + u**3 / 36 - u**5 / 3600 + u**7 / 211680 - u**9 / 10886400
    return torch.where(z > 0, z * z / 2 + math.pi**2 / 6 - below, below)


_IN_TORCH = {
    "logistic": TorchActivation(nn.Sigmoid, torch.Tensor.sigmoid_, _logistic_slope, _logistic_curvature, _softplus),
    "tanh": TorchActivation(nn.Tanh, torch.Tensor.tanh_, lambda z: 1 - torch.tanh(z) ** 2, _tanh_curvature, _log_cosh),
    "relu": TorchActivation(
        nn.ReLU, torch.Tensor.relu_, lambda z: (z > 0).to(z.dtype), torch.zeros_like, lambda z: z.clamp(min=0) ** 2 / 2
    ),
    # Beyond its threshold, nn.Softplus is linear: by default 20, where the difference is visible in double precision.
    "softplus": TorchActivation(
        lambda: nn.Softplus(threshold=40),
        lambda z: z.copy_(_softplus(z)),
        torch.sigmoid,
        _logistic_slope,
        _softplus_primitive,
    ),
    "identity": TorchActivation(nn.Identity, lambda z: z, torch.ones_like, torch.zeros_like, lambda z: z * z / 2),
    "absolute": TorchActivation(_Absolute, torch.Tensor.abs_, torch.sign, torch.zeros_like, None),
}


def in_torch(activation: Activation) -> TorchActivation:
    """Return the torch version of an activation."""
    if not activation.is_built_in:
        raise ValueError(
            f"the activation {activation.name!r} is defined by NumPy functions, but torch supports only "
            f"{sorted(_IN_TORCH)}: use one of these, or compute with NumPy (device=None)"
        )
    return _IN_TORCH[activation.name]


class TorchEngine(Engine):
    """Outputs and gradients on a device.

    Weights come from training and gradients return to it as arrays of a few megabytes. Outputs return for the auction.
    On the processor, all of these share memory.
    """

    def __init__(self, objective: Objective, n_components: int, device: str) -> None:
        super().__init__(objective, n_components)
        self.device = device
        self._place = resolve_device(device)
        in_torch(objective.activation)  # only the library's own are supported
        self._inputs: Array = np.empty((0, 0))

    def gradient(self, weights: Array, batch: Batch) -> BatchGradient:
        objective, f = self.objective, self.objective.activation
        functions = in_torch(f)
        inputs, net = self._net(weights, batch)
        kept_net = net.clone() if objective.needs_factors or not objective.matching else net
        outputs = functions.in_place(net)
        winners = self.target.assign(finite(outputs, f).numpy(force=True))

        columns = to_device(winners, self._place)[:, None]
        at_winner = outputs.gather(1, columns)
        differences = outputs.sub_(f.inactive) if f.inactive != 0 else outputs
        differences.scatter_(1, columns, at_winner - f.active)
        errors = torch.linalg.vector_norm(differences, dim=1).square_()
        of_rows = at_winner[:, 0].numpy(force=True), errors.numpy(force=True)
        report = BatchReport.of(winners, *of_rows, f, len(weights))

        # By each net input, of each sample's loss.
        curvatures = functions.slope(kept_net) if objective.needs_factors else None
        if curvatures is not None and not objective.matching:
            curvatures = curvatures.square() + differences * functions.curvature(kept_net)
        summed = differences.sum(dim=0) if objective.steered and not objective.matching else None
        if not objective.matching:
            differences *= functions.slope(kept_net)
        gradient = (differences.T @ inputs).numpy(force=True)
        if summed is not None:
            gradient[:, -1] = summed.numpy(force=True)
        if curvatures is None:  # the factors are not needed, so the large one stays on the device
            return BatchGradient(gradient, report)
        factors = (self._inputs[: len(winners)], differences.numpy(force=True), curvatures.numpy(force=True))
        return BatchGradient(gradient, report, Factors(*factors))

    def largest_net(self, weights: Array, batch: Batch) -> Array:
        return self._net(weights, batch)[1].amax(dim=0).numpy(force=True)

    def net_quantile(self, weights: Array, batch: Batch, share: float) -> Array:
        return np.asarray(np.quantile(self._net(weights, batch)[1].numpy(force=True), share, axis=0))

    def _net(self, weights: Array, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        X, rows = batch
        if len(rows) > len(self._inputs):
            self._inputs = np.ones((len(rows), weights.shape[1]), weights.dtype)
        standardize(X, rows, self.objective.center, self.objective.scale, self._inputs[: len(rows)])
        inputs = to_device(self._inputs[: len(rows)], self._place)
        return inputs, inputs @ to_device(weights, self._place).T

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the buffer, which is created again."""
        return self.__dict__ | {"_inputs": np.empty((0, 0))}


def layer_on_device(device: str, layer: UnitLayer, dtype: np.dtype[np.floating]) -> Callable[[Array], Array]:
    """Return the function that computes outputs of samples on a device."""
    place, functions = resolve_device(device), in_torch(layer.activation)
    columns, bias = (to_device(array.astype(dtype, copy=False), place) for array in (layer.weights, layer.intercept))

    def outputs(samples: Array) -> Array:
        inputs = np.empty(samples.shape, dtype)
        standardize(samples, np.arange(len(samples)), layer.mean, layer.scale, inputs)
        net = torch.addmm(bias, to_device(inputs, place), columns.T)
        return finite(functions.in_place(net), layer.activation).numpy(force=True)

    return outputs


def finite(outputs: torch.Tensor, activation: Activation) -> torch.Tensor:
    """Return outputs, after checking that they are finite."""
    if not torch.isfinite(torch.linalg.vector_norm(outputs)).item():
        raise not_finite(activation, str(outputs.dtype).removeprefix("torch."))
    return outputs
