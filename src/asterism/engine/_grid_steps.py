"""Where the steps of a grid lie, compiled.

How many steps there are in a gap, the time between two pieces of evidence, and how dense they
are. Densities and lengths are in units of the system's relaxation time. The density in a gap is
base + left e^{−τ/decay} + right e^{(τ−length)/decay}: more steps next to decisive evidence, fewer
in the middle of a very long gap.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner, kernel

LEAST_STEPS = 3
"""In a gap of half a step or more, where smooth steps are to be of fourth order."""
_LONG_GAP = 30.0  # relaxation times after which the middle of a gap is at rest
_LONG_DECAY = 8.0
SHARP_DENSITY = 2.0  # extra density of steps next to decisive evidence
_ROUNDING = 1e-9
_LARGEST_NUMBER_OF_ITERATIONS = 100


@inner
def _density_profile(length, sharp_left, sharp_right):
    """Base density, decay length and the densities added at both ends of a gap."""
    base = 1.0
    decay = 1.0
    if length > _LONG_GAP:
        base = _LONG_GAP / length
        decay = _LONG_DECAY
    at_rest = 1.0 - base
    return (
        base,
        decay,
        at_rest + SHARP_DENSITY * sharp_left,
        at_rest + SHARP_DENSITY * sharp_right,
    )


@inner
def _cumulative(tau, length, base, decay, left, right):
    """Integral of the density from the start of the gap to ``tau``."""
    from_left = left * decay * -math.expm1(-tau / decay)
    from_right = right * decay * (math.exp((tau - length) / decay) - math.exp(-length / decay))
    return base * tau + from_left + from_right


@inner
def _place(target, guess, length, base, decay, left, right):
    """The time τ at which the cumulative density equals ``target``, by guarded Newton steps.

    The density is positive, so that there is exactly one; a step that leaves the bracket is
    replaced by a bisection.
    """
    low = 0.0
    high = length
    tau = guess
    for _ in range(_LARGEST_NUMBER_OF_ITERATIONS):
        reached = _cumulative(tau, length, base, decay, left, right)
        if reached < target:
            low = tau
        else:
            high = tau
        slope = base + left * math.exp(-tau / decay) + right * math.exp((tau - length) / decay)
        step = (target - reached) / slope
        if not low < tau + step < high:
            step = 0.5 * (low + high) - tau
        tau += step
        if abs(step) <= 1e-15 * length:
            break
    return tau


@kernel
def lay_out(trajectory, time, sharpness, factors, rate, step, is_even, least):
    """Cut the gaps between event times; (step_start, width, point_time, point of event time).

    ``is_even``: equal steps of at most ``step``, in the unit of ``time``. Otherwise ``step`` is in
    relaxation times 1/``rate``, and every step is then cut into ``factors[d]`` parts. With ``rate``
    zero one step per gap is enough. A gap of half a step or more has at least ``least`` steps.
    """
    n = trajectory.shape[0]
    n_trajectories = factors.shape[0]
    n_steps = np.zeros(n, dtype=np.int64)  # of the gap that ends at each event time
    point = np.zeros(n, dtype=np.int64)
    step_start = np.zeros(n_trajectories + 1, dtype=np.int64)
    for i in range(1, n):
        d = trajectory[i]
        if d != trajectory[i - 1]:
            continue
        gap = time[i] - time[i - 1]
        total = gap
        if not is_even:
            length = gap * rate
            base, decay, left, right = _density_profile(length, sharpness[i - 1], sharpness[i])
            total = _cumulative(length, length, base, decay, left, right)
        cuts = max(1, math.ceil(total / step - _ROUNDING))
        if 2.0 * total > step:
            cuts = max(cuts, least)
        if not is_even and rate > 0.0:
            cuts *= factors[d]
        n_steps[i] = cuts
        point[i] = point[i - 1] + cuts
        step_start[d + 1] += cuts
    for d in range(n_trajectories):
        step_start[d + 1] += step_start[d]
    width = np.empty(step_start[n_trajectories])
    point_time = np.empty(step_start[n_trajectories] + n_trajectories)
    for i in range(n):
        d = trajectory[i]
        at = step_start[d] + point[i] + d
        point_time[at] = time[i]
        cuts = n_steps[i]
        if cuts == 0:
            continue
        gap = time[i] - time[i - 1]
        first = step_start[d] + point[i - 1]
        length = gap * rate if not is_even else 0.0
        base, decay, left, right = _density_profile(length, sharpness[i - 1], sharpness[i])
        uneven = not is_even and rate > 0.0 and (left > 0.0 or right > 0.0)
        total = _cumulative(length, length, base, decay, left, right) if uneven else 0.0
        share = 0.0
        for k in range(cuts):
            point_time[first + d + k] = time[i - 1] + share * gap
            following = (k + 1) / cuts
            if k + 1 == cuts:
                following = 1.0
            elif uneven:
                target = following * total
                following = _place(target, share * length, length, base, decay, left, right)
                following /= length
            # widths from shares, so that tiny steps at late times do not suffer from cancellation
            width[first + k] = (following - share) * gap
            share = following
    return step_start, width, point_time, point
