"""Parts that auctions share: the places of a unit, a heap of offers whose lowest is the unit's price, and the circular
queue of waiting rows."""

from numba import njit


@njit(cache=True)
def is_lower(offer, row, other_offer, other_row):
    return offer < other_offer or (offer == other_offer and row < other_row)


@njit(cache=True)
def replace_lowest(offers, rows, offer, row):
    """Replace the lowest offer by another."""
    i = 0
    while 2 * i + 1 < offers.size:
        child = 2 * i + 1
        if child + 1 < offers.size and is_lower(offers[child + 1], rows[child + 1], offers[child], rows[child]):
            child += 1
        if not is_lower(offers[child], rows[child], offer, row):
            break
        offers[i], rows[i] = offers[child], rows[child]
        i = child
    offers[i], rows[i] = offer, row


@njit(cache=True)
def around(position, size):
    """Wrap a position, less than twice the size of a circular queue; a division would take longer."""
    return position - size if position >= size else position
