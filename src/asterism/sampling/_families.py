"""Compiled: time spent and jumps made under a family, counted along the present paths.

A family's statistics are one table (configuration, from, to): numbers of jumps, and on the diagonal
the time spent. They come from merging the node's path with those of its parents, so a single parent
costs the jumps of two nodes and not a walk over the whole network.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner
from asterism.sampling._path import advance, follow, soonest


@inner
def add_statistics(d, n, families, row, layout, paths, work, table, at):
    """Add one trajectory to the statistics that begin at ``table[at]``."""
    n_nodes = len(layout.n_states)
    pair = d * n_nodes + n
    size = layout.n_states[n]
    n_followed, config = follow(families, row, -1, d * n_nodes, paths, work)
    time = layout.start[d]
    end = layout.end[d]
    jump = paths.slot[pair]
    last_jump = jump + paths.n_jumps[pair]
    state = paths.initial[pair]
    who = soonest(work, n_followed)
    parent_time = work.next_time[who] if who >= 0 else math.inf
    jump_time = paths.time[jump] if jump < last_jump else math.inf
    while True:
        until = min(jump_time, parent_time, end)
        here = at + (config * size + state) * size
        table[here + state] += until - time
        time = until
        if jump_time == until:
            target = np.int64(paths.state[jump])
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
