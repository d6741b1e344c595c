"""Rates of one family while it is scored alone: energy, Gamma terms, update and extrapolation.

Rates approach their solution geometrically: every other update is extrapolated.
"""

from __future__ import annotations

import math

from asterism.kernels._jit import inner
from asterism.kernels.marginal import digamma

LOG_OF_ZERO_RATE = -1e12
_FARTHEST = 8.0  # times the last step that an extrapolation may go


@inner
def update_family_rates(
    size,
    n_configurations,
    rates,
    table,
    allowed,
    shape,
    rate,
    exact_point,
    geometric,
    dwell,
    transitions,
):
    """E and Gamma terms at the current rates, which then become posterior means; (E, Γ)."""
    rows = size * size
    energy = 0.0
    gamma_terms = 0.0
    constant = shape * math.log(rate) - math.lgamma(shape)
    for u in range(n_configurations):
        for x in range(size):
            time = dwell[u * size + x]
            energy += time * rates[u * rows + x * size + x]
            leave = 0.0
            for y in range(size):
                if x == y:
                    continue
                entry = u * rows + x * size + y
                if not allowed[x * size + y]:
                    rates[entry] = 0.0
                    table[entry] = LOG_OF_ZERO_RATE if geometric else 0.0
                    continue
                count = transitions[entry]
                if not geometric:
                    count *= rates[entry]
                if count > 0.0:
                    energy += count * math.log(rates[entry])
                count += shape
                gamma_terms += constant + math.lgamma(count) - count * math.log(time + rate)
                value = count / (time + rate)
                leave += value
                if exact_point:
                    value = math.exp(digamma(count)) / (time + rate)
                rates[entry] = value
                table[entry] = math.log(value) if geometric else value
            diagonal = u * rows + x * size + x
            rates[diagonal] = -leave
            table[diagonal] = -leave
    return energy, gamma_terms


@inner
def start_extrapolation(n_entries, rates, logs):
    """Remember where the rates begin; zero stands for entries that are no rates."""
    for i in range(n_entries):
        logs[i] = math.log(rates[i]) if rates[i] > 0.0 else 0.0


@inner
def extrapolate(size, n_configurations, geometric, n_plain, rates, table, logs, steps):
    """Put the rates where two updates in a row point (Aitken); the updates since then.

    ``logs`` and ``steps`` hold the logarithms after the last update and what it changed.
    """
    rows = size * size
    n_entries = n_configurations * rows
    along = 0.0
    squared = 0.0
    for i in range(n_entries):
        if rates[i] > 0.0:
            now = math.log(rates[i])
            step = now - logs[i]
            change = step - steps[i]
            along += change * step
            squared += change * change
            steps[i] = step
            logs[i] = now
    if n_plain == 0 or not squared > 0.0:
        return 1
    ahead = min(max(-along / squared, 0.0), _FARTHEST)
    for u in range(n_configurations):
        for x in range(size):
            leave = 0.0
            for y in range(size):
                entry = u * rows + x * size + y
                if x != y and rates[entry] > 0.0:
                    logs[entry] += min(max(ahead * steps[entry], -1.0), 1.0)
                    rates[entry] = math.exp(logs[entry])
                    table[entry] = logs[entry] if geometric else rates[entry]
                    leave += rates[entry]
            diagonal = u * rows + x * size + x
            rates[diagonal] = -leave
            table[diagonal] = -leave
    return 0
