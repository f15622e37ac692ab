"""Many small lasso problems with one dictionary: min over s of 1/2 |x - D's|^2 + alpha |s|_1, for components D of unit
norm.

A problem is given by its products D x, the dictionary by its Gram matrix D D'. With the slopes g = D (x - D's), a code
is optimal if g_j = alpha sign(s_j) where s_j is not 0, and |g_j| <= alpha where it is 0. The distance of component j
from this condition is its *violation*.

Three facts make it fast. First, a code uses about forty of a thousand or more components. It is solved on a *working
set*, whose Gram matrix fits in the first-level cache; then the slopes of all components show which ones are missing.
Three rounds are enough. Second, changing only the component with the largest violation (*greedy* coordinate descent)
needs a tenth as many changes as cyclic descent, and finding it costs little, because the pass that updates the slopes
does it. Third, once the right components are in use, a linear system remains, which *conjugate gradients* solve with a
few products.

No pass reorders its arithmetic, so codes have the same bits however this was compiled.
"""

import numpy as np

from . import kernel
from .intrinsics import larger, tag_of, tagged

# A maximum is the same in any order, and there are no NaNs: it may become a SIMD reduction. Sums are not reordered.
_maximum = kernel(fastmath={"nnan", "nsz"})

# Measured on patches of photographs with 1600 components. Each changes the time by only a few percent.
_COARSE = 0.2  # of alpha: the greedy descent over all components ends at this violation
_MOST_GREEDY_STEPS = 256  # of that descent; a code with very many components is found on working sets
_GREEDY_STEPS = 40  # on a working set, before conjugate gradients are tried
_FORGIVEN = 0.03  # of the worst violation outside: the accuracy of a working set, unless it is the last
_JOINS = 0.1  # of the worst violation: components that violate more join the working set
_FEWEST_JOINING = 64  # that may join at once, or as many as the set has. The worst join first, as far as halving the
_HALVINGS = 6  # distance to the worst six times can separate them
_LANES = 32  # the working set's arrays are padded with zeros to a multiple of this, for SIMD loops
_SCAN = 100  # components in a group that is searched only if its largest joins

# Only a problem at the limit of its precision could reach this number.
_MOST_ROUNDS = 100
_MOST_TRIES = 1000


@_maximum
def _violation(slopes, codes, lower, upper):
    """Return the largest violation. ``codes * huge`` moves the slope of a used component to its end of the interval."""
    huge = slopes.dtype.type(1e30)
    worst = slopes.dtype.type(0)
    for j in range(slopes.size):
        nearest = -larger(-larger(slopes[j] + huge * codes[j], lower), -upper)
        worst = larger(abs(slopes[j] - nearest), worst)
    return worst


@_maximum
def _moved(slopes, codes, row, change, lower, upper, keep):
    """Subtract ``change * row`` from the slopes; return the largest violation, with its component in the last bits."""
    huge = slopes.dtype.type(1e30)
    worst = slopes.dtype.type(0)
    for j in range(slopes.size):
        slope = slopes[j] - change * row[j]
        slopes[j] = slope
        nearest = -larger(-larger(slope + huge * codes[j], lower), -upper)
        worst = larger(tagged(abs(slope - nearest), j, keep), worst)
    return worst


@kernel
def _greedy(slopes, codes, gram, lower, upper, enough, most_steps, keep):
    """Repeatedly set the component with the largest violation to its best value; return whether all are small."""
    change, row = slopes.dtype.type(0), gram[0, : slopes.size]
    for _ in range(most_steps):
        worst = _moved(slopes, codes, row, change, lower, upper, keep)
        if worst <= enough:
            return True
        j = tag_of(worst, keep)
        free = slopes[j] + codes[j]
        best = free - min(max(free, lower), upper)
        change, row = best - codes[j], gram[j, : slopes.size]
        codes[j] = best
    for j in range(slopes.size):
        slopes[j] -= change * row[j]
    return False


@kernel
def _add(total, factor, row):
    for j in range(total.size):
        total[j] += factor * row[j]


@kernel
def _dot(a, b, lanes):
    lanes[:] = 0
    for start in range(0, a.size, _LANES):
        for lane in range(_LANES):
            lanes[lane] += a[start + lane] * b[start + lane]
    total = a.dtype.type(0)
    for lane in range(_LANES):
        total += lanes[lane]
    return total


@_maximum
def largest_size(values):
    result = values.dtype.type(0)
    for j in range(values.size):
        result = larger(abs(values[j]), result)
    return result


