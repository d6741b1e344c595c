"""Anderson mixing of moments and rates together: marginal dynamics in fewer sweeps.

The state of that iteration is every moment and the logarithm of every rate.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.kernels._jit import inner
from asterism.kernels.anderson import DEPTH, add_products, fit, remember, step_back
from asterism.kernels.arrays import CONFIGURATIONS, STATES, TABLE
from asterism.kernels.moments import project_moments

_LARGEST_STEP = 2.0  # no mixed rate is further from its image than this factor's logarithm


@inner
def logarithms(rates, logs):
    """ln |rate| of every entry; zero for rates of zero, which stay as they are."""
    for i in range(rates.shape[0]):
        size = abs(rates[i])
        logs[i] = math.log(size) if size > 0.0 else 0.0


@inner
def set_rates(problem, logs, image, exact_point, geometric, rates, table):
    """Rates from mixed logarithms; exit rates are sums again unless they are free."""
    for node in range(problem.node.shape[0] - 1):
        size = problem.node[node, STATES]
        for row in range(problem.node[node, CONFIGURATIONS] * size):
            begin = problem.node[node, TABLE] + row * size
            diagonal = begin + row % size
            leave = 0.0
            for entry in range(begin, begin + size):
                if rates[entry] == 0.0:
                    continue
                step = min(max(logs[entry] - image[entry], -_LARGEST_STEP), _LARGEST_STEP)
                size_of_rate = math.exp(image[entry] + step)
                if entry == diagonal:
                    rates[entry] = -size_of_rate
                else:
                    rates[entry] = size_of_rate
                    leave += size_of_rate
                    if geometric:
                        table[entry] = image[entry] + step
            if not exact_point:
                rates[diagonal] = -leave
            table[diagonal] = rates[diagonal]


@inner(allocates=True)
def mix(problem, moment_history, rate_history, moments, logs, n_before, gram):
    """Put ``moments`` and ``logs``, the images of a sweep, where the differences point.

    ``n_before`` differences were stored before this one. ``gram`` holds their inner products.
    """
    slot = n_before % DEPTH
    remember(moment_history, moments, slot)
    remember(rate_history, logs, slot)
    n_kept = min(n_before + 1, DEPTH)
    right = np.zeros(DEPTH)
    gamma = np.zeros(DEPTH)
    for j in range(DEPTH):
        gram[slot, j] = 0.0
    add_products(moment_history, slot, n_kept, gram, right)
    add_products(rate_history, slot, n_kept, gram, right)
    for j in range(DEPTH):
        gram[j, slot] = gram[slot, j]
    if fit(gram, right, n_kept, gamma):
        step_back(moment_history, moments, n_kept, gamma)
        step_back(rate_history, logs, n_kept, gamma)
        for d in range(problem.step_start.shape[0] - 1):
            project_moments(problem, d, moments)
