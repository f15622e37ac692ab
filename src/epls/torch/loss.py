"""The ideal target as a loss for any network."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import nn

from ..algorithm.activations import resolve_activation
from ..algorithm.steering import bias_steps, half_active_net, steps_to_sparse, wanted_activity
from ..algorithm.target import AuctionTarget
from .engine import finite, in_torch, to_device

_MANY_WOKEN = 1 / 4  # fraction of the units; after long training, there are few or none


class EPLSLoss(nn.Module):
    """Enforce population and lifetime sparsity on the outputs of any network.

    The network computes net inputs, before the activation. For each mini-batch, this loss finds the nearest outputs in
    which one unit is active for each sample and all units are active equally often, and returns the loss between the
    outputs and this target that matches f: for the logistic function, the cross-entropy. If the network computes
    feature maps, every position is a sample.

    The outputs are f(net + bias), with biases that belong to this loss. They are not learned but steered: the mean
    output of every unit moves from one half to 1 / ``n_components`` over the first quarter of training
    (:mod:`epls.algorithm.steering` explains why). **Before that, outputs are dense.**

    In training mode, each call is a step: it counts the wins and moves the biases. After ``eval()``, it does neither.
    ``state_dict`` holds the wins, the biases and the number of steps, so training can resume from it exactly.

    Parameters
    ----------
    n_components : int
        The number of units: the number of outputs or channels of the network.
    activation : {"logistic", "tanh", "relu", "softplus", "identity"}, default="logistic"
        The function f.
    n_steps : int or None, default=None
        The planned number of mini-batches. Outputs become sparse over the first quarter of them, or over the first 1000
        if it is None.

    Attributes
    ----------
    bias : Tensor of shape (n_components,)
        The biases.
    counts : Tensor of int of shape (n_components,)
        The wins of each unit. They differ by at most one.
    n_steps_done : Tensor of int
        The number of completed steps.
    winners : Tensor of int of shape (N,) or (N, ...), or None
        The winning unit of each sample or position in the last call.

    Examples
    --------
    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(torch.nn.Linear(6, 20), torch.nn.Tanh(), torch.nn.Linear(20, 8))
    >>> loss = EPLSLoss(8, n_steps=200)
    >>> optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    >>> for _ in range(200):
    ...     optimizer.zero_grad()
    ...     loss(network(torch.randn(64, 6))).backward()
    ...     optimizer.step()
    >>> loss.counts.tolist()
    [1600, 1600, 1600, 1600, 1600, 1600, 1600, 1600]
    >>> loss.activate(network(torch.randn(5, 6))).shape
    torch.Size([5, 8])
    """

    bias: torch.Tensor
    counts: torch.Tensor
    n_steps_done: torch.Tensor

    def __init__(self, n_components: int, *, activation: str = "logistic", n_steps: int | None = None) -> None:
        super().__init__()
        counts: dict[str, Any] = {"n_components": n_components, "n_steps": 1 if n_steps is None else n_steps}
        for name, value in counts.items():
            if not (isinstance(value, Integral) and int(value) >= 1):
                raise ValueError(f"{name}={value!r}: give a whole number of at least 1")
        self.n_components = n_components
        self.activation = resolve_activation(activation)
        if not self.activation.increasing:
            raise ValueError(f"activation={activation!r} is not increasing, so no loss matches it: give another one")
        self.n_steps = n_steps
        self.winners: torch.Tensor | None = None
        self._module = in_torch(self.activation).module()
        self.register_buffer("bias", torch.zeros(n_components))
        self.register_buffer("counts", torch.zeros(n_components, dtype=torch.int64))
        self.register_buffer("n_steps_done", torch.zeros((), dtype=torch.int64))

    def activate(self, net: torch.Tensor) -> torch.Tensor:
        """Return the outputs f(net + bias).

        After ``eval()``, a warning is issued if they are still dense, because training was shorter than planned or
        ``n_steps`` was not given.

        Parameters
        ----------
        net : Tensor of shape (N, n_components) or (N, n_components, ...)
            The outputs of the network.

        Returns
        -------
        Tensor of the same shape
            The outputs.
        """
        self._check(net)
        if not self.training:
            self._warn_if_dense()
        return self._module(net + self.bias.to(net.dtype).view(-1, *[1] * (net.ndim - 2)))

    def forward(self, net: torch.Tensor) -> torch.Tensor:
        """Return the loss of net inputs (shapes as for :meth:`activate`): the mean over samples of sums over units."""
        samples = self._samples(net)
        samples = samples + self.bias.to(torch.promote_types(samples.dtype, torch.float32))
        with torch.no_grad():
            value, gradient, winners = self._evaluate(samples.detach())
        self.winners = winners.view(net.shape[0], *net.shape[2:])
        return _KnownGradient.apply(samples, value, gradient)

    @torch.no_grad()
    def wake(self, nets: Iterable[torch.Tensor]) -> None:
        """Raise the biases of units that are active for no sample, until they are half active for one.

        A unit is active for a sample if its output is at least half way from inactive to active. Call this once, after
        training, as :class:`epls.EPLS` does. After short training there are many such units, because outputs are not
        near the target yet, and raising them destroys the sparsity: if they are more than a quarter of the units, a
        warning is issued.

        Parameters
        ----------
        nets : iterable of Tensor of shape (N, n_components) or (N, n_components, ...)
            The outputs of the network for all samples, batch by batch: ``loss.wake(network(batch) for batch in
            batches)``.
        """
        largest = [self._samples(net).amax(dim=0).to(self.bias.dtype) for net in nets]
        if not largest:
            raise ValueError("wake needs the net inputs of at least one batch, got none")
        self._warn_if_dense()
        asleep = half_active_net(self.activation) - (torch.stack(largest).amax(dim=0) + self.bias)
        self.bias += asleep.clamp(min=0)
        n_woken = int((asleep > 0).sum())
        if n_woken > _MANY_WOKEN * self.n_components:
            warnings.warn(
                f"wake raised the biases of {n_woken} of {self.n_components} units, those that were active (at least "
                f"half way to the active value) for no sample: outputs are now less sparse than the target. This many "
                f"suggest that {int(self.n_steps_done)} steps of training were too few: train longer before wake",
                stacklevel=3,  # the caller, outside torch's decorator
            )

    def _warn_if_dense(self) -> None:
        """Warn that outputs are not sparse yet."""
        n_done, n_needed = int(self.n_steps_done), steps_to_sparse(self.n_steps)
        if 0 < n_done < n_needed and self.n_components > 2:
            wanted = wanted_activity(self.n_components, n_done, self.n_steps)
            warnings.warn(
                f"outputs are still dense: the mean of a unit goes from 1/2 to 1/{self.n_components} over the first "
                f"{n_needed} steps (n_steps={self.n_steps}), and after {n_done} it is about {wanted:.2f} of the way "
                f"from inactive to active: train longer, or give n_steps, the planned number of steps",
                stacklevel=3,
            )

    def _samples(self, net: torch.Tensor) -> torch.Tensor:
        """Return net inputs as (n_samples, n_components)."""
        self._check(net)
        return net.movedim(1, -1).reshape(-1, self.n_components)

    def _evaluate(self, net: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the loss of net inputs (N, n_components), its derivative, and winners. In training mode, do a step."""
        f, functions = self.activation, in_torch(self.activation)
        assert functions.primitive is not None  # it is increasing
        outputs = finite(functions.in_place(net.clone()), f)
        target = AuctionTarget(self.n_components)
        target.counts[:] = self.counts.numpy(force=True)
        assigned = target.assign(outputs.numpy(force=True))
        winners = to_device(assigned, net.device)
        ideal = torch.full_like(net, f.inactive).scatter_(1, winners[:, None], f.active)
        differences = outputs - ideal
        wanted = wanted_activity(self.n_components, int(self.n_steps_done), self.n_steps)
        if self.training:
            wins = np.bincount(assigned, minlength=self.n_components)
            steps = bias_steps(f, differences.mean(dim=0).numpy(force=True), wins, wanted)
            self.bias += torch.from_numpy(steps).to(self.bias.dtype).to(self.bias.device)
            self.counts.copy_(torch.from_numpy(target.counts))
            self.n_steps_done += 1
        # The mean target is wanted_activity, so the network only has to learn which samples excite a unit. Otherwise
        # all weights would first be driven to lower all outputs, against the steering. That is harmless only if the
        # inputs of the last layer are 0 on average, as those of EPLS are.
        shift = (wanted - 1 / self.n_components) * (f.active - f.inactive)
        value = (functions.primitive(net) - (ideal + shift) * net).sum()
        return value / len(net), (differences - shift) / len(net), winners

    def _check(self, net: torch.Tensor) -> None:
        if not isinstance(net, torch.Tensor) or not net.is_floating_point():
            kind = net.dtype if isinstance(net, torch.Tensor) else type(net).__name__
            raise TypeError(f"EPLSLoss needs net inputs as a tensor of floating-point numbers, got {kind}")
        if net.ndim < 2 or net.shape[1] != self.n_components or net.numel() == 0:
            raise ValueError(
                f"EPLSLoss({self.n_components}) got net inputs of shape {tuple(net.shape)}, but needs (N, "
                f"{self.n_components}), or (N, {self.n_components}, ...) for feature maps, with at least one sample: "
                f"give n_components as the number of outputs or channels of the network's last layer"
            )
        if net.device != self.bias.device:
            raise ValueError(
                f"net inputs are on {net.device}, but EPLSLoss is on {self.bias.device}: move it, as in "
                f"criterion.to({net.device.type!r})"
            )

    def extra_repr(self) -> str:
        """Return the settings to show in the representation."""
        return f"{self.n_components}, activation={self.activation.name!r}, n_steps={self.n_steps}"


class _KnownGradient(torch.autograd.Function):
    """A function of net inputs whose derivative was computed along with its value."""

    @staticmethod
    def forward(ctx: Any, net: torch.Tensor, value: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return grad_output * gradient, None, None