@_maximum
def _fastest_shrinking(codes, direction, in_use):
    """Return the largest ``-direction / code`` of those in use: 1 / the step at which the first of them becomes 0."""
    one = codes.dtype.type(1)
    result = codes.dtype.type(0)
    for j in range(codes.size):
        result = larger(-direction[j] / (codes[j] + (one - in_use[j])), result)
    return result


@kernel
def _step(codes, slopes, residual, direction, product, in_use, size):
    for j in range(codes.size):
        codes[j] += size * direction[j]
        slopes[j] -= size * product[j]
        residual[j] = (residual[j] - size * product[j]) * in_use[j]


@kernel
def _turn(direction, residual, share):
    for j in range(direction.size):
        direction[j] = residual[j] + share * direction[j]


@kernel
def _keep_signs(slopes, codes, gram, upper, enough, room, lanes):
    """Run conjugate gradients on the components in use; stop where the first would change its sign."""
    zero, one = codes.dtype.type(0), codes.dtype.type(1)
    n_working = codes.size
    residual, direction, product, in_use = (
        room[0, :n_working],
        room[1, :n_working],
        room[2, :n_working],
        room[3, :n_working],
    )
    for j in range(n_working):
        in_use[j] = zero if codes[j] == 0 else one
        residual[j] = zero if codes[j] == 0 else slopes[j] - (upper if codes[j] > 0 else -upper)
        direction[j] = residual[j]
    square = _dot(residual, residual, lanes)
    for _ in range(2 * n_working):
        if largest_size(residual) <= enough:
            return
        product[:] = zero
        for j in range(n_working):
            if direction[j] != 0:
                _add(product, direction[j], gram[j, :n_working])
        curvature = _dot(direction, product, lanes)
        shrinking = _fastest_shrinking(codes, direction, in_use)
        if curvature <= shrinking * square:
            if shrinking > 0:
                first = 0
                while first + 1 < n_working and (in_use[first] == 0 or -direction[first] / codes[first] != shrinking):
                    first += 1
                _step(codes, slopes, residual, direction, product, in_use, one / shrinking)
                codes[first] = zero
            return
        _step(codes, slopes, residual, direction, product, in_use, square / curvature)
        before, square = square, _dot(residual, residual, lanes)
        _turn(direction, residual, square / before)


@kernel
def _solve_working_set(slopes, codes, gram, lower, upper, enough, room, lanes, keep):
    half = enough * codes.dtype.type(0.5)
    for _ in range(_MOST_TRIES):
        if _greedy(slopes, codes, gram, lower, upper, enough, _GREEDY_STEPS, keep):
            return
        _keep_signs(slopes, codes, gram, upper, half, room, lanes)


@kernel
def _slopes_of_all(products, numbers, codes, n_used, gram, slopes):
    """Write ``products`` minus these rows of the Gram matrix times their codes, four at a time."""
    for j in range(slopes.size):
        slopes[j] = products[j]
    k = 0
    while k + 4 <= n_used:
        a, b, c, d = codes[k], codes[k + 1], codes[k + 2], codes[k + 3]
        row_a, row_b, row_c, row_d = (
            gram[numbers[k]], gram[numbers[k + 1]], gram[numbers[k + 2]], gram[numbers[k + 3]]
        )  # fmt: skip
        for j in range(slopes.size):
            slopes[j] -= (a * row_a[j] + b * row_b[j]) + (c * row_c[j] + d * row_d[j])
        k += 4
    while k < n_used:
        _add(slopes, -codes[k], gram[numbers[k]])
        k += 1


@kernel
def _count_beyond(slopes, lower, upper):
    count = 0
    for j in range(slopes.size):
        count += (slopes[j] > upper) | (slopes[j] < lower)
    return count


@kernel
def _join(slopes, lower, upper, numbers, n_working, most, is_in):
    """Append components whose slopes exceed these limits, up to ``most`` in total; return the number of components."""
    for start in range(0, slopes.size, _SCAN):
        stop = min(start + _SCAN, slopes.size)
        if largest_size(slopes[start:stop]) > upper:
            for j in range(start, stop):
                if n_working < most and (slopes[j] > upper or slopes[j] < lower) and not is_in[j]:
                    is_in[j] = True
                    numbers[n_working] = j
                    n_working += 1
    return n_working


@kernel
def _gather_gram(gram, numbers, n_known, n_working, width, part):
    """Complete the working set's part of the Gram matrix after its first ``n_known`` rows; pad it with zeros."""
    for k in range(n_known):
        part[k, n_known:width] = 0
    for k in range(n_known, n_working):
        row, own = gram[numbers[k]], part[k]
        for other in range(n_working):
            own[other] = row[numbers[other]]
        own[n_working:width] = 0
        for other in range(n_known):
            part[other, k] = own[other]


