"""Paths of chains that influence each other, drawn jump by jump; compiled.

On a step a chain has the generator A, and ρ(x) is its backward vector. Given all evidence it jumps
x → y with rate A(x,y) ρ(y)/ρ(x). A step is cut into pieces of length h on which the matrix
B = (A − min A(x,x)) h has row sums of a few units. With ρ at the end of a piece, the vectors
v_j = B^j ρ / j! are computed once for all draws, and Σ_j v_j(x) φ^j is, up to a factor common to
all states, ρ(x) at the fraction φ before the end. The chance to stay in x from fraction φ to φ' is
G(φ')/G(φ) with

    G(φ) = e^{−B(x,x) φ} Σ_j v_j(x) φ^j,

from which the time of the next jump follows by iteration. Nothing is divided by ρ: where ρ(x)
vanishes at the end of a piece, so does G, and the path leaves x in time.

Chains may share nodes. A node then follows the first chain that holds it: jumps of the node that
other chains propose do not happen. After every jump the chains that it concerns propose anew.

With rates R^u of their own, u the present states of a node's parents, chains of single nodes
propose jumps c = max_y R^u(x,y)/A(x,y) times as often; a jump happens with probability
R^u(x,y)/(c A(x,y)) and so has the right rate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.numerics._bundle import bundle
from asterism.numerics._jit import inner, kernel
from asterism.numerics._random_stream import choose, exponential, new_stream, uniform
from asterism.numerics._step import doubled

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

PIECE = 4.0
"""Largest row sum of B on a piece."""
_TERMS = 80
_ITERATIONS = 120
_SMALL = 1e-9  # of the logarithm of a probability
_LARGEST_RATIO = 1e3
"""Beyond this R^u/A of a chain with more than two states is cut: such parents are very unlikely,
and proposals for the other jumps would be rejected a thousand times over."""
_LAST_BIT = 1e-9
"""Fraction of a piece before its end at which a state that cannot last is left in any case."""

DRAW, NODE, ENTERED = 0, 1, 2
"""Columns of the record of jumps."""


class Chains(NamedTuple):
    """Which chains there are, and their jumps; ragged things flat with offsets."""

    set_start: IntArray
    """First chain of each set: those of one set are drawn together, sets are independent."""
    node_start: IntArray
    node: IntArray
    """Nodes of each chain, and"""
    stride: IntArray
    """what a state of the node counts in the number of the joint state."""
    n_states: IntArray
    """(N,) of every node of the network."""
    row_start: IntArray
    """First joint state of each chain."""
    per_row: IntArray
    """Jumps out of a joint state of each chain."""
    entry_start: IntArray
    """First jump of each chain; the jumps out of a joint state are neighbours."""
    target: IntArray
    """(jumps,) joint state behind each."""
    mover: IntArray
    """(jumps,) the node that jumps; −1 where it follows another chain."""
    entered: IntArray
    """(jumps,) its state afterwards."""
    concerned_start: IntArray
    concerned: IntArray
    """Chains that a jump of each node concerns."""


class Steps(NamedTuple):
    """The chains along one trajectory of K steps."""

    rate: FloatArray
    """(jumps, columns)"""
    diagonal: FloatArray
    """(joint states, columns) of A; +inf for states that cannot be."""
    column: IntArray
    """(K,) which column holds on each step."""
    ending: FloatArray
    """(joint states, K) ρ at the end of each step, evidence there included."""
    first: FloatArray
    """(joint states,) weights of the states at the start."""
    width: FloatArray
    """(K,)"""
    time: FloatArray
    """(K + 1,)"""
    forced_start: IntArray
    """(sets + 1,) first row, for each set, of"""
    forced: IntArray
    """grid point, node and state: what is known to happen, in the order of time."""


class Room(NamedTuple):
    """What is at work in one set of chains."""

    first: int
    """Its first chain, and"""
    row: int
    """its first joint state."""
    terms: FloatArray
    """(j, joint states) v_j on the present piece; v_0 is ρ at its end."""
    total: FloatArray
    """Σ_j v_j, ρ at the beginning of the piece."""
    n_terms: IntArray
    """How many terms each chain has."""
    proposal: FloatArray
    """Fraction before the end of the piece at which each chain proposes to jump, or −1."""
    ratio: FloatArray
    """c, or −1: any jump that is proposed happens."""
    weights: FloatArray


class OwnRates(NamedTuple):
    """Rates given the states of the parents; empty where chains have none but A."""

    rates: FloatArray
    table_start: IntArray
    parent_start: IntArray
    parents: IntArray
    term_start: IntArray
    term: IntArray
    """What each state of an edge's parent adds to the number of the configuration."""


