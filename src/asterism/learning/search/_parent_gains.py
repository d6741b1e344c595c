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
    children's β.
    """
    squares = size * size
    for child in range(gains.shape[0]):
        rate = rates[child]
        constant = shape * math.log(rate) - math.lgamma(shape)
        base = 0.0
        for x in range(size):
            time = own_dwell[child * size + x] + rate
            for y in range(size):
                if x != y and allowed[child, x * size + y]:
                    count = own_transitions[child * squares + x * size + y] + shape
                    base += constant + math.lgamma(count) - count * math.log(time)
        for parent in range(gains.shape[1]):
            total = -base
            for u in range(parent_size):
                for x in range(size):
                    log_time = math.log(max(dwell[u, child * size + x, parent], 0.0) + rate)
                    for y in range(size):
                        if x != y and allowed[child, x * size + y]:
                            count = transitions[u, child * squares + x * size + y, parent]
                            count = max(count, 0.0) + shape
                            total += constant + math.lgamma(count) - count * log_time
            gains[child, parent] = total
