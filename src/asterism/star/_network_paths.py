"""State paths drawn for all nodes together, each following the sampled states of its parents.

Node n jumps x → y with rate R^u(x,y) ρ(y)/ρ(x), u the sampled states of its parents. The averaged
chain has the rate A(x,y) ρ(y)/ρ(x), and its chance to stay in x from fraction φ to φ' of a piece
(``_independent_paths.py``) is G(φ')/G(φ) with G(φ) = e^{−B(x,x)φ} Σ_j v_j(x) φ^j. With
c = max_y R^u(x,y)/A(x,y), jumps proposed at c times that rate and accepted with probability
R^u(x,y)/(c A(x,y)) have the right rate. Nothing is divided by ρ: where ρ(x) vanishes at the end of
a piece, so does G, and the path leaves x in time.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner, kernel
from asterism.numerics._random_stream import choose, exponential, new_stream, uniform
from asterism.star._buffers import (
    CHILD,
    CHILDREN,
    IS_EXOGENOUS,
    IS_SUMMARY,
    PARENT,
    PARENTS,
    STATES,
    TABLE,
    WEIGHT,
)
from asterism.star._independent_paths import (
    PIECE,
    TERMS,
    forced_state,
    mass_of_step,
    piece_ends,
    powers_at_end,
    shifted_generator,
    start_weights,
    with_jump,
)
from asterism.star._kept_messages import at_grid_points, generator_of

_BISECTIONS = 60
_LARGEST_RATIO = 1e3
"""Beyond this R^u/A of a node with more than two states is cut: such parents are very unlikely,
and proposals for the other jumps would be rejected a thousand times over."""
_LAST_BIT = 1e-9
"""Fraction of a piece before its end at which a state that cannot last is left in any case."""


@inner
def _configuration(problem, node, states):
    """Number of the block of a node's table that belongs to its parents' states."""
    result = 0
    for edge in range(problem.node[node, PARENTS], problem.node[node + 1, PARENTS]):
        parent = problem.edge[edge, PARENT]
        if problem.node[node, IS_SUMMARY]:
            result += problem.weights[problem.edge[edge, WEIGHT] + states[parent]]
        else:
            result = result * problem.node[parent, STATES] + states[parent]
    return result


@inner
def _polynomial(terms, count, x, fraction):
    """ρ(x) at a fraction of the piece before its end, up to a factor common to all states."""
    value = terms[count - 1, x]
    for j in range(count - 2, -1, -1):
        value = value * fraction + terms[j, x]
    return value


@inner
def _log_stay(terms, count, base, size, x, fraction):
    """ln G(φ): its differences are the averaged chain's log chance to stay in x."""
    value = _polynomial(terms, count, x, fraction)
    return math.log(value) - base[x * size + x] * fraction if value > 0.0 else -math.inf


@inner
def _rate_ratio(rates, begin, size, x, base, length):
    """c = max_y R^u(x,y) / A(x,y) for the block of rates that starts at ``begin``."""
    result = 0.0
    for y in range(size):
        average = base[x * size + y]
        if y != x and average > 0.0:
            result = max(result, rates[begin + x * size + y] * length / average)
    return min(result, _LARGEST_RATIO) if size > 2 else result


@inner
def _next_proposal(ratio, terms, count, base, size, x, now, stream):
    """Fraction before the end of the piece at which the next jump is proposed, or −1."""
    if ratio == 0.0 or now <= 0.0:
        return -1.0
    here = _log_stay(terms, count, base, size, x, now)
    target = here - exponential(stream, ratio)
    if here == -math.inf or target <= _log_stay(terms, count, base, size, x, 0.0):
        return -1.0
    low = 0.0
    high = now
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if _log_stay(terms, count, base, size, x, middle) < target:
            low = middle
        else:
            high = middle
    return high