@kernel
def shift_diagonals(chains, steps):
    """Take min A(x,x) from the diagonals, in place; (chains, columns) largest row sums then."""
    n_columns = steps.rate.shape[1]
    largest = np.zeros((len(chains.per_row), n_columns))
    for r in range(len(chains.per_row)):
        own = steps.diagonal[chains.row_start[r] : chains.row_start[r + 1]]
        per_row = chains.per_row[r]
        for c in range(n_columns):
            lowest = math.inf
            for x in range(own.shape[0]):
                lowest = min(lowest, own[x, c])
            for x in range(own.shape[0]):
                own[x, c] = own[x, c] - lowest if own[x, c] < math.inf else 0.0
                total = own[x, c]
                begin = chains.entry_start[r] + x * per_row
                for e in range(begin, begin + per_row):
                    total += steps.rate[e, c]
                largest[r, c] = max(largest[r, c], total)
    return largest


@inner
def _joint_state(chains, r, states):
    result = 0
    for i in range(chains.node_start[r], chains.node_start[r + 1]):
        result += states[chains.node[i]] * chains.stride[i]
    return result


@inner
def _draw_start(chains, r, first, states, stream, weights):
    """States of the nodes that no chain before has drawn, given the others."""
    n_rows = chains.row_start[r + 1] - chains.row_start[r]
    norm = 0.0
    for attempt in range(2):
        for x in range(n_rows):
            weights[x] = first[chains.row_start[r] + x]
            for i in range(chains.node_start[r], chains.node_start[r + 1]):
                state = states[chains.node[i]]
                digit = x // chains.stride[i] % chains.n_states[chains.node[i]]
                # chains may disagree in rare states; then this one decides alone
                if attempt == 0 and state >= 0 and state != digit:
                    weights[x] = 0.0
            norm += weights[x]
        if norm > 0.0:
            break
    x = choose(stream, weights[:n_rows], norm)
    for i in range(chains.node_start[r], chains.node_start[r + 1]):
        node = chains.node[i]
        if states[node] < 0:
            states[node] = x // chains.stride[i] % chains.n_states[node]


@inner
def _backward(room, r, x, fraction):
    """ρ(x) of a chain at a fraction of the piece before its end; x is counted within the set."""
    terms, count = room.terms, room.n_terms[r - room.first]
    if fraction == 0.0:
        return terms[0, x]
    if fraction == 1.0:
        return room.total[x]
    value = terms[count - 1, x]
    for j in range(count - 2, -1, -1):
        value = value * fraction + terms[j, x]
    return value


@inner
def _log_stay(room, r, x, leaving, fraction):
    """ln G(φ): its differences are the chain's log chance to stay in x."""
    value = _backward(room, r, x, fraction)
    return math.log(value) - leaving * fraction if value > 0.0 else -math.inf


@inner
def _fill_powers(chains, steps, room, r, k, length, end):
    """v_j of one chain for as many j as matter in some state, from ``end``, the set's ρ."""
    row, column, per_row = chains.row_start[r], steps.column[k], chains.per_row[r]
    at, terms, total = row - room.row, room.terms, room.total
    n_rows = chains.row_start[r + 1] - row
    for x in range(at, at + n_rows):
        terms[0, x] = total[x] = end[x]
    count = 1
    matters = True
    while matters and count < _TERMS:
        matters = count <= per_row + 1  # a state is at most per_row jumps away
        for x in range(n_rows):
            value = steps.diagonal[row + x, column] * terms[count - 1, at + x]
            begin = chains.entry_start[r] + x * per_row
            for e in range(begin, begin + per_row):
                value += steps.rate[e, column] * terms[count - 1, at + chains.target[e]]
            value *= length / count
            matters = matters or value > 1e-17 * total[at + x]
            terms[count, at + x] = value
            total[at + x] += value
        count += 1
    room.n_terms[r - room.first] = count


