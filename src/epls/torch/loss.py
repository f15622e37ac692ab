"""The ideal target as a criterion for any network."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import torch
from torch import nn

from ..algorithm.activations import resolve_activation
from ..algorithm.engines.torch.activations import in_torch
from ..algorithm.engines.torch.devices import to_device
from ..algorithm.engines.torch.engine import finite
from ..algorithm.steering import bias_steps, half_active_net, wanted_activity
from ..algorithm.target import TARGETS, BalancedTarget

_BALANCED: dict[str, type[BalancedTarget]] = {
    n: kind for n, kind in TARGETS.items() if issubclass(kind, BalancedTarget)
}


class EPLSLoss(nn.Module):
    """Enforces population and lifetime sparsity on the outputs of a network, whatever is in it.

    The network gives net inputs, before the activation. For each mini-batch the criterion finds the nearest outputs in
    which one unit is active for each sample and all units are active equally often, and returns the loss between the
    two; the optimiser is yours. Where the network gives feature maps, every position is a sample.

    The outputs are f(net + bias) with biases that belong to the criterion: they are not learned but steered, so that
    the mean output of every unit goes from one half to 1 / ``n_components`` over the first quarter of the training
    (:mod:`epls.algorithm.training` tells why). As long as that lasts, the target of every unit is raised by as much as
    its mean output is to be above its share: the network is not asked to lower all outputs, which is what the biases
    are for. The network's last layer may have biases of its own, but needs none.

    In training mode each call is a step: it counts the wins and moves the biases. After ``eval()`` it does neither.
    ``state_dict`` holds wins, biases and the number of steps, so that a training goes on from it exactly.

    Parameters
    ----------
    n_components : int
        The number of units: the network's outputs or channels.
    activation : {"logistic", "tanh", "relu", "softplus", "identity", "absolute"}, default="logistic"
        The function f. With "absolute" the loss is the squared error and biases stay 0, else the loss is the one that
        matches f: for the logistic function, the cross-entropy.
    target : {"auction", "exact"}, default="auction"
        How the winning units are found: see :mod:`epls.algorithm.target`.
    n_steps : int or None, default=None
        How many mini-batches there will be; None if nobody knows, and outputs become sparse over the first 1000.

    Attributes
    ----------
    bias : Tensor of shape (n_components,)
        The biases.
    counts : Tensor of int of shape (n_components,)
        The wins of each unit; no two differ by more than one.
    n_steps_done : Tensor of int
        The number of steps.
    winners : Tensor of int of shape (N,) or (N, ...), or None
        The winning unit of each sample, or position, of the last call.

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

    def __init__(
        self, n_components: int, *, activation: str = "logistic", target: str = "auction", n_steps: int | None = None
    ) -> None:
        super().__init__()
        counts: dict[str, Any] = {"n_components": n_components} | ({} if n_steps is None else {"n_steps": n_steps})
        for name, value in counts.items():
            if not (isinstance(value, Integral) and int(value) >= 1):
                raise ValueError(f"{name}={value!r}: give a whole number of at least 1")
        if target not in _BALANCED:
            raise ValueError(
                f"target={target!r}: give one of {sorted(_BALANCED)}, which need not know how many samples will come"
            )
        self.n_components = n_components
        self.activation = resolve_activation(activation)
        self.target = target
        self.n_steps = n_steps
        self.winners: torch.Tensor | None = None
        self._module = in_torch(self.activation).module()
        self.register_buffer("bias", torch.zeros(n_components))
        self.register_buffer("counts", torch.zeros(n_components, dtype=torch.int64))
        self.register_buffer("n_steps_done", torch.zeros((), dtype=torch.int64))

    def activate(self, net: torch.Tensor) -> torch.Tensor:
        """The outputs f(net + bias).

        Parameters
        ----------
        net : Tensor of shape (N, n_components) or (N, n_components, ...)
            What the network gives.

        Returns
        -------
        Tensor of the same shape
            The outputs.
        """
        self._check(net)
        outputs: torch.Tensor = self._module(net + self.bias.to(net.dtype).view(-1, *[1] * (net.ndim - 2)))
        return outputs

    def forward(self, net: torch.Tensor) -> torch.Tensor:
        """The loss of a mini-batch, the mean over its samples of the sum over units.

        Parameters
        ----------
        net : Tensor of shape (N, n_components) or (N, n_components, ...)
            What the network gives.

        Returns
        -------
        Tensor
            A number to call ``backward`` on.
        """
        samples = self._samples(net)
        samples = samples + self.bias.to(torch.promote_types(samples.dtype, torch.float32))
        with torch.no_grad():
            value, gradient = self._evaluate(samples.detach())
        assert self.winners is not None
        self.winners = self.winners.view(net.shape[0], *net.shape[2:])
        loss: torch.Tensor = _KnownGradient.apply(samples, value, gradient)
        return loss

    @torch.no_grad()
    def wake(self, nets: Iterable[torch.Tensor]) -> None:
        """Raise the biases of the units that are active for no sample, until they are half active for one.

        To be called after training, as :class:`epls.EPLS` does. Where a tight cluster of samples is worth many shares,
        its units divide it between them, and each of them has a low output for all of it.

        Parameters
        ----------
        nets : iterable of Tensor of shape (N, n_components) or (N, n_components, ...)
            What the network gives for all samples, batch by batch: ``loss.wake(network(batch) for batch in batches)``.
        """
        largest = [self._samples(net).amax(dim=0).to(self.bias.dtype) for net in nets]
        if not largest:
            raise ValueError("wake needs the net inputs of at least one batch, got none")
        if self.activation.increasing:
            asleep = half_active_net(self.activation) - (torch.stack(largest).amax(dim=0) + self.bias)
            self.bias += asleep.clamp(min=0)

    def _samples(self, net: torch.Tensor) -> torch.Tensor:
        """Net inputs as (n_samples, n_components)."""
        self._check(net)
        return net.movedim(1, -1).reshape(-1, self.n_components)

    def _evaluate(self, net: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of net inputs (N, n_components), and its derivative by them; a step if in training mode."""
        f, functions = self.activation, in_torch(self.activation)
        outputs = finite(functions.in_place(net.clone()), f)
        target = _BALANCED[self.target](self.n_components)
        target.counts[:] = self.counts.numpy(force=True)
        winners = target.assign(outputs.numpy(force=True))
        self.winners = to_device(winners, net.device)

        ideal = torch.full_like(net, f.inactive).scatter_(1, self.winners[:, None], f.active)
        differences = outputs - ideal
        if functions.primitive is None:
            value, gradient = differences.square().sum() / 2, differences * functions.slope(net)
        else:
            wanted = wanted_activity(self.n_components, int(self.n_steps_done), self.n_steps)
            if self.training:
                steps = bias_steps(f, differences.mean(dim=0).numpy(force=True), winners, wanted)
                self.bias += torch.from_numpy(steps).to(self.bias.dtype).to(self.bias.device)
            # On average the target is wanted_activity: what is left for the network is which samples excite a unit.
            # Without it, all weights would first be driven to lower all outputs, against the steering: harmless only
            # where the last layer's inputs are 0 on average, as those of EPLS are.
            shift = (wanted - 1 / self.n_components) * (f.active - f.inactive)
            value = (functions.primitive(net) - (ideal + shift) * net).sum()
            gradient = differences - shift
        if self.training:
            self.counts.copy_(torch.from_numpy(target.counts))
            self.n_steps_done += 1
        return value / len(net), gradient / len(net)

    def _check(self, net: torch.Tensor) -> None:
        if not isinstance(net, torch.Tensor) or not net.is_floating_point():
            kind = net.dtype if isinstance(net, torch.Tensor) else type(net).__name__
            raise TypeError(f"EPLSLoss needs net inputs as a tensor of floating-point numbers, got {kind}")
        if net.ndim < 2 or net.shape[1] != self.n_components or net.numel() == 0:
            raise ValueError(
                f"EPLSLoss({self.n_components}) got net inputs of shape {tuple(net.shape)}; needed is (N, "
                f"{self.n_components}), or (N, {self.n_components}, ...) for feature maps, with at least one sample: "
                f"give n_components as the number of outputs or channels of the network's last layer"
            )
        if net.device != self.bias.device:
            raise ValueError(
                f"net inputs are on {net.device}, and EPLSLoss on {self.bias.device}: bring them together, as in "
                f"criterion.to({net.device.type!r})"
            )

    def extra_repr(self) -> str:
        """What is shown of it."""
        settings = {"activation": self.activation.name, "target": self.target, "n_steps": self.n_steps}
        return ", ".join([str(self.n_components), *(f"{name}={value!r}" for name, value in settings.items())])


class _KnownGradient(torch.autograd.Function):
    """A value of net inputs whose derivative was computed along with it."""

    @staticmethod
    def forward(ctx: Any, net: torch.Tensor, value: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return grad_output * gradient, None, None
