"""Compiled: time spent and jumps made under a family, counted along the present paths.

A family's statistics are one table (configuration, from, to): numbers of jumps, and on the diagonal
the time spent. They come from merging the node's path with those of its parents, so a single parent
costs the jumps of two nodes and not a walk over the whole network. While the experimenter holds a
node, nothing is counted: its own family learns nothing from that. Where factors multiply a node's
rates (``_factors.py``), time counts as many times.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inlined, inner
from asterism.sampling._along import (
    advance,
    factors_at,
    follow,
    is_high,
    soonest,
    span_ends,
    when_set,
)

#: compare all pairs of jumps up to this many pairs per jump
_FEW = 12


@inner
def own_totals(n, model, paths):
    """Of a node with two states: (time, time in state 1, jumps up, jumps down) in all trajectories.

    Zeros for any other node, for one that the experimenter holds somewhere, or with factors.
    """
    layout, seen = model.layout, model.seen
    n_trajectories = len(layout.start)
    whole = 0.0
    in_one = 0.0
    n_up = 0
    n_down = 0
    own = n * n_trajectories
    is_free = seen.set_start[own] == seen.set_start[own + n_trajectories]
    if layout.n_states[n] == 2 and is_free and model.rates.kind[n] == 0:
        for d in range(n_trajectories):
            whole += layout.end[d] - layout.start[d]
            first = paths.slot[own + d]
            n_jumps = paths.n_jumps[own + d]
            begins = paths.initial[own + d]
            n_up += (n_jumps + 1 - begins) // 2
            n_down += (n_jumps + begins) // 2
            in_one += begins * (layout.end[d] - layout.start[d])
            sign = 1.0 - 2.0 * begins
            for i in range(first, first + n_jumps):
                in_one += sign * (layout.end[d] - paths.time[i])
                sign = -sign
    return whole, in_one, n_up, n_down


@inner
def add_all_statistics(n, own, families, row, model, paths, work, table, at):
    """Add all trajectories to the statistics of a family that begin at ``table[at]``.

    ``own`` are the totals of the node itself (:func:`own_totals`).
    """
    layout = model.layout
    n_trajectories = len(layout.start)
    whole, in_one, n_up, n_down = own
    parent = families.parents[row, 0]
    if whole > 0.0 and families.n_parents[row] == 1 and layout.n_states[parent] == 2:
        n_own = n_up + n_down
        n_parent = 0
        for d in range(n_trajectories):
            n_parent += paths.n_jumps[parent * n_trajectories + d]
        if n_own * n_parent <= _FEW * n_trajectories * (n_own + n_parent):
            parent_in_one, together, up, down = _compare_all(layout, paths, n, parent)
            off = at + 4 * families.term[row, 0, 0]
            on = at + 4 * families.term[row, 0, 1]
            table[off] += max(0.0, whole - parent_in_one - in_one + together)
            table[off + 1] += n_up - up
            table[off + 2] += n_down - down
            table[off + 3] += max(0.0, in_one - together)
            table[on] += max(0.0, parent_in_one - together)
            table[on + 1] += up
            table[on + 2] += down
            table[on + 3] += together
            return
    for d in range(n_trajectories):
        add_statistics(d, n, families, row, model, paths, work, table, at)


@inner
def add_statistics(d, n, families, row, model, paths, work, table, at):
    """Add one trajectory to the statistics that begin at ``table[at]``.

    ``families`` are the present ones, whose row is the node, or a list of candidates.
    """
    layout, seen = model.layout, model.seen
    n_trajectories = len(layout.start)
    pair = n * n_trajectories + d
    size = layout.n_states[n]
    by_hand = seen.set_start[pair]
    rates = model.rates
    is_plain = by_hand == seen.set_start[pair + 1] and rates.kind[n] == 0
    if 1 <= families.n_parents[row] <= 2 and is_plain:
        last = families.n_parents[row] - 1
        parents = (
            families.parents[row, 0] * n_trajectories + d,
            families.parents[row, last] * n_trajectories + d,
        )
        start, end = layout.start[d], layout.end[d]
        if last == 0:
            _merge(paths, pair, parents, False, families.term[row], size, start, end, table[at:])
        else:
            _merge(paths, pair, parents, True, families.term[row], size, start, end, table[at:])
        return
    n_followed, config = follow(families, row, -1, d, n_trajectories, paths, work)
    time = layout.start[d]
    end = layout.end[d]
    jump = paths.slot[pair]
    last_jump = jump + paths.n_jumps[pair]
    state = paths.initial[pair]
    who = soonest(work, n_followed)
    parent_time = work.next_time[who] if who >= 0 else math.inf
    jump_time = paths.time[jump] if jump < last_jump else math.inf
    held = False
    set_time = when_set(seen, pair, by_hand, held)
    span = 0
    low, high = factors_at(rates, n, pair, span)
    span_time = span_ends(rates, n, time, span)
    while True:
        until = min(jump_time, parent_time, end, set_time, span_time)
        here = at + (config * size + state) * size
        if not held:
            table[here + state] += (until - time) * (high if is_high(state, size) else low)
        time = until
        if set_time == until:
            by_hand += 1 if held else 0
            held = not held
            set_time = when_set(seen, pair, by_hand, held)
        elif span_time == until:
            span += 1
            low, high = factors_at(rates, n, pair, span)
            span_time = span_ends(rates, n, layout.start[d], span)
        elif jump_time == until:
            target = np.int64(paths.state[jump])
            if not held:
                table[here + target] += 1.0
            state = target
            jump += 1
            jump_time = paths.time[jump] if jump < last_jump else math.inf
        elif parent_time == until:
            config += advance(families, row, -1, paths, work, who)
            who = soonest(work, n_followed)
            parent_time = work.next_time[who]
        else:
            return


@inner
def _compare_all(layout, paths, n, parent):
    """Of two nodes with two states each, in all trajectories: (time of the parent in state 1, time
    of both in state 1, jumps up and down of the first node while the parent is in state 1).

    A path x of zeros and ones is a sum of steps of alternating sign: up at s₀, down at s₁, … The
    time that two paths spend in state 1 together is then

        ∫ x y dt = Σ_ij (−1)^{i+j} (end − max(s_i, t_j))

    and y just before s_i is Σ_j (−1)^j [t_j < s_i]. No term waits for another one, so this is
    faster than merging as long as jumps are few. A path that begins in state 1 steps up at the
    start. Two steps of the node and four of the parent are taken at once; those that are missing
    lie at the end and add nothing.
    """
    n_trajectories = len(layout.start)
    time_0 = time_1 = time_2 = time_3 = 0.0
    up_0 = up_1 = up_2 = up_3 = 0.0
    down_0 = down_1 = down_2 = down_3 = 0.0
    parent_in_one = 0.0
    for d in range(n_trajectories):
        start = layout.start[d]
        end = layout.end[d]
        first = paths.slot[n * n_trajectories + d]
        last = first + paths.n_jumps[n * n_trajectories + d]
        begin = first - paths.initial[n * n_trajectories + d]
        first_j = paths.slot[parent * n_trajectories + d]
        last_j = first_j + paths.n_jumps[parent * n_trajectories + d]
        for j in range(first_j - paths.initial[parent * n_trajectories + d], last_j, 4):
            t_0 = paths.time[j] if j >= first_j else start
            t_1 = paths.time[j + 1] if j + 1 < last_j else end
            t_2 = paths.time[j + 2] if j + 2 < last_j else end
            t_3 = paths.time[j + 3] if j + 3 < last_j else end
            parent_in_one += (t_1 - t_0) + (t_3 - t_2)
            for i in range(begin, last, 2):
                # in state 1 from s to r; nothing comes before a jump that is not there
                s = paths.time[i] if i >= first else start
                r = paths.time[i + 1] if i + 1 < last else end
                limit = r if i + 1 < last else -math.inf
                time_0 += (r if r > t_0 else t_0) - (s if s > t_0 else t_0)
                time_1 += (r if r > t_1 else t_1) - (s if s > t_1 else t_1)
                time_2 += (r if r > t_2 else t_2) - (s if s > t_2 else t_2)
                time_3 += (r if r > t_3 else t_3) - (s if s > t_3 else t_3)
                up_0 += 1.0 if t_0 < s else 0.0
                up_1 += 1.0 if t_1 < s else 0.0
                up_2 += 1.0 if t_2 < s else 0.0
                up_3 += 1.0 if t_3 < s else 0.0
                down_0 += 1.0 if t_0 < limit else 0.0
                down_1 += 1.0 if t_1 < limit else 0.0
                down_2 += 1.0 if t_2 < limit else 0.0
                down_3 += 1.0 if t_3 < limit else 0.0
    together = max(0.0, time_0 - time_1 + time_2 - time_3)
    return parent_in_one, together, up_0 - up_1 + up_2 - up_3, down_0 - down_1 + down_2 - down_3


@inlined
def _merge(paths, pair, parents, has_second, term, size, start, end, table):
    """The same for one or two parents and no interventions, without branches that paths decide.

    Which of the nodes jumps next is a coin toss, so a processor that guesses would guess wrong half
    of the time. Reads one place beyond each path; arenas are that much longer. Of a single parent
    ``parents`` holds it twice; ``has_second`` is known when it is compiled.
    """
    times, states = paths.time, paths.state
    i = paths.slot[pair]
    last_i = i + paths.n_jumps[pair]
    j = paths.slot[parents[0]]
    last_j = j + paths.n_jumps[parents[0]]
    k = paths.slot[parents[1]] if has_second else 0
    last_k = k + paths.n_jumps[parents[1]] if has_second else 0
    state = paths.initial[pair]
    first = term[0, paths.initial[parents[0]]]
    second = term[1, paths.initial[parents[1]]] if has_second else 0
    time = start
    for _ in range(last_i - i + last_j - j + last_k - k):
        own_time = times[i]
        own_time = own_time if i < last_i else math.inf
        first_time = times[j]
        first_time = first_time if j < last_j else math.inf
        parent_time, is_first = first_time, True
        if has_second:
            second_time = times[k]
            second_time = second_time if k < last_k else math.inf
            is_first = first_time <= second_time
            parent_time = first_time if is_first else second_time
        is_own = own_time <= parent_time
        until = own_time if is_own else parent_time
        here = ((first + second) * size + state) * size
        table[here + state] += until - time
        time = until
        parent_state = np.int64(states[j if is_first else k])
        target = np.int64(states[i]) if is_own else state
        table[here + target] += 1.0 if is_own else 0.0
        state = target
        moves_first = is_first and not is_own
        first = term[0, parent_state] if moves_first else first
        i += 1 if is_own else 0
        j += 1 if moves_first else 0
        if has_second:
            moves_second = not is_first and not is_own
            second = term[1, parent_state] if moves_second else second
            k += 1 if moves_second else 0
    table[((first + second) * size + state) * size + state] += end - time