@inner
def _fill_ends(chains, steps, room, r, k, length, n_pieces, ends):
    """ρ at the end of every piece, the last one first known; each scaled to a largest of one."""
    at = chains.row_start[r] - room.row
    past = chains.row_start[r + 1] - room.row
    for x in range(at, past):
        ends[n_pieces - 1, x] = steps.ending[room.row + x, k]
    for piece in range(n_pieces - 1, 0, -1):
        _fill_powers(chains, steps, room, r, k, length, ends[piece])
        largest = 0.0
        for x in range(at, past):
            largest = max(largest, room.total[x])
        for x in range(at, past):
            ends[piece - 1, x] = room.total[x] / largest


@inner
def _next_proposal(ratio, room, r, x, leaving, now, stream):
    """Fraction before the end of the piece at which the next jump is proposed, or −1."""
    if ratio == 0.0 or now <= 0.0:
        return -1.0
    above = exponential(stream, ratio)
    here = _log_stay(room, r, x, leaving, now)
    target = here - above
    below = _log_stay(room, r, x, leaving, 0.0) - target
    if here == -math.inf or below >= 0.0:
        return -1.0
    low = 0.0
    high = now
    for i in range(_ITERATIONS):
        middle = 0.5 * (low + high)
        if i % 3 > 0 and below > -math.inf:  # on a straight line; every third time by halving
            middle = low + (high - low) * below / (below - above)
        value = _log_stay(room, r, x, leaving, middle) - target
        if abs(value) < _SMALL:
            return middle
        if value < 0.0:
            low, below = middle, value
        else:
            high, above = middle, value
    return high


@inner
def _own_rate(chains, own, r, x, e, states):
    """R^u of jump e out of state x of the only node of a chain."""
    node = chains.node[chains.node_start[r]]
    configuration = 0
    for edge in range(own.parent_start[node], own.parent_start[node + 1]):
        configuration += own.term[own.term_start[edge] + states[own.parents[edge]]]
    row = configuration * chains.n_states[node] + x
    return own.rates[own.table_start[node] + row * chains.n_states[node] + chains.entered[e]]


@inner
def _propose(chains, steps, own, room, r, k, length, states, now, stream):
    """When the chain would jump next."""
    x, column = _joint_state(chains, r, states), steps.column[k]
    ratio = 1.0
    if len(own.rates) > 0:
        ratio = 0.0
        begin = chains.entry_start[r] + x * chains.per_row[r]
        for e in range(begin, begin + chains.per_row[r]):
            if steps.rate[e, column] > 0.0:
                rate = _own_rate(chains, own, r, x, e, states)
                ratio = max(ratio, rate / steps.rate[e, column])
        if chains.per_row[r] > 1:
            ratio = min(ratio, _LARGEST_RATIO)
    at = chains.row_start[r] - room.row + x
    if ratio == 0.0 and not room.terms[0, at] > 0.0:
        ratio = -1.0  # the parents forbid a jump that must come: averaged rates decide
    leaving = steps.diagonal[chains.row_start[r] + x, column] * length
    room.ratio[r - room.first] = ratio
    room.proposal[r - room.first] = _next_proposal(abs(ratio), room, r, at, leaving, now, stream)


@inner
def _jump_at(chains, steps, own, room, r, column, states, now, stream):
    """The jump that happens now, or −1 if none does."""
    x, per_row, weights = _joint_state(chains, r, states), chains.per_row[r], room.weights
    at, begin = chains.row_start[r] - room.row, chains.entry_start[r] + x * per_row
    norm = 0.0
    for i in range(per_row):
        later = _backward(room, r, at + chains.target[begin + i], now)
        weights[i] = steps.rate[begin + i, column] * later
        norm += weights[i]
    if not norm > 0.0:
        return -1
    e = begin + choose(stream, weights[:per_row], norm)
    if chains.mover[e] < 0:
        return -1
    must_leave = now < _LAST_BIT and not room.terms[0, at + x] > 0.0
    if len(own.rates) > 0 and per_row > 1 and not must_leave:
        proposed = room.ratio[r - room.first] * steps.rate[e, column]
        rate = _own_rate(chains, own, r, x, e, states)
        if proposed > 0.0 and uniform(stream) * proposed >= rate:
            return -1
    return e


