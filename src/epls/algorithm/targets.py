"""All targets, by their names in ``EPLS(target=...)``."""

from __future__ import annotations

from .epoch_target import EpochTarget
from .target import AuctionTarget, ExactTarget, LargestTarget, LiteralTarget, Target

TARGETS: dict[str, type[Target]] = {
    "auction": AuctionTarget,
    "epoch": EpochTarget,
    "exact": ExactTarget,
    "literal": LiteralTarget,
    "largest": LargestTarget,
}
