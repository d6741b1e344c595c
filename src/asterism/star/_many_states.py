"""A message along consecutive steps of one block, for nodes of three and more states.

The propagators of the steps are in the block's buffer, and so are the messages in the end: ρ at the
end of each step, f at its start. One step waits for the one before it: what counts is how long a
chain of operations takes, so that three and four states are written out. Messages are rescaled only
when they leave a wide range. Two states are in ``_messages.py``; networks that have no more never
compile this file.
"""

from __future__ import annotations

import math

from numba import boolean, float64, int64
from numba.core import types

from asterism.numerics._jit import inner, separate, unit
from asterism.star._buffers import (
    LARGE,
    PASS_MANY_STATES,
    SMALL,
    backward_row,
    forward_row,
    rescaled,
)


@inner
def _backward_3(here, first, last, message):
    p00, p01, p02, p10, p11 = here[9], here[10], here[11], here[12], here[13]
    p12, p20, p21, p22 = here[14], here[15], here[16], here[17]
    begin = backward_row(3)
    kept0, kept1, kept2 = here[begin], here[begin + 1], here[begin + 2]
    r0, r1, r2 = message[0], message[1], message[2]
    logarithm = 0.0
    for k in range(last - 1, first - 1, -1):
        kept0[k] = r0
        kept1[k] = r1
        kept2[k] = r2
        n0 = p00[k] * r0 + p01[k] * r1 + p02[k] * r2
        n1 = p10[k] * r0 + p11[k] * r1 + p12[k] * r2
        n2 = p20[k] * r0 + p21[k] * r1 + p22[k] * r2
        r0 = n0
        r1 = n1
        r2 = n2
        total = r0 + r1 + r2
        if total > LARGE or total < SMALL:
            if not total > 0.0:
                return logarithm, k
            r0 /= total
            r1 /= total
            r2 /= total
            logarithm += math.log(total)
    message[0] = r0
    message[1] = r1
    message[2] = r2
    return logarithm, -1


@inner
def _forward_3(here, first, last, message):
    p00, p01, p02, p10, p11 = here[9], here[10], here[11], here[12], here[13]
    p12, p20, p21, p22 = here[14], here[15], here[16], here[17]
    begin = forward_row(3)
    kept0, kept1, kept2 = here[begin], here[begin + 1], here[begin + 2]
    f0, f1, f2 = message[0], message[1], message[2]
    for k in range(first, last):
        kept0[k] = f0
        kept1[k] = f1
        kept2[k] = f2
        n0 = f0 * p00[k] + f1 * p10[k] + f2 * p20[k]
        n1 = f0 * p01[k] + f1 * p11[k] + f2 * p21[k]
        n2 = f0 * p02[k] + f1 * p12[k] + f2 * p22[k]
        f0 = n0
        f1 = n1
        f2 = n2
        total = f0 + f1 + f2
        if total > LARGE or total < SMALL:
            f0 /= total
            f1 /= total
            f2 /= total
    message[0] = f0
    message[1] = f1
    message[2] = f2


@inner
def _backward_4(here, first, last, message):
    begin = backward_row(4)
    kept0, kept1, kept2, kept3 = here[begin], here[begin + 1], here[begin + 2], here[begin + 3]
    p = here[16:32]
    r0, r1, r2, r3 = message[0], message[1], message[2], message[3]
    logarithm = 0.0
    for k in range(last - 1, first - 1, -1):
        kept0[k] = r0
        kept1[k] = r1
        kept2[k] = r2
        kept3[k] = r3
        n0 = (p[0, k] * r0 + p[1, k] * r1) + (p[2, k] * r2 + p[3, k] * r3)
        n1 = (p[4, k] * r0 + p[5, k] * r1) + (p[6, k] * r2 + p[7, k] * r3)
        n2 = (p[8, k] * r0 + p[9, k] * r1) + (p[10, k] * r2 + p[11, k] * r3)
        n3 = (p[12, k] * r0 + p[13, k] * r1) + (p[14, k] * r2 + p[15, k] * r3)
        r0 = n0
        r1 = n1
        r2 = n2
        r3 = n3
        total = (r0 + r1) + (r2 + r3)
        if total > LARGE or total < SMALL:
            if not total > 0.0:
                return logarithm, k
            r0 /= total
            r1 /= total
            r2 /= total
            r3 /= total
            logarithm += math.log(total)
    message[0] = r0
    message[1] = r1
    message[2] = r2
    message[3] = r3
    return logarithm, -1