@inner(allocates=True)
def _with_jump(record, when, used, draw, node, state, time):
    """The tables of jumps with one more in row ``used``; larger ones if they are full."""
    if used == len(when):
        when = doubled(when)
        wider = np.empty((len(when), 3), np.int64)
        for i in range(used):
            for j in range(3):
                wider[i, j] = record[i, j]
        record = wider
    record[used, DRAW] = draw
    record[used, NODE] = node
    record[used, ENTERED] = state
    when[used] = time
    return record, when


@kernel
def draw_jumps(chains, steps, own, n_pieces, n_draws, key):
    """``n_draws`` paths of all chains; ``n_pieces``: (sets, K) into how many a step is cut.

    Returns the states at the start (draws, N), −1 for nodes of no chain, and of every jump its time
    and its record (columns named above), in the order of time within each draw and set. A draw's
    numbers do not depend on how many draws there are.
    """
    chains, steps, own = bundle(chains), bundle(steps), bundle(own)
    n_steps, n_sets = len(steps.width), len(chains.set_start) - 1
    states = np.full((n_draws, len(chains.n_states)), -1)
    start = states.copy()
    record = np.empty((256, 3), np.int64)
    when = np.empty(256)
    used = 0
    streams = np.empty((n_draws, 4), np.uint64)
    for s in range(n_sets):
        first, last = chains.set_start[s], chains.set_start[s + 1]
        n_rows = chains.row_start[last] - chains.row_start[first]
        room = Room(
            first,
            chains.row_start[first],
            np.empty((_TERMS, n_rows)),
            np.empty(n_rows),
            np.zeros(last - first, np.int64),
            np.empty(last - first),
            np.empty(last - first),
            np.empty(n_rows),
        )
        ends = np.empty((1, n_rows))
        for draw in range(n_draws):
            streams[draw] = new_stream(key, draw * n_sets + s)
            for r in range(first, last):
                _draw_start(chains, r, steps.first, states[draw], streams[draw], room.weights)
        event = steps.forced_start[s]
        for k in range(n_steps + 1):
            while event < steps.forced_start[s + 1] and steps.forced[event, 0] == k:
                node, state = steps.forced[event, 1], steps.forced[event, 2]
                for draw in range(n_draws):
                    if states[draw, node] != state:
                        states[draw, node] = state
                        if k > 0:
                            time = steps.time[k]
                            record, when = _with_jump(record, when, used, draw, node, state, time)
                            used += 1
                event += 1
            if k == 0:
                for i in range(chains.node_start[first], chains.node_start[last]):
                    for draw in range(n_draws):
                        start[draw, chains.node[i]] = states[draw, chains.node[i]]
            if k == n_steps or n_pieces[s, k] == 0:  # nothing moves
                continue
            length = steps.width[k] / n_pieces[s, k]
            if ends.shape[0] < n_pieces[s, k]:
                ends = np.empty((n_pieces[s, k], n_rows))
            for r in range(first, last):
                _fill_ends(chains, steps, room, r, k, length, n_pieces[s, k], ends)
            for piece in range(n_pieces[s, k]):
                for r in range(first, last):
                    _fill_powers(chains, steps, room, r, k, length, ends[piece])
                for draw in range(n_draws):
                    here, stream = states[draw], streams[draw]
                    now = 1.0
                    for r in range(first, last):
                        _propose(chains, steps, own, room, r, k, length, here, now, stream)
                    while True:
                        r = first + np.argmax(room.proposal)  # the earliest of all
                        now = room.proposal[r - first]
                        if now < 0.0:
                            break
                        e = _jump_at(
                            chains, steps, own, room, r, steps.column[k], here, now, stream
                        )
                        if e < 0:
                            _propose(chains, steps, own, room, r, k, length, here, now, stream)
                            continue
                        node, state = chains.mover[e], chains.entered[e]
                        here[node] = state
                        time = steps.time[k] + (piece + 1.0 - now) * length
                        time = min(time, steps.time[k + 1])
                        record, when = _with_jump(record, when, used, draw, node, state, time)
                        used += 1
                        for i in range(
                            chains.concerned_start[node], chains.concerned_start[node + 1]
                        ):
                            r = chains.concerned[i]
                            _propose(chains, steps, own, room, r, k, length, here, now, stream)
    return start, when[:used], record[:used]
