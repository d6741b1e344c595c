"""A message along consecutive steps of one block.

The propagators of the steps are in the block's buffer, and so are the messages in the end: ρ at the
end of each step, f at its start. One step waits for the one before it: what counts is how long a
chain of operations takes, so that messages of two to four states stay in registers. They are
rescaled only when they leave a wide range. Networks that have no more than two states compile
nothing but their passes.
"""

from __future__ import annotations

import math

from numba import boolean, float64, int64
from numba.core import types

from asterism.numerics._jit import inlined, inner, unit
from asterism.star._buffers import (
    LARGE,
    SMALL,
    backward_row,
    forward_row,
    rescaled,
)


def _pass_of(size, is_backward):
    """A pass of two to four states: its size is known when it is compiled."""
    rows = size * size
    down, across = (size, 1) if is_backward else (1, size)
    has_third, has_fourth = size > 2, size == 4

    @inlined
    def entry(p, x, k, m0, m1, m2, m3):
        row = x * down
        first = p[row, k] * m0 + p[row + across, k] * m1
        if has_fourth:
            return first + (p[row + 2 * across, k] * m2 + p[row + 3 * across, k] * m3)
        if has_third:
            return first + p[row + 2 * across, k] * m2
        return first

    def run(here, first, last, message):
        begin = backward_row(size) if is_backward else forward_row(size)
        p, kept = here[rows : 2 * rows], here[begin : begin + size]
        m0, m1 = message[0], message[1]
        m2 = message[2] if has_third else 0.0
        m3 = message[size - 1] if has_fourth else 0.0
        logarithm = 0.0
        for i in range(last - first):
            k = last - 1 - i if is_backward else first + i
            kept[0, k] = m0
            kept[1, k] = m1
            if has_third:
                kept[2, k] = m2
            if has_fourth:
                kept[size - 1, k] = m3
            n0 = entry(p, 0, k, m0, m1, m2, m3)
            n1 = entry(p, 1, k, m0, m1, m2, m3)
            n2 = entry(p, 2, k, m0, m1, m2, m3) if has_third else 0.0
            m3 = entry(p, size - 1, k, m0, m1, m2, m3) if has_fourth else 0.0
            m0, m1, m2 = n0, n1, n2
            total = (m0 + m1) + (m2 + m3) if has_third else m0 + m1
            if total > LARGE or total < SMALL:
                if not total > 0.0:
                    return logarithm, k
                m0 /= total
                m1 /= total
                m2 /= total
                m3 /= total
                logarithm += math.log(total)
        message[0], message[1] = m0, m1
        if has_third:
            message[2] = m2
        if has_fourth:
            message[size - 1] = m3
        return logarithm, -1

    return inner(run) if has_third else inlined(run)


backward_2, forward_2 = _pass_of(2, True), _pass_of(2, False)
_backward_3, _forward_3 = _pass_of(3, True), _pass_of(3, False)
_backward_4, _forward_4 = _pass_of(4, True), _pass_of(4, False)


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


@unit(
    (float64[:, ::1], int64, int64, int64, float64[::1], float64[::1], boolean),
    returns=types.Tuple((float64, int64)),
)
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
