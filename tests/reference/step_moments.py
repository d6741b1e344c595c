"""Propagator and moments of one time step in many digits, straight from their definition.

exp(h [[A, ρ f], [0, A]]) = [[P, G], [0, P]] by its Taylor series, with as many digits and terms as
it takes. Slow and obvious.
"""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np

_TERMS = 400


def step_in_many_digits(
    generator: np.ndarray, h: float, f: np.ndarray, r: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """exp(A h) up to a factor (its largest entry is one), and W, whose diagonal sums to h."""
    size = len(f)
    n = 2 * size
    with decimal.localcontext(prec=80, Emin=-999999, Emax=999999):
        shift = min(Decimal(float(generator[x, x])) for x in range(size))
        step = Decimal(float(h))
        block = [[Decimal(0)] * n for _ in range(n)]
        for x in range(size):
            for y in range(size):
                value = Decimal(float(generator[x, y])) - (shift if x == y else 0)
                block[x][y] = block[size + x][size + y] = value * step
                block[x][size + y] = Decimal(float(r[x])) * Decimal(float(f[y])) * step
        term = [[Decimal(int(i == j)) for j in range(n)] for i in range(n)]
        total = [row[:] for row in term]
        for power in range(1, _TERMS):
            term = [
                [sum(term[i][k] * block[k][j] for k in range(n)) / power for j in range(n)]
                for i in range(n)
            ]
            total = [[a + b for a, b in zip(*rows)] for rows in zip(total, term)]
        largest = max(total[x][y] for x in range(size) for y in range(size))
        trace = sum(total[x][size + x] for x in range(size))
        propagator = [[float(total[x][y] / largest) for y in range(size)] for x in range(size)]
        moments = [
            [float(total[y][size + x] * step / trace) for y in range(size)] for x in range(size)
        ]
    return np.array(propagator), np.array(moments)
