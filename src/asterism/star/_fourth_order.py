"""The corrections of fourth order applied to one node (``_stretches.py`` says which).

Corrections are limited so that rates, propagators and moments stay positive wherever a step is too
long for them.
"""

from __future__ import annotations

from numba import int64

from asterism.numerics._jit import inlined, inner, unit, view
from asterism.star._buffers import (
    BLOCK,
    FIRST,
    LAST,
    PROBLEM,
    STRIDE,
    WORK,
    backward_row,
    forward_row,
    middle_row,
    whole_vectors,
)

START = 0
END = 1

# what ``fourth_order`` is to do
CORRECT_GENERATOR = 0
FILL_ENDS = 1
ENTER_STRETCHES = 2
MOMENTS_TO_MIDDLE = 3

# limits of the corrections, so that everything stays positive: of what a step may move, and of one
_LARGEST_SHARE_OF_A_STEP = 0.25
_LARGEST_CORRECTION = 0.5


@inner
def apply_band(weights, begin, count, padded, flat, at, is_positive, out):
    """out(k) = Σ_i weights(i, begin+k) values(k+i−2); the values begin at ``flat[at]``.

    Weights of values outside the block are zero; ``padded`` results may be computed. If the values
    are positive, no result is less than half of the value (written with abs: a maximum would not
    vectorise).
    """
    flat[at - 2] = 0.0
    flat[at - 1] = 0.0
    flat[at + count] = 0.0
    flat[at + count + 1] = 0.0
    w0 = weights[0, begin : begin + padded]
    w1 = weights[1, begin : begin + padded]
    w2 = weights[2, begin : begin + padded]
    w3 = weights[3, begin : begin + padded]
    w4 = weights[4, begin : begin + padded]
    v0 = flat[at - 2 : at - 2 + padded]
    v1 = flat[at - 1 : at - 1 + padded]
    v2 = flat[at : at + padded]
    v3 = flat[at + 1 : at + 1 + padded]
    v4 = flat[at + 2 : at + 2 + padded]
    if is_positive:
        for k in range(padded):
            value = w0[k] * v0[k] + w1[k] * v1[k] + w2[k] * v2[k] + w3[k] * v3[k] + w4[k] * v4[k]
            half = 0.5 * v2[k]
            above = value - half
            out[k] = half + 0.5 * (above + abs(above))
        return
    for k in range(padded):
        out[k] = w0[k] * v0[k] + w1[k] * v1[k] + w2[k] * v2[k] + w3[k] * v3[k] + w4[k] * v4[k]


@inlined
def _limit_change(before, after, inverse_width, count):
    """Let no entry change by more than half of the inverse step (abs instead of a minimum)."""
    for k in range(count):
        change = after[k] - before[k]
        most = _LARGEST_CORRECTION * inverse_width[k]
        after[k] = before[k] + 0.5 * (abs(change + most) - abs(change - most))


@inlined
def _within(value, most):
    """``value``, or the nearest number within ± ``most``."""
    if value > most:
        return most
    if value < -most:
        return -most
    return value


@inlined
def end_entry(value, x, y, share):
    """An entry of h²/12 G', limited; ``share`` goes from x to y within the step."""
    return _within(value, _LARGEST_CORRECTION if x == y else _LARGEST_SHARE_OF_A_STEP * share)


