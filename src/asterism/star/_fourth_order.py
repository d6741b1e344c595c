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


@view
def correct_generator(problem, trajectory, block, count, work):
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
    own = work.matrices[0, 1]  # not the first row, which nothing precedes
    corrected = work.matrices[0, 2]
    common = work.matrices[0, 3]
    row = middle_row(2)
    m0, m1, m2, m3 = here[row], here[row + 1], here[row + 2], here[row + 3]
    g0, g1, g2, g3 = here[0], here[1], here[2], here[3]
    at = (block * here.shape[0] + row + 1) * STRIDE
    apply_band(to_step, begin, count, padded, work.flat_steps, at, bool(True), g1)
    at += STRIDE
    apply_band(to_step, begin, count, padded, work.flat_steps, at, bool(True), g2)
    for k in range(padded):
        own[k] = 0.5 * (m0[k] + m1[k] - m2[k] - m3[k])
    flat = work.flat_matrices
    apply_band(to_step, begin, count, padded, flat, int(STRIDE), bool(False), corrected)
    _limit_change(own, corrected, inverse, padded)
    for k in range(padded):
        common[k] = 0.5 * (m0[k] + m1[k] + m2[k] + m3[k]) * quadrature[k]
    for k in range(padded):
        g0[k] = common[k] + corrected[k] - g1[k]
    for k in range(padded):
        g3[k] = common[k] - corrected[k] - g2[k]


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
def _two_state_end(here, j, step, e0, e1, e2, side, factor):
    """1 ∓ h²/12 G' at an end of a stretch; ``j`` is the outermost step, ``step`` the way inwards.

    The propagator of that step takes it in.
    """
    begin = middle_row(2)
    r00, r01, r10, r11 = here[begin], here[begin + 1], here[begin + 2], here[begin + 3]
    k = j + step
    i = k + step
    s01 = e0 * r01[j] + e1 * r01[k] + e2 * r01[i]
    s10 = e0 * r10[j] + e1 * r10[k] + e2 * r10[i]
    row0 = e0 * r00[j] + e1 * r00[k] + e2 * r00[i] + s01
    row1 = e0 * r11[j] + e1 * r11[k] + e2 * r11[i] + s10
    p00, p01, p10, p11 = here[4, j], here[5, j], here[6, j], here[7, j]
    if side == START:
        s01 = -_within(s01, _LARGEST_SHARE_OF_A_STEP * p01 / p11)
        s10 = -_within(s10, _LARGEST_SHARE_OF_A_STEP * p10 / p00)
        own = -0.5 * (row0 - row1)
    else:
        s01 = _within(s01, _LARGEST_SHARE_OF_A_STEP * p01 / p00)
        s10 = _within(s10, _LARGEST_SHARE_OF_A_STEP * p10 / p11)
        own = 0.5 * (row0 - row1)
    s00 = 1.0 + _within(own - s01, _LARGEST_CORRECTION)
    s11 = 1.0 + _within(-own - s10, _LARGEST_CORRECTION)
    factor[0, 0] = s00
    factor[0, 1] = s01
    factor[1, 0] = s10
    factor[1, 1] = s11
    if side == START:
        here[4, j] = s00 * p00 + s01 * p10
        here[5, j] = s00 * p01 + s01 * p11
        here[6, j] = s10 * p00 + s11 * p10
        here[7, j] = s10 * p01 + s11 * p11
    else:
        here[4, j] = p00 * s00 + p01 * s10
        here[5, j] = p00 * s01 + p01 * s11
        here[6, j] = p10 * s00 + p11 * s10
        here[7, j] = p10 * s01 + p11 * s11


