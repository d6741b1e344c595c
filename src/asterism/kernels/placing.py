"""Where a cumulative density of time steps reaches given values."""

from __future__ import annotations

import math

import numpy as np

from asterism.kernels._jit import kernel

_LARGEST_NUMBER_OF_ITERATIONS = 100


@kernel
def place_steps(target, length, base, decay, left, right):
    """Times τ in their gaps at which ∫_0^τ density equals ``target``, by guarded Newton steps.

    The density is base + left e^{−τ/decay} + right e^{(τ−length)/decay}: positive, so that there
    is exactly one such time; a step that leaves the bracket is replaced by a bisection.
    """
    placed = np.empty(target.shape[0])
    for i in range(target.shape[0]):
        low = 0.0
        high = length[i]
        at_start = math.exp(-length[i] / decay[i])
        tau = 0.5 * high
        for _ in range(_LARGEST_NUMBER_OF_ITERATIONS):
            from_left = math.exp(-tau / decay[i])
            from_right = math.exp((tau - length[i]) / decay[i])
            reached = base[i] * tau - left[i] * decay[i] * math.expm1(-tau / decay[i])
            reached += right[i] * decay[i] * (from_right - at_start)
            if reached < target[i]:
                low = tau
            else:
                high = tau
            slope = base[i] + left[i] * from_left + right[i] * from_right
            step = (target[i] - reached) / slope
            if not low < tau + step < high:
                step = 0.5 * (low + high) - tau
            tau += step
            if abs(step) <= 1e-15 * length[i]:
                break
        placed[i] = tau
    return placed
