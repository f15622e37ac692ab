"""Training and encoding on several machines, with dask.distributed.

Data are cut into shards of equal size. In every step, each shard provides a batch, its own balanced target and the
gradient. The shards add up the gradients along a tree, and the sum moves the weights, which the calling process holds.
Workers keep no state: each step sends the weights, the shard's counts of wins and the position in the data. So a worker
may die at any moment: others repeat the step with the same result, and every sample counts once.

docs/scale.md explains the choice of dask, and reports measurements.
"""

from ..data.parts import lazy_transform as transform
from .cluster import connect
from .fitting import fit

__all__ = ["connect", "fit", "transform"]