@inlined
def _end(here, size, j, step, e0, e1, e2, side, factor, spare):
    """1 ∓ h²/12 G' at an end of a stretch; ``j`` is the outermost step, ``step`` the way inwards.

    The propagator of that step takes it in.
    """
    rows = size * size
    common = 0.0
    k = j + step
    i = k + step
    sign = -1.0 if side == START else 1.0
    for x in range(size):
        row = 0.0
        factor[x, x] = 0.0
        for y in range(size):
            g = here[middle_row(size) + x * size + y]
            s = sign * (e0 * g[j] + e1 * g[k] + e2 * g[i])
            row += s
            if x != y:
                stays = here[rows + (y * size + y if side == START else x * size + x), j]
                s = _within(s, _LARGEST_SHARE_OF_A_STEP * here[rows + x * size + y, j] / stays)
                factor[x, y] = s
                factor[x, x] -= s
        factor[x, x] += row
        common += row / size
    for x in range(size):
        factor[x, x] = 1.0 + _within(factor[x, x] - common, _LARGEST_CORRECTION)
    for y in range(size):
        # P ← factor P column by column at the start, P ← P factor row by row at the end
        for z in range(size):
            spare[z, 0] = here[rows + (z * size + y if side == START else y * size + z), j]
        for x in range(size):
            value = 0.0
            for z in range(size):
                value += (factor[x, z] if side == START else factor[z, x]) * spare[z, 0]
            # by way of a third state the sum of the changes can still be too much
            least = _LARGEST_SHARE_OF_A_STEP * spare[x, 0]
            here[rows + (x * size + y if side == START else y * size + x), j] = max(value, least)


