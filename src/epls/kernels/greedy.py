"""The paper's Algorithm 1, exactly as printed."""

from numba import njit

from .scan import index_of_net, largest_net


@njit(cache=True, nogil=True)
def literal_rule(outputs, inhibitor, step, winners):
    """Write each row's winner to ``winners`` and raise the winner's ``inhibitor`` by ``step``, row after row."""
    for n in range(outputs.shape[0]):
        k = index_of_net(outputs[n], inhibitor, largest_net(outputs[n], inhibitor))
        winners[n] = k
        inhibitor[k] += step
