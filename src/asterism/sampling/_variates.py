"""Compiled: normal, Gamma and Dirichlet variates from one stream of uniform numbers."""

from __future__ import annotations

import math

from asterism.numerics._jit import inner
from asterism.numerics._random_stream import uniform


@inner
def normal(stream):
    """A standard normal number (Box and Muller; the second one is not kept)."""
    radius = math.sqrt(-2.0 * math.log(uniform(stream)))
    return radius * math.cos(2.0 * math.pi * uniform(stream))


@inner
def gamma(stream, shape):
    """A Gamma number of rate 1 (Marsaglia and Tsang, 2000); never zero."""
    boost = 1.0
    if shape < 1.0:
        boost = max(uniform(stream) ** (1.0 / shape), 1e-290)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(stream)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            if math.log(uniform(stream)) < 0.5 * x * x + d - d * v + d * math.log(v):
                return d * v * boost


@inner
def draw_index(stream, log_weights, first, last):
    """Turn ``log_weights[first:last]`` into probabilities and draw one place among them."""
    top = -math.inf
    for i in range(first, last):
        top = max(top, log_weights[i])
    total = 0.0
    for i in range(first, last):
        log_weights[i] = math.exp(log_weights[i] - top)
        total += log_weights[i]
    target = uniform(stream)
    chosen = first
    found = False
    for i in range(first, last):
        log_weights[i] /= total
        if not found and log_weights[i] > 0.0:
            chosen = i
            target -= log_weights[i]
            found = target < 0.0
    return chosen
