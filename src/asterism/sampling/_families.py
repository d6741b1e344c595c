"""Compiled: time spent and jumps made under a family, counted along the present paths.

A family's statistics are one table (configuration, from, to): numbers of jumps, and on the diagonal
the time spent. They come from merging the node's path with those of its parents, so a single parent
costs the jumps of two nodes and not a walk over the whole network. While the experimenter holds a
node, nothing is counted: its own family learns nothing from that.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner
from asterism.sampling._along import advance, follow, soonest


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
    last_by_hand = seen.set_start[pair + 1]
    if families.n_parents[row] == 1 and by_hand == last_by_hand:
        parent = families.parents[row, 0] * n_trajectories + d
        start, end = layout.start[d], layout.end[d]
        _merge_two(paths, pair, parent, families.term[row, 0], size, start, end, table[at:])
        return
    if families.n_parents[row] == 2 and by_hand == last_by_hand:
        parents = (
            families.parents[row, 0] * n_trajectories + d,
            families.parents[row, 1] * n_trajectories + d,
        )
        start, end = layout.start[d], layout.end[d]
        _merge_three(paths, pair, parents, families.term[row], size, start, end, table[at:])
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
    set_time = seen.set_begin[by_hand] if by_hand < last_by_hand else math.inf
    while True:
        until = min(jump_time, parent_time, end, set_time)
        here = at + (config * size + state) * size
        if not held:
            table[here + state] += until - time
        time = until
        if set_time == until:
            held = not held
            if held:
                set_time = seen.set_end[by_hand]
            else:
                by_hand += 1
                set_time = seen.set_begin[by_hand] if by_hand < last_by_hand else math.inf
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
def _merge_two(paths, pair, parent, term, size, start, end, table):
    """The same for one parent and no interventions, without branches that depend on the paths.

    Which of the two jumps next is a coin toss, so a processor that guesses would guess wrong half
    of the time. Reads one place beyond each path; arenas are that much longer.
    """
    i = paths.slot[pair]
    last_i = i + paths.n_jumps[pair]
    j = paths.slot[parent]
    last_j = j + paths.n_jumps[parent]
    state = paths.initial[pair]
    config = term[paths.initial[parent]]
    time = start
    for _ in range(last_i - i + last_j - j):
        own_time = paths.time[i]
        own_time = own_time if i < last_i else math.inf
        parent_time = paths.time[j]
        parent_time = parent_time if j < last_j else math.inf
        is_own = own_time <= parent_time
        until = own_time if is_own else parent_time
        here = (config * size + state) * size
        table[here + state] += until - time
        time = until
        entered = np.int64(paths.state[i if is_own else j])
        target = entered if is_own else state
        table[here + target] += 1.0 if is_own else 0.0
        config = config if is_own else term[entered]
        state = target
        i += 1 if is_own else 0
        j += 0 if is_own else 1
    table[(config * size + state) * size + state] += end - time


@inner
def _merge_three(paths, pair, parents, term, size, start, end, table):
    """The same for two parents."""
    i = paths.slot[pair]
    last_i = i + paths.n_jumps[pair]
    j = paths.slot[parents[0]]
    last_j = j + paths.n_jumps[parents[0]]
    k = paths.slot[parents[1]]
    last_k = k + paths.n_jumps[parents[1]]
    state = paths.initial[pair]
    first = term[0, paths.initial[parents[0]]]
    second = term[1, paths.initial[parents[1]]]
    time = start
    for _ in range(last_i - i + last_j - j + last_k - k):
        own_time = paths.time[i]
        own_time = own_time if i < last_i else math.inf
        first_time = paths.time[j]
        first_time = first_time if j < last_j else math.inf
        second_time = paths.time[k]
        second_time = second_time if k < last_k else math.inf
        is_first = first_time <= second_time
        parent_time = first_time if is_first else second_time
        is_own = own_time <= parent_time
        until = own_time if is_own else parent_time
        here = ((first + second) * size + state) * size
        table[here + state] += until - time
        time = until
        parent_state = np.int64(paths.state[j if is_first else k])
        target = np.int64(paths.state[i]) if is_own else state
        table[here + target] += 1.0 if is_own else 0.0
        state = target
        moves_first = is_first and not is_own
        moves_second = not is_first and not is_own
        first = term[0, parent_state] if moves_first else first
        second = term[1, parent_state] if moves_second else second
        i += 1 if is_own else 0
        j += 1 if moves_first else 0
        k += 1 if moves_second else 0
    table[((first + second) * size + state) * size + state] += end - time
