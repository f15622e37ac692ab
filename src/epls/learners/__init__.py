"""What learns bases from vectors."""

from .epls import EPLS

# By the names that the command line takes.
LEARNERS = {"epls": EPLS}

__all__ = ["EPLS", "LEARNERS"]
