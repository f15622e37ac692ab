import errno
import os

import pytest


@pytest.fixture
def full_disk(monkeypatch):
    """No file can be brought to the disk."""

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