@kernel
def draw_network(problem, rates, messages, initial, times, width, n_draws, key):
    """Paths of all nodes together, each jump at a rate that the sampled parents determine.

    Returns as :func:`draw_independent`.
    """
    n_nodes = problem.node.shape[0] - 1
    steps = width.shape[0]
    widest = 0
    for node in range(n_nodes):
        widest = max(widest, problem.node[node, STATES])
    start = np.zeros((n_draws, n_nodes), np.int64)
    record = np.empty((256, 3), np.int64)
    when = np.empty(256)
    used = 0
    streams = np.empty((n_draws, 4), np.uint64)
    states = np.empty((n_draws, n_nodes), np.int64)
    weights = np.empty(widest)
    for draw in range(n_draws):
        streams[draw] = new_stream(key, draw)
    for node in range(n_nodes):
        own = weights[: problem.node[node, STATES]]
        norm = start_weights(problem, messages, initial, node, steps, own)
        for draw in range(n_draws):
            states[draw, node] = choose(streams[draw], own, norm)
    base = np.empty((n_nodes, widest * widest))
    terms = np.empty((n_nodes, TERMS, widest))
    count = np.ones(n_nodes, np.int64)
    ends = np.empty((n_nodes, 1, widest))
    proposal = np.empty(n_nodes)
    ratio = np.empty(n_nodes)
    for k in range(steps + 1):
        for node in range(n_nodes):
            forced = forced_state(messages, node, k, problem.node[node, IS_EXOGENOUS] == 1)
            for draw in range(n_draws):
                if forced >= 0 and forced != states[draw, node]:
                    states[draw, node] = forced
                    if k > 0:
                        record, when = with_jump(record, when, used, draw, node, forced, times[k])
                        used += 1
                if k == 0:
                    start[draw, node] = states[draw, node]
        if k == steps:
            break
        n_pieces = 1
        for node in range(n_nodes):
            if messages.clamp[node, k] < 0:
                generator = generator_of(problem, messages, node, steps)
                mass = mass_of_step(generator, problem.node[node, STATES], k) * width[k]
                n_pieces = max(n_pieces, math.ceil(mass / PIECE))
        length = width[k] / n_pieces
        if ends.shape[1] < n_pieces:
            ends = np.empty((n_nodes, n_pieces, widest))
        for node in range(n_nodes):
            if messages.clamp[node, k] < 0:
                size = problem.node[node, STATES]
                generator = generator_of(problem, messages, node, steps)
                backward = at_grid_points(problem, messages.backward, node, steps)
                shifted_generator(generator, size, k, length, base[node])
                end = backward[:, k + 1]
                piece_ends(base[node], size, end, n_pieces, terms[node], ends[node])
        for piece in range(n_pieces):
            for node in range(n_nodes):
                if messages.clamp[node, k] < 0:
                    size = problem.node[node, STATES]
                    count[node] = powers_at_end(base[node], size, ends[node, piece], terms[node])
            for draw in range(n_draws):
                stream = streams[draw]
                now = 1.0
                changed = -1  # everything is new at the beginning of a piece
                while True:
                    # new proposals for the node that changed and its children
                    first = 0
                    last = n_nodes
                    if changed >= 0:
                        first = problem.node[changed, CHILDREN] - 1
                        last = problem.node[changed + 1, CHILDREN]
                    for i in range(first, last):
                        node = i
                        if changed >= 0:
                            node = changed if i == first else problem.edge[i, CHILD]
                        proposal[node] = -1.0
                        if messages.clamp[node, k] >= 0:
                            continue
                        size = problem.node[node, STATES]
                        x = states[draw, node]
                        block = _configuration(problem, node, states[draw]) * size * size
                        begin = problem.node[node, TABLE] + block
                        ratio[node] = _rate_ratio(rates, begin, size, x, base[node], length)
                        if ratio[node] == 0.0 and not terms[node, 0, x] > 0.0:
                            # the parents forbid a jump that must come: averaged rates decide
                            ratio[node] = -1.0
                        proposal[node] = _next_proposal(
                            abs(ratio[node]),
                            terms[node],
                            count[node],
                            base[node],
                            size,
                            x,
                            now,
                            stream,
                        )
                    # the earliest proposal of all
                    node = -1
                    for other in range(n_nodes):
                        if proposal[other] >= 0.0 and (
                            node < 0 or proposal[other] > proposal[node]
                        ):
                            node = other
                    if node < 0:
                        break
                    now = proposal[node]
                    changed = node
                    size = problem.node[node, STATES]
                    x = states[draw, node]
                    norm = 0.0
                    for y in range(size):
                        weights[y] = 0.0
                        if y != x:
                            density = _polynomial(terms[node], count[node], y, now)
                            weights[y] = base[node, x * size + y] * density
                        norm += weights[y]
                    if not norm > 0.0:
                        continue
                    y = choose(stream, weights[:size], norm)
                    accepted = 1.0
                    must_leave = now < _LAST_BIT and not terms[node, 0, x] > 0.0
                    if ratio[node] > 0.0 and not must_leave:
                        block = _configuration(problem, node, states[draw]) * size * size
                        rate = rates[problem.node[node, TABLE] + block + x * size + y] * length
                        accepted = rate / (ratio[node] * base[node, x * size + y])
                    if size == 2 or uniform(stream) < accepted:
                        states[draw, node] = y
                        time = min(times[k] + (piece + 1.0 - now) * length, times[k + 1])
                        record, when = with_jump(record, when, used, draw, node, y, time)
                        used += 1
    return start, when[:used], record[:used]
