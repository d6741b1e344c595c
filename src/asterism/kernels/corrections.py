"""The corrections of fourth order applied to one node (see ``stretches`` for what they are).

Corrections are limited so that rates and moments stay positive wherever a step is too long for
them: they may halve an entry, and an edge takes no more than a quarter of what a step brings.
"""

from __future__ import annotations

from asterism.kernels._jit import inlined
from asterism.kernels.arrays import FIRST, LAST
from asterism.kernels.buffers import (
    BLOCK,
    STRIDE,
    backward_row,
    forward_row,
    middle_row,
    whole_vectors,
)

START = 0
END = 1


@inlined
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
    here = work.steps[block]
    generator = here[: size * size]
    middle = here[middle_row(size) : middle_row(size) + size * size]
    at = (block * here.shape[0] + middle_row(size)) * STRIDE
    flat = work.flat_matrices
    own = work.matrices[0, 1]  # not the first row, which nothing precedes
    corrected = work.matrices[0, 2]
    common = work.matrices[0, 3]
    if size == 2:
        apply_band(to_step, begin, count, padded, work.flat_steps, at + STRIDE, True, generator[1])
        at += 2 * STRIDE
        apply_band(to_step, begin, count, padded, work.flat_steps, at, True, generator[2])
        m0, m1, m2, m3 = middle[0], middle[1], middle[2], middle[3]
        for k in range(padded):
            own[k] = 0.5 * (m0[k] + m1[k] - m2[k] - m3[k])
        apply_band(to_step, begin, count, padded, flat, STRIDE, False, corrected)
        g0, g1, g2, g3 = generator[0], generator[1], generator[2], generator[3]
        for k in range(padded):
            common[k] = 0.5 * (m0[k] + m1[k] + m2[k] + m3[k]) * quadrature[k]
        for k in range(padded):
            g0[k] = common[k] + corrected[k] - g1[k]
        for k in range(padded):
            g3[k] = common[k] - corrected[k] - g2[k]
        return
    for k in range(padded):
        common[k] = 0.0
    for row in range(size * size):
        m0 = middle[row]
        for k in range(padded):
            common[k] += m0[k] / size
    for x in range(size):
        for k in range(padded):
            own[k] = -common[k]
        for y in range(size):
            m0 = middle[x * size + y]
            for k in range(padded):
                own[k] += m0[k]
        apply_band(to_step, begin, count, padded, flat, STRIDE, False, corrected)
        diagonal = generator[x * size + x]
        for k in range(padded):
            diagonal[k] = common[k] * quadrature[k] + corrected[k]
        for y in range(size):
            if x != y:
                row = x * size + y
                other = generator[row]
                place = at + row * STRIDE
                apply_band(to_step, begin, count, padded, work.flat_steps, place, True, other)
                for k in range(padded):
                    diagonal[k] -= other[k]


