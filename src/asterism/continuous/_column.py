"""Compiled: the likelihood of one column as an Ornstein–Uhlenbeck process with noise."""

from __future__ import annotations

import math

from asterism.numerics._jit import kernel


@kernel
def log_likelihood(lam, spread, noise, rho, gap, is_first, on, value):
    """ln p(values) with resting level, starts and the stimulus' effects summed out.

    ``spread`` is the stationary variance, ``noise`` that of a measurement. Resting level and the
    start of every trajectory are normal with mean 0 and variance 1; a stimulus moves the resting
    level of a trajectory by a normal number of variance ``rho`` while it is on. ``on[i]`` is the
    time it was on since row i − 1, and how long before row i it ended: (n, 2).
    """
    n = len(gap)
    total = 0.0
    # information about the resting level, left over from the trajectories
    weight, pull = 1.0, 0.0
    # of the present trajectory: products of what the stimulus, the level and the values explain
    uu, ul, uv, ll, lv = 0.0, 0.0, 0.0, 0.0, 0.0
    mean_v, mean_l, mean_u, variance = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        if is_first[i]:
            if i > 0:
                share = rho / (1.0 + rho * uu)
                total += 0.5 * (share * uv * uv - math.log1p(rho * uu))
                weight += ll - share * ul * ul
                pull += lv - share * ul * uv
            uu, ul, uv, ll, lv = 0.0, 0.0, 0.0, 0.0, 0.0
            mean_v, mean_l, mean_u, variance = 0.0, 0.0, 0.0, 1.0
        else:
            a = math.exp(-lam * gap[i])
            mean_v *= a
            mean_l = a * mean_l + 1.0 - a
            late = math.exp(-lam * on[i, 1])
            mean_u = a * mean_u + late - late * math.exp(-lam * on[i, 0])
            variance = a * a * variance + spread * (1.0 - a * a)
        all_of_it = variance + noise
        ev, el, eu = value[i] - mean_v, -mean_l, -mean_u
        total -= 0.5 * (math.log(2.0 * math.pi * all_of_it) + ev * ev / all_of_it)
        # a value is explained by −e of level and stimulus
        uu += eu * eu / all_of_it
        ul += eu * el / all_of_it
        uv -= eu * ev / all_of_it
        ll += el * el / all_of_it
        lv -= el * ev / all_of_it
        gain = variance / all_of_it
        mean_v += gain * ev
        mean_l += gain * el
        mean_u += gain * eu
        variance *= 1.0 - gain
    share = rho / (1.0 + rho * uu)
    total += 0.5 * (share * uv * uv - math.log1p(rho * uu))
    weight += ll - share * ul * ul
    pull += lv - share * ul * uv
    return total + 0.5 * (pull * pull / weight - math.log(weight))
