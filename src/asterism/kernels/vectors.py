"""Loops over one vector, spelled out.

numba would accept numpy's array expressions as well, but compiles each of them anew, which takes
far longer than these few loops.
"""

from __future__ import annotations

import numpy as np

from asterism.kernels._jit import inlined, kernel


@kernel
def fill(vector, value):
    for i in range(len(vector)):
        vector[i] = value


@kernel
def copy(source, target):
    for i in range(len(source)):
        target[i] = source[i]


@kernel
def add(vector, other):
    """vector += other."""
    for i in range(len(vector)):
        vector[i] += other[i]


@kernel
def multiply(vector, other):
    """vector *= other."""
    for i in range(len(vector)):
        vector[i] *= other[i]


@kernel
def scale(vector, factor):
    """vector *= factor."""
    for i in range(len(vector)):
        vector[i] *= factor


@kernel
def total(vector):
    result = 0.0
    for i in range(len(vector)):
        result += vector[i]
    return result


@kernel
def largest(vector):
    result = vector[0]
    for i in range(1, len(vector)):
        result = max(result, vector[i])
    return result


@kernel
def doubled(array):
    """A copy with room for as many entries again."""
    result = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        result[i] = array[i]
    return result


@inlined
def largest_of(values, count):
    """The largest of some numbers ≥ 0, or NaN if there is one; ``values[0]`` is overwritten.

    Such numbers are ordered like the integers with the same bits, and the largest of integers can
    be found with vector instructions.
    """
    bits = values.view(np.int64)
    largest = np.int64(0)
    for k in range(count):
        largest = max(largest, bits[k])
    bits[0] = largest
    return values[0]


@kernel
def sort_first(values, count):
    """Sort the first few values in place; there are only some tens of them."""
    for i in range(1, count):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
