"""One independent stream of random numbers per path: xoshiro256++ on four plain integers.

A path's stream depends only on the user's seed and the path's number, so that results are the
same whatever the number of threads. The four words of a stream are filled by splitmix64.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner, kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@inner
def _scramble(z):
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@kernel
def new_stream(key, number):
    """The stream of path ``number`` under a two-word ``key``."""
    stream = np.empty(4, np.uint64)
    z = key[0] ^ _scramble(key[1] + _GOLDEN * np.uint64(number + 1))
    for i in range(4):
        z = z + _GOLDEN
        stream[i] = _scramble(z)
    return stream


@inner
def _rotate(x, k):
    return (x << np.uint64(k)) | (x >> np.uint64(64 - k))


@inner
def uniform(stream):
    """A number in (0, 1), never 0 and never 1."""
    result = _rotate(stream[0] + stream[3], 23) + stream[0]
    t = stream[1] << np.uint64(17)
    stream[2] ^= stream[0]
    stream[3] ^= stream[1]
    stream[1] ^= stream[2]
    stream[0] ^= stream[3]
    stream[2] ^= t
    stream[3] = _rotate(stream[3], 45)
    return (float(result >> np.uint64(12)) + 0.5) * (1.0 / 4503599627370496.0)


@inner
def exponential(stream, rate):
    """A waiting time with this rate."""
    return -math.log(uniform(stream)) / rate


@inner
def choose(stream, weights, total):
    """An index drawn in proportion to ``weights``, whose sum is ``total``; never a weight of 0."""
    target = uniform(stream) * total
    last = -1
    for i in range(len(weights)):
        if weights[i] > 0.0:
            last = i
            target -= weights[i]
            if target < 0.0:
                break
    return last
