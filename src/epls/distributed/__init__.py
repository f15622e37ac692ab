"""Training and encoding on several machines, with dask.distributed.

Data are cut in shards of equal size. In every step a shard gives a batch, its own balanced target and the gradient;
the gradients are added up and move the weights, which one process holds. Workers keep nothing that matters: each call
brings the weights, the shard's counts of wins and the place in the data. So a worker may die at any moment: what it was
doing is done again by another, with the same result, and every sample counts once.

docs/scale.md tells why dask and not another engine, and what was measured.
"""

from ..data.parts import lazy_transform as transform
from .cluster import connect
from .fitting import fit

__all__ = ["connect", "fit", "transform"]
