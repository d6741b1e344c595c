"""Slow reference for interventions: two nodes, the joint chain written out, one matrix at a time.

Time is cut where an intervention begins or ends and at measurements. While a node is held the
joint generator has no jumps and no exit rate of it; where it begins, probability is moved to the
state that is set. Expected statistics come from a fine sum over time.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.linalg import expm


def joint_generator(rates: dict[str, Any], held: set[int]) -> np.ndarray:
    """4 × 4, states (a, b) → 2a + b, of A → B; nodes in ``held`` do not move."""
    q = np.zeros((4, 4))
    for a in range(2):
        for b in range(2):
            here = 2 * a + b
            if 0 not in held:
                q[here, 2 * (1 - a) + b] += rates["A"][b, a, 1 - a]
            if 1 not in held:
                q[here, 2 * a + 1 - b] += rates["B"][a, b, 1 - b]
    return q - np.diag(q.sum(axis=1))


def held_chain(
    rates: dict[str, Any],
    measurements: list[tuple[float, int, np.ndarray]],
    interventions: list[tuple[int, float, float, int]],
    end: float,
    n_fine: int = 400,
) -> tuple[float, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """ln P(Y), dwell times and transitions of both nodes (axis of the other node first)."""
    cuts = sorted(
        {
            0.0,
            end,
            *(t for t, _, _ in measurements),
            *(t for _, s, e, _ in interventions for t in (s, e)),
        }
    )
    times = [0.0]
    for begin, stop in itertools.pairwise(cuts):
        times += list(np.linspace(begin, stop, n_fine + 1)[1:])
    operators = [(_at(times[0], measurements, interventions), None)]
    for begin, stop in itertools.pairwise(times):
        held = {n for n, s, e, _ in interventions if s <= begin + 1e-12 and stop <= e + 1e-12}
        q = joint_generator(rates, held)
        operators.append((_at(stop, measurements, interventions), (q, stop - begin, held)))
    forward = [np.full(4, 0.25) @ operators[0][0]]
    for at, (q, h, _) in operators[1:]:
        forward.append(forward[-1] @ expm(q * h) @ at)
    backward = [np.ones(4)]
    for at, (q, h, _) in reversed(operators[1:]):
        backward.append(expm(q * h) @ (at @ backward[-1]))
    backward.reverse()
    total = float(forward[-1].sum())
    dwell = {n: np.zeros((2, 2)) for n in "AB"}
    moves = {n: np.zeros((2, 2, 2)) for n in "AB"}
    for k, (at, (q, h, held)) in enumerate(operators[1:]):
        left, right = forward[k], at @ backward[k + 1]
        middle_left, middle_right = left @ expm(q * h / 2), expm(q * h / 2) @ right
        for x in range(4):
            a, b = divmod(x, 2)
            weight = middle_left[x] * middle_right[x] * h / total
            if 0 not in held:
                dwell["A"][b, a] += weight
                y = 2 * (1 - a) + b
                moves["A"][b, a, 1 - a] += middle_left[x] * q[x, y] * middle_right[y] * h / total
            if 1 not in held:
                dwell["B"][a, b] += weight
                y = 2 * a + 1 - b
                moves["B"][a, b, 1 - b] += middle_left[x] * q[x, y] * middle_right[y] * h / total
    return float(np.log(total)), dwell, moves


def _at(
    time: float,
    measurements: list[tuple[float, int, np.ndarray]],
    interventions: list[tuple[int, float, float, int]],
) -> np.ndarray:
    """What happens at one moment, as a matrix that acts on row vectors from the right."""
    result = np.eye(4)
    for node, start, _, state in interventions:
        if abs(start - time) < 1e-12:
            move = np.zeros((4, 4))
            for x in range(4):
                a, b = divmod(x, 2)
                move[x, 2 * state + b if node == 0 else 2 * a + state] = 1.0
            result = result @ move
    for when, node, likelihood in measurements:
        if abs(when - time) < 1e-12:
            held = [x for n, s, e, x in interventions if n == node and s <= when <= e]
            values = np.full(2, likelihood[held[0]]) if held else likelihood
            result = result @ np.diag([values[divmod(x, 2)[node]] for x in range(4)])
    return result
