"""A training that stops in the middle, for tests of how it goes on."""

from epls import Checkpoint


class StopError(Exception):
    pass


class StopAfter(Checkpoint):
    """Writes after every batch, and fails after so many."""

    def __init__(self, folder, n_batches):
        super().__init__(folder, seconds=0)
        self.left = n_batches

    def save_when_due(self, run, training):
        super().save_when_due(run, training)
        self.left -= 1
        if self.left == 0:
            raise StopError