@view
def fill_ends(problem, size, trajectory, work):
    """The factors at the ends of all stretches; propagators of the outermost steps take them in.

    They come from the generators in the middle of the three steps next to the end; the diagonal
    as in :func:`correct_generator`. No entry of a propagator falls below a quarter of what it was.
    """
    begin = problem.stretch_start[trajectory]
    spare = work.matrices[0]
    for i in range(begin, problem.stretch_start[trajectory + 1]):
        first = problem.stretch[i, FIRST]
        here = work.steps[first // BLOCK]
        j = first % BLOCK
        k = j + problem.stretch[i, LAST] - 1 - first
        e = problem.end_slope[i]
        at_start, at_end = work.ends[i - begin, START], work.ends[i - begin, END]
        _end(here, size, j, 1, e[0], e[1], e[2], START, at_start, spare)
        _end(here, size, k, -1, e[3], e[4], e[5], END, at_end, spare)


@view
def enter_stretches(problem, size, trajectory, work):
    """Multiply the messages by the factors at the ends where they entered; moments need them so."""
    begin = problem.stretch_start[trajectory]
    forward = forward_row(size)
    backward = backward_row(size)
    spare = work.message[1]
    for i in range(begin, problem.stretch_start[trajectory + 1]):
        first = problem.stretch[i, FIRST]
        here = work.steps[first // BLOCK]
        j = first % BLOCK
        k = j + problem.stretch[i, LAST] - 1 - first
        at_start = work.ends[i - begin, START]
        at_end = work.ends[i - begin, END]
        for x in range(size):
            spare[x] = here[forward + x, j]
        for y in range(size):
            value = 0.0
            for x in range(size):
                value += spare[x] * at_start[x, y]
            here[forward + y, j] = value
        for x in range(size):
            spare[x] = here[backward + x, k]
        for x in range(size):
            value = 0.0
            for y in range(size):
                value += at_end[x, y] * spare[y]
            here[backward + x, k] = value


@view
def moments_to_middle(problem, trajectory, first, count, work):
    """From moments, the integrals over a block's steps, to h times the values in the middle.

    From the last of ``work.matrices`` to the one before it. No entry falls below half of what it
    was, and diagonals still sum to the step.
    """
    begin = problem.step_start[trajectory] + first
    padded = whole_vectors(count)
    width = work.width[first : first + padded]
    means = work.matrices[3]
    middle = work.matrices[2]
    at = 3 * means.shape[0] * STRIDE
    to_middle, flat = problem.to_middle, work.flat_matrices
    for row in range(3):
        place = at + row * STRIDE
        apply_band(to_middle, begin, count, padded, flat, place, bool(True), middle[row])
    m0, m1, other = middle[0], middle[3], means[3]
    for k in range(padded):
        # at least half of the other state's moment stays too
        above = width[k] - 0.5 * other[k] - m0[k]
        m0[k] += 0.5 * (above - abs(above))
        m1[k] = width[k] - m0[k]


@view
def correct_generator(problem, size, trajectory, block, count, work):
    """From generators in the middle of a block's steps to those that propagate them.

    Off-diagonal entries are corrected one by one; the diagonal is minus their sum, plus the
    correction of what rows sum to. Without data rows sum to zero, and do so afterwards, limited or
    not. What all rows have in common there commutes with everything and needs only the weight of
    its step: a constant in ψ then changes F by nothing at all.
    """
    begin = problem.step_start[trajectory] + block * BLOCK
    padded = whole_vectors(count)
    to_step = problem.to_step
    quadrature = problem.quadrature[begin : begin + padded]
    inverse = work.inverse_width[block * BLOCK : block * BLOCK + padded]
    here = work.steps[block]
    generator = here[: size * size]
    middle = here[middle_row(size) : middle_row(size) + size * size]
    at = (block * here.shape[0] + middle_row(size)) * STRIDE
    flat = work.flat_matrices
    own = work.matrices[0, 1]  # not the first row, which nothing precedes
    corrected = work.matrices[0, 2]
    common = work.matrices[0, 3]
    for k in range(padded):
        common[k] = 0.0
    for row in range(size * size):
        m0 = middle[row]
        for k in range(padded):
            common[k] += m0[k]
    share = 1.0 / size
    for k in range(padded):
        common[k] *= share
    for x in range(size):
        for k in range(padded):
            own[k] = -common[k]
        for y in range(size):
            m0 = middle[x * size + y]
            for k in range(padded):
                own[k] += m0[k]
        apply_band(to_step, begin, count, padded, flat, int(STRIDE), bool(False), corrected)
        _limit_change(own, corrected, inverse, padded)
        diagonal = generator[x * size + x]
        for k in range(padded):
            diagonal[k] = common[k] * quadrature[k] + corrected[k]
        for y in range(size):
            if x != y:
                row = x * size + y
                other = generator[row]
                place = at + row * STRIDE
                apply_band(to_step, begin, count, padded, work.flat_steps, place, bool(True), other)
                for k in range(padded):
                    diagonal[k] -= other[k]


@view
def _middle_of_many(problem, size, trajectory, first, count, work):
    """:func:`moments_to_middle` for any number of states."""
    begin = problem.step_start[trajectory] + first
    padded = whole_vectors(count)
    width = work.width[first : first + padded]
    means = work.matrices[3]
    middle = work.matrices[2]
    at = 3 * means.shape[0] * STRIDE
    to_middle, flat = problem.to_middle, work.flat_matrices
    for row in range(size * size):
        place = at + row * STRIDE
        apply_band(to_middle, begin, count, padded, flat, place, bool(True), middle[row])
    scale = work.matrices[1, 1]
    for k in range(count):
        scale[k] = 0.0
    for x in range(size):
        diagonal = middle[x * size + x]
        for k in range(count):
            scale[k] += diagonal[k]
    for k in range(count):
        scale[k] = width[k] / scale[k]
    for x in range(size):
        diagonal = middle[x * size + x]
        for k in range(count):
            diagonal[k] *= scale[k]


@unit((PROBLEM, WORK, int64, int64, int64, int64, int64))
def corrections_of_many(problem, work, what, size, trajectory, first, count):
    """The four corrections for nodes of three and more states; others never compile them."""
    if what == CORRECT_GENERATOR:
        correct_generator(problem, size, trajectory, first // BLOCK, count, work)
    elif what == FILL_ENDS:
        fill_ends(problem, size, trajectory, work)
    elif what == ENTER_STRETCHES:
        enter_stretches(problem, size, trajectory, work)
    else:
        _middle_of_many(problem, size, trajectory, first, count, work)


@unit((PROBLEM, WORK, int64, int64, int64, int64, int64))
def fourth_order(problem, work, what, size, trajectory, first, count):
    """One of the four corrections above; two of them are of steps first … first+count−1.

    Only problems with smooth steps need them compiled.
    """
    if size > 2:
        corrections_of_many(work.addresses, problem, work, what, size, trajectory, first, count)
    elif what == CORRECT_GENERATOR:
        correct_generator(problem, 2, trajectory, first // BLOCK, count, work)
    elif what == FILL_ENDS:
        fill_ends(problem, 2, trajectory, work)
    elif what == ENTER_STRETCHES:
        enter_stretches(problem, 2, trajectory, work)
    else:
        moments_to_middle(problem, trajectory, first, count, work)
