"""Optimisers: how a batch moves the weights. The method does not depend on which."""

from ._protocol import Optimizer
from .adam import Adam
from .vsgd import VSGD

OPTIMIZERS: dict[str, type[Adam] | type[VSGD]] = {"adam": Adam, "vsgd": VSGD}

__all__ = ["OPTIMIZERS", "VSGD", "Adam", "Optimizer"]