@view
def fill_ends(problem, trajectory, work):
    """The factors at the ends of all stretches; propagators of the outermost steps take them in.

    They come from the generators in the middle of the three steps next to the end; the diagonal
    as in :func:`correct_generator`. No entry of a propagator falls below a quarter of what it was.
    """
    begin = problem.stretch_start[trajectory]
    for i in range(begin, problem.stretch_start[trajectory + 1]):
        first = problem.stretch[i, FIRST]
        here = work.steps[first // BLOCK]
        j = first % BLOCK
        k = j + problem.stretch[i, LAST] - 1 - first
        for side in range(2):
            e = problem.end_slope[i, 3 * side : 3 * side + 3]
            factor = work.ends[i - begin, side]
            outermost = j if side == START else k
            inwards = 1 if side == START else -1
            _two_state_end(here, outermost, inwards, e[0], e[1], e[2], side, factor)


@view
def enter_stretches(problem, trajectory, work):
    """Multiply the messages by the factors at the ends where they entered; moments need them so."""
    begin = problem.stretch_start[trajectory]
    forward = forward_row(2)
    backward = backward_row(2)
    for i in range(begin, problem.stretch_start[trajectory + 1]):
        first = problem.stretch[i, FIRST]
        here = work.steps[first // BLOCK]
        j = first % BLOCK
        k = j + problem.stretch[i, LAST] - 1 - first
        at_start = work.ends[i - begin, START]
        at_end = work.ends[i - begin, END]
        f0, f1 = here[forward, j], here[forward + 1, j]
        here[forward, j] = f0 * at_start[0, 0] + f1 * at_start[1, 0]
        here[forward + 1, j] = f0 * at_start[0, 1] + f1 * at_start[1, 1]
        r0, r1 = here[backward, k], here[backward + 1, k]
        here[backward, k] = at_end[0, 0] * r0 + at_end[0, 1] * r1
        here[backward + 1, k] = at_end[1, 0] * r0 + at_end[1, 1] * r1


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
def _generator_of_many(problem, size, trajectory, block, count, work):
    """:func:`correct_generator` for any number of states."""
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


@inner
def _end(here, size, j, step, e0, e1, e2, side, factor, spare):
    """:func:`_two_state_end` for any number of states."""
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
    for x in range(size):
        for y in range(size):
            value = 0.0
            for z in range(size):
                if side == START:
                    value += factor[x, z] * here[rows + z * size + y, j]
                else:
                    value += here[rows + x * size + z, j] * factor[z, y]
            spare[x * size + y, 0] = value
    for row in range(rows):
        # by way of a third state the sum of the changes can still be too much
        here[rows + row, j] = max(spare[row, 0], _LARGEST_SHARE_OF_A_STEP * here[rows + row, j])


@view
def _ends_of_many(problem, size, trajectory, work):
    """:func:`fill_ends` for any number of states."""
    begin = problem.stretch_start[trajectory]
    for i in range(begin, problem.stretch_start[trajectory + 1]):
        first = problem.stretch[i, FIRST]
        here = work.steps[first // BLOCK]
        j = first % BLOCK
        k = j + problem.stretch[i, LAST] - 1 - first
        for side in range(2):
            e = problem.end_slope[i, 3 * side : 3 * side + 3]
            factor = work.ends[i - begin, side]
            outermost = j if side == START else k
            inwards = 1 if side == START else -1
            spare = work.matrices[0]
            _end(here, size, outermost, inwards, e[0], e[1], e[2], side, factor, spare)


@view
def _enter_of_many(problem, size, trajectory, work):
    """:func:`enter_stretches` for any number of states."""
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
        for y in range(size):
            spare[y] = 0.0
            for x in range(size):
                spare[y] += here[forward + x, j] * at_start[x, y]
        for x in range(size):
            here[forward + x, j] = spare[x]
        for x in range(size):
            spare[x] = 0.0
            for y in range(size):
                spare[x] += at_end[x, y] * here[backward + y, k]
        for x in range(size):
            here[backward + x, k] = spare[x]


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
        _generator_of_many(problem, size, trajectory, first // BLOCK, count, work)
    elif what == FILL_ENDS:
        _ends_of_many(problem, size, trajectory, work)
    elif what == ENTER_STRETCHES:
        _enter_of_many(problem, size, trajectory, work)
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
        correct_generator(problem, trajectory, first // BLOCK, count, work)
    elif what == FILL_ENDS:
        fill_ends(problem, trajectory, work)
    elif what == ENTER_STRETCHES:
        enter_stretches(problem, trajectory, work)
    else:
        moments_to_middle(problem, trajectory, first, count, work)