@kernel
def _width(n_working):
    return (n_working + _LANES - 1) // _LANES * _LANES


@kernel
def _is_no_worse_than_zero(problem, slopes, code, numbers, n_working, total):
    """Return whether a code is better than zeros, by fresh slopes. If rounding errors made it diverge, it is not."""
    gain = problem.dtype.type(0)
    for k in range(n_working):
        j = numbers[k]
        gain += code[j] * (problem[j] + slopes[j])
    return 0.5 * gain >= total * problem.dtype.type(0.999)  # false for NaN


@kernel
def solve_lassos(products, gram, alpha, tolerance, positive, codes, inexact):
    """Write the code of each problem, and whether it misses the tolerance.

    Components of norm 0 are ignored; the diagonal of ``gram`` is 1 for all others. With ``positive``, codes are not
    negative. ``tolerance`` is the largest allowed violation, in units of alpha. A problem whose slopes have rounding
    errors that are not small compared with it counts as inexact.
    """
    n_problems, n_components = products.shape
    kind = products.dtype.type
    zero, one = kind(0), kind(1)
    # Problems are solved for samples divided by alpha, so that no power of the values overflows or underflows.
    upper, lower = one, kind(-np.inf) if positive else -one
    rounding = kind(16 * np.finfo(products.dtype).eps)
    keep = -1  # the bits of a violation that do not hold its component's number
    while ~keep < n_components - 1:
        keep *= 2
    widest = _width(n_components)
    problem = np.empty(n_components, products.dtype)
    slopes = np.empty(n_components, products.dtype)
    is_in = np.zeros(n_components, np.bool_)
    numbers = np.empty(n_components, np.intp)
    used = np.empty(n_components, np.intp)
    used_codes = np.empty(n_components, products.dtype)
    lanes = np.empty(_LANES, products.dtype)
    part = np.empty((128, 128), products.dtype)
    room = np.empty((6, 128), products.dtype)
    for i in range(n_problems):
        code = codes[i]
        for j in range(n_components):
            code[j] = zero
            problem[j] = products[i, j] / alpha
            slopes[j] = problem[j]
        size = largest_size(problem)
        _greedy(slopes, code, gram, lower, upper, kind(_COARSE), _MOST_GREEDY_STEPS, keep)
        n_working, n_known = 0, 0
        for j in range(n_components):
            if code[j] != 0:
                is_in[j] = True
                numbers[n_working] = j
                n_working += 1
        is_exact, is_fresh = False, n_working == 0
        for _ in range(_MOST_ROUNDS):
            total = zero
            for k in range(n_working):
                total += abs(code[numbers[k]])
            if not rounding * (size + total) <= tolerance:  # or NaN
                break
            worst = _violation(slopes, code, lower, upper)
            if is_fresh:
                if not _is_no_worse_than_zero(problem, slopes, code, numbers, n_working, total):
                    break
                if worst <= tolerance:
                    is_exact = True
                    break
            margin, most = kind(_JOINS) * worst, n_working + max(_FEWEST_JOINING, n_working)
            for _ in range(_HALVINGS):
                if _count_beyond(slopes, lower - margin, upper + margin) <= most:
                    break
                margin = (margin + worst) / 2
            n_working = _join(slopes, lower - margin, upper + margin, numbers, n_working, most, is_in)
            if n_working == 0:
                break
            width = _width(n_working)
            if width > len(part):
                length = min(2 * width, widest)
                part = np.empty((length, length), products.dtype)
                room = np.empty((6, length), products.dtype)
                n_known = 0
            _gather_gram(gram, numbers, n_known, n_working, width, part)
            n_known = n_working
            own_codes, own_slopes = room[4, :width], room[5, :width]
            for k in range(n_working):
                own_codes[k], own_slopes[k] = code[numbers[k]], slopes[numbers[k]]
            own_codes[n_working:] = zero
            own_slopes[n_working:] = zero
            enough = max(tolerance * kind(0.5), worst * kind(_FORGIVEN))
            _solve_working_set(own_slopes, own_codes, part, lower, upper, enough, room, lanes, keep)
            n_used = 0
            for k in range(n_working):
                code[numbers[k]] = own_codes[k]
                if own_codes[k] != 0:
                    used[n_used], used_codes[n_used] = numbers[k], own_codes[k]
                    n_used += 1
            _slopes_of_all(problem, used, used_codes, n_used, gram, slopes)
            is_fresh = True
        inexact[i] = not is_exact
        for k in range(n_working):
            is_in[numbers[k]] = False
            code[numbers[k]] *= alpha
