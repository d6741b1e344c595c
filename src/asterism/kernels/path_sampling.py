"""State paths drawn from the messages of a solved trajectory.

A step is cut into pieces on which the shifted generator B = (A − min A(x,x)) h has row sums of a
few units. With ρ at the end of a piece, v_j = B^j ρ / j! are computed once for all draws, and
Σ_j v_j φ^j is, up to a common factor, ρ at the fraction φ before the end.

*Independent nodes*: exact for the averaged generator. From state x the piece has j virtual events
with probability ∝ v_j(x), at uniform times; each moves x → y with probability ∝ B(x,y) v_{j−1}(y)
and y = x is no jump.

*Network*: node n jumps x → y with rate R^u(x,y) ρ(y)/ρ(x), u the sampled states of its parents.
The averaged chain has the rate A(x,y) ρ(y)/ρ(x), and its chance to stay in x from fraction φ to φ'
is G(φ')/G(φ) with G(φ) = e^{−B(x,x)φ} Σ_j v_j(x) φ^j. With c = max_y R^u(x,y)/A(x,y), jumps
proposed at c times that rate and accepted with probability R^u(x,y)/(c A(x,y)) have the right
rate. Nothing is divided by ρ: where ρ(x) vanishes at the end of a piece, so does G, and the path
leaves x in time.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.kernels._jit import inner, kernel
from asterism.kernels.arrays import (
    CHILD,
    CHILDREN,
    INITIAL,
    IS_EXOGENOUS,
    IS_SUMMARY,
    PARENT,
    PARENTS,
    STATES,
    TABLE,
    WEIGHT,
)
from asterism.kernels.random_stream import choose, exponential, new_stream, uniform
from asterism.kernels.readings import at_grid_points, generator_of
from asterism.kernels.vectors import doubled, total

_PIECE = 4.0
"""Largest row sum of B on a piece."""
_TERMS = 80
_BISECTIONS = 60
_LARGEST_RATIO = 1e3
"""Beyond this R^u/A of a node with more than two states is cut: such parents are very unlikely,
and proposals for the other jumps would be rejected a thousand times over."""
_LAST_MOMENT = 1e-9
"""Fraction of a piece before its end at which a state that cannot last is left in any case."""

# columns of the records of jumps
DRAW = 0
NODE = 1
ENTERED = 2


@inner
def _mass(generator, size, k):
    """Largest row sum of the shifted generator of a step, per unit of time."""
    lowest = generator[0, k]
    for x in range(1, size):
        lowest = min(lowest, generator[x * size + x, k])
    largest = 0.0
    for x in range(size):
        row = -lowest
        for y in range(size):
            row += generator[x * size + y, k]
        largest = max(largest, row)
    return largest


@inner
def _shifted(generator, size, k, length, base):
    """B of a piece of this length, row by row."""
    lowest = generator[0, k]
    for x in range(1, size):
        lowest = min(lowest, generator[x * size + x, k])
    for x in range(size):
        for y in range(size):
            value = generator[x * size + y, k]
            if x == y:
                value -= lowest
            base[x * size + y] = value * length


@inner
def _series(base, size, end, terms):
    """v_j = B^j ρ / j! for as many j as matter in some state; returns how many."""
    for x in range(size):
        terms[0, x] = end[x]
    count = 1
    while count < _TERMS:
        matters = count <= size
        for x in range(size):
            value = 0.0
            for y in range(size):
                value += base[x * size + y] * terms[count - 1, y]
            terms[count, x] = value / count
            sum_so_far = 0.0
            for j in range(count):
                sum_so_far += terms[j, x]
            if terms[count, x] > 1e-17 * sum_so_far:
                matters = True
        count += 1
        if not matters:
            break
    return count


@inner
def _piece_ends(base, size, end, n_pieces, terms, ends):
    """ρ at the end of every piece, the last one first known; each scaled to a largest of one."""
    for x in range(size):
        ends[n_pieces - 1, x] = end[x]
    for piece in range(n_pieces - 1, 0, -1):
        count = _series(base, size, ends[piece], terms)
        largest = 0.0
        for x in range(size):
            ends[piece - 1, x] = 0.0
            for j in range(count):
                ends[piece - 1, x] += terms[j, x]
            largest = max(largest, ends[piece - 1, x])
        for x in range(size):
            ends[piece - 1, x] /= largest


@inner(allocates=True)
def _with_room(record, used):
    """The table of records, larger if it is full."""
    if used < record.shape[0]:
        return record
    result = np.empty((2 * record.shape[0], 3), np.int64)
    for i in range(used):
        for j in range(3):
            result[i, j] = record[i, j]
    return result


@inner
def _sort(values, count):
    for i in range(1, count):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@inner
def _start_weights(problem, messages, initial, node, steps, weights):
    """p0(x) ρ(x) just before the evidence at the start; returns the sum."""
    size = problem.node[node, STATES]
    forward = at_grid_points(problem, messages.forward, node, steps)
    backward = at_grid_points(problem, messages.backward, node, steps)
    result = 0.0
    for x in range(size):
        if problem.node[node, IS_EXOGENOUS] == 1:
            weights[x] = forward[x, 0]
        else:
            weights[x] = initial[problem.node[node, INITIAL] + x] * backward[x, 0]
        result += weights[x]
    return result


@inner
def _forced_state(messages, node, k, is_exogenous):
    """State that a node is known to enter at grid point k, or −1."""
    if messages.entered[node, k] >= 0:
        return messages.entered[node, k]
    if is_exogenous and k < messages.clamp.shape[1]:
        return messages.clamp[node, k]
    return -1


@kernel
def virtual_events(problem, messages, width):
    """How many virtual events one draw takes: summed over nodes; and of the busiest node per step.

    Both decide whether drawing is affordable.
    """
    steps = width.shape[0]
    summed = 0.0
    busiest = 0.0
    for k in range(steps):
        highest = 0.0
        for node in range(problem.node.shape[0] - 1):
            if messages.clamp[node, k] < 0:
                generator = generator_of(problem, messages, node, steps)
                mass = _mass(generator, problem.node[node, STATES], k) * width[k]
                summed += mass
                highest = max(highest, mass)
        busiest += highest
    return summed, busiest


@kernel
def draw_independent(problem, messages, initial, times, width, n_draws, key):
    """Paths of all nodes, each drawn on its own.

    Returns the states at the start (draws, N) and of every jump its time and its record (columns
    named above), in the order of time within each draw and node.
    """
    n_nodes = problem.node.shape[0] - 1
    steps = width.shape[0]
    start = np.zeros((n_draws, n_nodes), np.int64)
    record = np.empty((256, 3), np.int64)
    when = np.empty(256)
    used = 0
    moments = np.empty(_TERMS)
    streams = np.empty((n_draws, 4), np.uint64)
    state = np.empty(n_draws, np.int64)
    for node in range(n_nodes):
        size = problem.node[node, STATES]
        is_exogenous = problem.node[node, IS_EXOGENOUS] == 1
        generator = generator_of(problem, messages, node, steps)
        backward = at_grid_points(problem, messages.backward, node, steps)
        base = np.empty(size * size)
        terms = np.empty((_TERMS, size))
        weights = np.empty(size)
        ends = np.empty((1, size))
        norm = _start_weights(problem, messages, initial, node, steps, weights)
        for draw in range(n_draws):
            # a draw's numbers do not depend on how many draws there are
            streams[draw] = new_stream(key, draw * n_nodes + node)
            state[draw] = choose(streams[draw], weights, norm)
        for k in range(steps + 1):
            forced = _forced_state(messages, node, k, is_exogenous)
            for draw in range(n_draws):
                if forced >= 0 and forced != state[draw]:
                    state[draw] = forced
                    if k > 0:
                        record = _with_room(record, used)
                        when = doubled(when) if used == len(when) else when
                        record[used, DRAW] = draw
                        record[used, NODE] = node
                        record[used, ENTERED] = forced
                        when[used] = times[k]
                        used += 1
                if k == 0:
                    start[draw, node] = state[draw]
            if k == steps:
                break
            if messages.clamp[node, k] >= 0:
                continue
            n_pieces = max(1, math.ceil(_mass(generator, size, k) * width[k] / _PIECE))
            length = width[k] / n_pieces
            _shifted(generator, size, k, length, base)
            if ends.shape[0] < n_pieces:
                ends = np.empty((n_pieces, size))
            _piece_ends(base, size, backward[:, k + 1], n_pieces, terms, ends)
            for piece in range(n_pieces):
                count = _series(base, size, ends[piece], terms)
                for draw in range(n_draws):
                    stream = streams[draw]
                    x = state[draw]
                    norm = 0.0
                    for j in range(count):
                        norm += terms[j, x]
                    events = choose(stream, terms[:count, x], norm)
                    for j in range(events):
                        moments[j] = uniform(stream)
                    _sort(moments, events)
                    for j in range(events):
                        for y in range(size):
                            weights[y] = base[x * size + y] * terms[events - 1 - j, y]
                        y = choose(stream, weights, total(weights))
                        if y != x:
                            x = y
                            record = _with_room(record, used)
                            when = doubled(when) if used == len(when) else when
                            record[used, DRAW] = draw
                            record[used, NODE] = node
                            record[used, ENTERED] = x
                            when[used] = min(times[k] + (piece + moments[j]) * length, times[k + 1])
                            used += 1
                    state[draw] = x
    return start, when[:used], record[:used]


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
        norm = _start_weights(problem, messages, initial, node, steps, own)
        for draw in range(n_draws):
            states[draw, node] = choose(streams[draw], own, norm)
    base = np.empty((n_nodes, widest * widest))
    terms = np.empty((n_nodes, _TERMS, widest))
    count = np.ones(n_nodes, np.int64)
    ends = np.empty((n_nodes, 1, widest))
    proposal = np.empty(n_nodes)
    ratio = np.empty(n_nodes)
    for k in range(steps + 1):
        for node in range(n_nodes):
            forced = _forced_state(messages, node, k, problem.node[node, IS_EXOGENOUS] == 1)
            for draw in range(n_draws):
                if forced >= 0 and forced != states[draw, node]:
                    states[draw, node] = forced
                    if k > 0:
                        record = _with_room(record, used)
                        when = doubled(when) if used == len(when) else when
                        record[used, DRAW] = draw
                        record[used, NODE] = node
                        record[used, ENTERED] = forced
                        when[used] = times[k]
                        used += 1
                if k == 0:
                    start[draw, node] = states[draw, node]
        if k == steps:
            break
        n_pieces = 1
        for node in range(n_nodes):
            if messages.clamp[node, k] < 0:
                generator = generator_of(problem, messages, node, steps)
                mass = _mass(generator, problem.node[node, STATES], k) * width[k]
                n_pieces = max(n_pieces, math.ceil(mass / _PIECE))
        length = width[k] / n_pieces
        if ends.shape[1] < n_pieces:
            ends = np.empty((n_nodes, n_pieces, widest))
        for node in range(n_nodes):
            if messages.clamp[node, k] < 0:
                size = problem.node[node, STATES]
                generator = generator_of(problem, messages, node, steps)
                backward = at_grid_points(problem, messages.backward, node, steps)
                _shifted(generator, size, k, length, base[node])
                end = backward[:, k + 1]
                _piece_ends(base[node], size, end, n_pieces, terms[node], ends[node])
        for piece in range(n_pieces):
            for node in range(n_nodes):
                if messages.clamp[node, k] < 0:
                    size = problem.node[node, STATES]
                    count[node] = _series(base[node], size, ends[node, piece], terms[node])
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
                    must_leave = now < _LAST_MOMENT and not terms[node, 0, x] > 0.0
                    if ratio[node] > 0.0 and not must_leave:
                        block = _configuration(problem, node, states[draw]) * size * size
                        rate = rates[problem.node[node, TABLE] + block + x * size + y] * length
                        accepted = rate / (ratio[node] * base[node, x * size + y])
                    if size == 2 or uniform(stream) < accepted:
                        states[draw, node] = y
                        record = _with_room(record, used)
                        when = doubled(when) if used == len(when) else when
                        record[used, DRAW] = draw
                        record[used, NODE] = node
                        record[used, ENTERED] = y
                        when[used] = min(times[k] + (piece + 1.0 - now) * length, times[k + 1])
                        used += 1
    return start, when[:used], record[:used]
