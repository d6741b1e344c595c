"""Screening's kernel: what each single parent would gain, from frozen statistics."""

from __future__ import annotations

import math

from asterism.numerics._jit import kernel


@kernel
def single_parent_gains(
    dwell, transitions, own_dwell, own_transitions, size, parent_size, allowed, shape, rates, gains
):
    """Gain in Gamma terms of each (child, parent) pair from frozen statistics.

    ``dwell`` (parent states, children·S, parents) and ``transitions`` (parent states,
    children·S², parents) are products of child moments with parent marginals; ``own_…`` are the
    totals of the children. Children share ``size``, parents ``parent_size``; ``rates`` are the
    children's β, like ``allowed``.
    """
    squares = size * size
    normal = math.lgamma(shape)
    for child in range(gains.shape[0]):
        base = 0.0
        constant = 0.0
        for x in range(size):
            for y in range(size):
                if x != y and allowed[child, x * size + y]:
                    rate = rates[child, x * size + y]
                    time = own_dwell[child * size + x] + rate
                    count = own_transitions[child * squares + x * size + y] + shape
                    constant += shape * math.log(rate) - normal
                    base += math.lgamma(count) - count * math.log(time)
        # every state of the parent has rates, and constants, of its own
        base -= (parent_size - 1.0) * constant
        for parent in range(gains.shape[1]):
            total = -base
            for u in range(parent_size):
                for x in range(size):
                    time = max(dwell[u, child * size + x, parent], 0.0)
                    for y in range(size):
                        if x != y and allowed[child, x * size + y]:
                            log_time = math.log(time + rates[child, x * size + y])
                            count = transitions[u, child * squares + x * size + y, parent]
                            count = max(count, 0.0) + shape
                            total += math.lgamma(count) - count * log_time
            gains[child, parent] = total