@inlined
def fill_edges(problem, size, trajectory, work):
    """The factors at the edges of all stretches; propagators of the outermost steps take them in.

    They come from the generators in the middle of the three steps next to the edge.
    """
    rows = size * size
    first_step = problem.step_start[trajectory]
    begin = problem.stretch_start[trajectory]
    for i in range(begin, problem.stretch_start[trajectory + 1]):
        first = problem.stretch[i, FIRST]
        here = work.steps[first // BLOCK]
        j = first % BLOCK
        k = j + problem.stretch[i, LAST] - 1 - first
        e = problem.edge_slope[i]
        most_at_start = 0.25 * problem.width[first_step + first]
        most_at_end = 0.25 * problem.width[first_step + first + k - j]
        at_start = work.edges[i - begin, START]
        at_end = work.edges[i - begin, END]
        common_left = 0.0
        common_right = 0.0
        for x in range(size):
            row_left = 0.0
            row_right = 0.0
            at_start[x, x] = 1.0
            at_end[x, x] = 1.0
            for y in range(size):
                g = here[middle_row(size) + x * size + y]
                left = e[0] * g[j] + e[1] * g[j + 1] + e[2] * g[j + 2]
                right = e[3] * g[k] + e[4] * g[k - 1] + e[5] * g[k - 2]
                row_left += left
                row_right += right
                if x != y:
                    most = most_at_start * g[j]
                    left = min(max(left, -most), most)
                    most = most_at_end * g[k]
                    right = min(max(right, -most), most)
                    at_start[x, y] = -left
                    at_end[x, y] = right
                    at_start[x, x] += left
                    at_end[x, x] -= right
            at_start[x, x] -= row_left
            at_end[x, x] += row_right
            common_left += row_left / size
            common_right += row_right / size
        for x in range(size):
            at_start[x, x] = min(max(at_start[x, x] + common_left, 0.5), 1.5)
            at_end[x, x] = min(max(at_end[x, x] - common_right, 0.5), 1.5)
        if size == 2:
            p00, p01, p10, p11 = here[4, j], here[5, j], here[6, j], here[7, j]
            here[4, j] = at_start[0, 0] * p00 + at_start[0, 1] * p10
            here[5, j] = at_start[0, 0] * p01 + at_start[0, 1] * p11
            here[6, j] = at_start[1, 0] * p00 + at_start[1, 1] * p10
            here[7, j] = at_start[1, 0] * p01 + at_start[1, 1] * p11
            p00, p01, p10, p11 = here[4, k], here[5, k], here[6, k], here[7, k]
            here[4, k] = p00 * at_end[0, 0] + p01 * at_end[1, 0]
            here[5, k] = p00 * at_end[0, 1] + p01 * at_end[1, 1]
            here[6, k] = p10 * at_end[0, 0] + p11 * at_end[1, 0]
            here[7, k] = p10 * at_end[0, 1] + p11 * at_end[1, 1]
            continue
        spare = work.matrices[0]
        for x in range(size):
            for y in range(size):
                spare[x * size + y, 0] = 0.0
                spare[x * size + y, 1] = 0.0
                for z in range(size):
                    spare[x * size + y, 0] += at_start[x, z] * here[rows + z * size + y, j]
                    spare[x * size + y, 1] += here[rows + x * size + z, k] * at_end[z, y]
        for row in range(rows):
            here[rows + row, j] = spare[row, 0]
            here[rows + row, k] = spare[row, 1]


@inlined
def enter_stretches(problem, size, trajectory, work):
    """Multiply the messages by the edges they have passed on entering; moments need them so."""
    begin = problem.stretch_start[trajectory]
    forward = forward_row(size)
    backward = backward_row(size)
    spare = work.message[1]
    for i in range(begin, problem.stretch_start[trajectory + 1]):
        first = problem.stretch[i, FIRST]
        here = work.steps[first // BLOCK]
        j = first % BLOCK
        k = j + problem.stretch[i, LAST] - 1 - first
        at_start = work.edges[i - begin, START]
        at_end = work.edges[i - begin, END]
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


@inlined
def moments_to_middle(problem, size, trajectory, first, count, work):
    """From moments, the integrals over a block's steps, to h times the values in the middle.

    From the last of ``work.matrices`` to the one before it. No entry falls below half of what it
    was, and diagonals still sum to the step.
    """
    begin = problem.step_start[trajectory] + first
    padded = whole_vectors(count)
    width = work.width[first : first + padded]
    means = work.matrices[8]
    middle = work.matrices[7]
    at = 8 * means.shape[0] * STRIDE
    for row in range(size * size):
        if size == 2 and row == 3:
            continue
        place = at + row * STRIDE
        apply_band(
            problem.to_middle, begin, count, padded, work.flat_matrices, place, True, middle[row]
        )
    if size == 2:
        m0, m1, other = middle[0], middle[3], means[3]
        for k in range(padded):
            # at least half of the other state's moment stays too
            above = width[k] - 0.5 * other[k] - m0[k]
            m0[k] += 0.5 * (above - abs(above))
            m1[k] = width[k] - m0[k]
        return
    for k in range(count):
        total = 0.0
        for x in range(size):
            total += middle[x * size + x, k]
        scale = width[k] / total
        for x in range(size):
            middle[x * size + x, k] *= scale
