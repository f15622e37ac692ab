"""The places of a unit in an auction: a heap of offers with the lowest first, which is the unit's price."""

from numba import njit


@njit(cache=True)
def is_lower(offer, row, other_offer, other_row):
    return offer < other_offer or (offer == other_offer and row < other_row)


@njit(cache=True)
def replace_lowest(offers, rows, offer, row):
    """Put an offer in the place of the lowest."""
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
