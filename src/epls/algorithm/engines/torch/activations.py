"""The library's activations in torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from ...activations import Activation

Function = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class TorchActivation:
    """The torch counterpart of :class:`epls.algorithm.activations.Activation`.

    Attributes
    ----------
    module : callable
        Creates f as a module.
    in_place : callable
        Replaces net inputs by outputs, and returns them.
    slope, curvature : callable
        f' and f''.
    primitive : callable or None
        A function whose slope is f: the matching loss of net inputs z is ``primitive(z) - target * z``. None if f is
        not increasing.
    """

    module: Callable[[], nn.Module]
    in_place: Function
    slope: Function
    curvature: Function
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
