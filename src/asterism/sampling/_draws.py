"""Compiled: reads kept draws of paths: states at any times, and what follows after the end."""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import kernel
from asterism.numerics._random_stream import new_stream, uniform


@kernel
def states_in_draws(record, first_pair, n_nodes, times):
    """(draws, times, nodes) states of one trajectory at sorted times; the new one at a jump."""
    n_draws = len(record.initial)
    result = np.empty((n_draws, len(times), n_nodes), np.int16)
    for i in range(n_draws):
        for n in range(n_nodes):
            pair = first_pair + n
            at = record.start[i, pair]
            last = record.start[i, pair + 1]
            state = record.initial[i, pair]
            for k in range(len(times)):
                while at < last and record.time[at] <= times[k]:
                    state = record.state[at]
                    at += 1
                result[i, k, n] = state
    return result


@kernel
def forecast_draws(layout, families, rates, begin, times, key, states):
    """Go on from the states at ``begin`` by the network's own rates, each draw by itself.

    ``states`` (draws, times, nodes): the first row of each draw holds the state at ``begin`` and is
    overwritten like the others. Given nodes stay as they are.
    """
    n_draws, n_times, n_nodes = states.shape
    now = np.empty(n_nodes, np.int64)
    leaving = np.empty(n_nodes)
    blocks = np.empty(n_nodes, np.int64)
    for i in range(n_draws):
        stream = new_stream(key, i)
        for n in range(n_nodes):
            now[n] = states[i, 0, n]
        time = begin
        k = 0
        while k < n_times:
            total = 0.0
            for n in range(n_nodes):
                size = layout.n_states[n]
                config = 0
                for p in range(families.n_parents[n]):
                    config += families.term[n, p, now[families.parents[n, p]]]
                blocks[n] = layout.table_start[n] + (config * size + now[n]) * size
                leaving[n] = 0.0 if layout.is_given[n] else rates.rate[blocks[n] + now[n]]
                total += leaving[n]
            wait = -math.log(uniform(stream)) / total if total > 0.0 else math.inf
            while k < n_times and times[k] < time + wait:
                for n in range(n_nodes):
                    states[i, k, n] = now[n]
                k += 1
            time += wait
            if k < n_times:
                target = uniform(stream) * total
                who = 0
                for n in range(n_nodes):
                    if leaving[n] > 0.0:
                        who = n
                        target -= leaving[n]
                        if target < 0.0:
                            break
                target = uniform(stream) * leaving[who]
                entered = now[who]
                for y in range(layout.n_states[who]):
                    rate = rates.rate[blocks[who] + y]
                    if y != now[who] and rate > 0.0:
                        entered = y
                        target -= rate
                        if target < 0.0:
                            break
                now[who] = entered