@inner
def _forward_4(here, first, last, message):
    begin = forward_row(4)
    kept0, kept1, kept2, kept3 = here[begin], here[begin + 1], here[begin + 2], here[begin + 3]
    p = here[16:32]
    f0, f1, f2, f3 = message[0], message[1], message[2], message[3]
    for k in range(first, last):
        kept0[k] = f0
        kept1[k] = f1
        kept2[k] = f2
        kept3[k] = f3
        n0 = (p[0, k] * f0 + p[4, k] * f1) + (p[8, k] * f2 + p[12, k] * f3)
        n1 = (p[1, k] * f0 + p[5, k] * f1) + (p[9, k] * f2 + p[13, k] * f3)
        n2 = (p[2, k] * f0 + p[6, k] * f1) + (p[10, k] * f2 + p[14, k] * f3)
        n3 = (p[3, k] * f0 + p[7, k] * f1) + (p[11, k] * f2 + p[15, k] * f3)
        f0 = n0
        f1 = n1
        f2 = n2
        f3 = n3
        total = (f0 + f1) + (f2 + f3)
        if total > LARGE or total < SMALL:
            f0 /= total
            f1 /= total
            f2 /= total
            f3 /= total
    message[0] = f0
    message[1] = f1
    message[2] = f2
    message[3] = f3


@inner
def _backward_any(here, size, first, last, message, spare):
    rows = size * size
    propagator = here[rows : 2 * rows]
    kept = here[backward_row(size) : backward_row(size) + size]
    logarithm = 0.0
    for k in range(last - 1, first - 1, -1):
        total = 0.0
        for x in range(size):
            kept[x, k] = message[x]
            value = 0.0
            for y in range(size):
                value += propagator[x * size + y, k] * message[y]
            spare[x] = value
            total += value
        for x in range(size):
            message[x] = spare[x]
        if total > LARGE or total < SMALL:
            logarithm += rescaled(message, size)
            if logarithm == -math.inf:
                return logarithm, k
    return logarithm, -1


@inner
def _forward_any(here, size, first, last, message, spare):
    rows = size * size
    propagator = here[rows : 2 * rows]
    kept = here[forward_row(size) : forward_row(size) + size]
    for k in range(first, last):
        total = 0.0
        for y in range(size):
            kept[y, k] = message[y]
            value = 0.0
            for x in range(size):
                value += message[x] * propagator[x * size + y, k]
            spare[y] = value
            total += value
        for x in range(size):
            message[x] = spare[x]
        if total > LARGE or total < SMALL:
            rescaled(message, size)


@unit
def pass_many_states(here, size, first, last, message, spare, is_backward):
    """The message from one end of steps first … last−1 of a block to the other.

    Returns the logarithm taken out and the step at which nothing is left (or −1).
    """
    if is_backward:
        if size == 3:
            return _backward_3(here, first, last, message)
        if size == 4:
            return _backward_4(here, first, last, message)
        return _backward_any(here, size, first, last, message, spare)
    if size == 3:
        _forward_3(here, first, last, message)
    elif size == 4:
        _forward_4(here, first, last, message)
    else:
        _forward_any(here, size, first, last, message, spare)
    return 0.0, -1


separate_pass = separate(
    pass_many_states,
    (float64[:, ::1], int64, int64, int64, float64[::1], float64[::1], boolean),
    PASS_MANY_STATES,
    types.Tuple((float64, int64)),
)
