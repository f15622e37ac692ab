"""All targets, by the name that ``EPLS(target=...)`` has for them."""

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
