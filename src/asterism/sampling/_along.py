"""Compiled: walks along present paths: one node's state at a time, a family's configuration.

``SamplerWork`` holds where each followed parent is: its next jump, when that is, and its present
state.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner

#: what a node's rates are multiplied by (``_factors.py``): nothing; one factor per trajectory; two
#: per trajectory, of leaving low and high states; two per span of the time since the start, of
#: which there are two, three (the next kind) or four (the last)
NO_FACTORS, ALL_RATES, UP_AND_DOWN, OVER_TIME = 0, 1, 2, 3
N_KINDS = 6
MOST_SPANS = 4


@inner
def n_spans(kind):
    """How many spans of the time have factors of their own."""
    return kind - OVER_TIME + 2 if kind >= OVER_TIME else 1


@inner
def is_high(state, size):
    """Whether a state is in the upper half: leaving it has the second factor."""
    return 2 * state >= size


@inner
def factors_at(rates, n, pair, span):
    """The factors of leaving low and high states."""
    if rates.kind[n] == NO_FACTORS:
        return 1.0, 1.0
    at = 2 * (MOST_SPANS * pair + span)
    return rates.factor[at], rates.factor[at + 1]


@inner
def span_ends(rates, n, start, span):
    """When the factors of a node change next."""
    spans = n_spans(rates.kind[n])
    return start + rates.duration[0] * (span + 1) / spans if span + 1 < spans else math.inf


@inner
def when_set(seen, pair, by_hand, is_held):
    """When the experimenter lets a node go that is held, or takes hold of it next."""
    if is_held:
        return seen.set_end[by_hand]
    return seen.set_begin[by_hand] if by_hand < seen.set_start[pair + 1] else math.inf


@inner
def state_at(paths, pair, time):
    """State of a pair at a time; the new one at a jump."""
    low = paths.slot[pair]
    high = low + paths.n_jumps[pair]
    first = low
    while low < high:
        middle = (low + high) // 2
        if paths.time[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return paths.initial[pair] if low == first else np.int64(paths.state[low - 1])


@inner
def follow(families, row, skipped, d, n_trajectories, paths, work):
    """Put all parents of a family but one at their starts; returns (their number, configuration).

    Families are the present ones, whose row is the node, or a list of candidates.
    """
    config = 0
    k = 0
    for p in range(families.n_parents[row]):
        if p == skipped:
            continue
        pair = families.parents[row, p] * n_trajectories + d
        first = paths.slot[pair]
        work.place[k] = first
        work.until[k] = first + paths.n_jumps[pair]
        work.now[k] = paths.initial[pair]
        work.next_time[k] = paths.time[first] if paths.n_jumps[pair] > 0 else math.inf
        config += families.term[row, p, work.now[k]]
        k += 1
    return k, config


@inner
def soonest(work, n_followed):
    """Which followed parent jumps next; −1 if none is followed."""
    best = -1
    for k in range(n_followed):
        if best < 0 or work.next_time[k] < work.next_time[best]:
            best = k
    return best


@inner
def advance(families, row, skipped, paths, work, k):
    """Let a followed parent make its next jump; returns the change of the configuration."""
    slot = k + 1 if 0 <= skipped <= k else k
    old = work.now[k]
    at = work.place[k]
    new = np.int64(paths.state[at])
    work.now[k] = new
    work.place[k] = at + 1
    work.next_time[k] = paths.time[at + 1] if at + 1 < work.until[k] else math.inf
    return families.term[row, slot, new] - families.term[row, slot, old]
