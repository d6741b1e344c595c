"""The exact posterior over graphs of binary nodes, by Markov chain Monte Carlo.

A sample is everything that is not known: the paths of all nodes in all trajectories, the parents
and the rates of every node, and the probability with which it starts in state 1. Each sweep draws

1. every node's parents given the paths, from the exact score of complete paths (rates integrated
   out; every family of up to k parents equally probable a priori, or as ``log_prior`` says);
2. its rates given parents and paths, from their Gamma posterior, and its start from a Beta one;
3. every node's path in every trajectory given all the rest, by uniformisation: imagined jumps from
   a state to itself are added to the path, which makes it a chain in discrete time that is
   filtered forwards and drawn backwards (Rao and Teh, 2013).

Nothing is approximated, nor put on a grid of times; the answer has only the error of sampling.
Families have two places: a node's only parent stands in both, and a node without parents names
itself. Cells of the tables that cannot occur then stay empty and add nothing to a score.
"""

# ruff: noqa: NPY002 (compiled code draws from numba's own generator)
from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numba
import numpy as np

import asterism as am

Array = np.ndarray[Any, Any]

MOST_JUMPS = 200
_MOST_EVENTS = 4096
_END, _IMAGINED = -2, -1


@dataclass(frozen=True)
class Measured:
    """All nodes measured at the same times, equally often in every trajectory from 0 to T."""

    times: Array
    """(D, K)"""
    log_likelihood: Array
    """(D, N, K, 2)"""
    duration: float

    @classmethod
    def of(cls, seen: am.Observations, nodes: tuple[str, ...], noise: am.Gaussian) -> Measured:
        table = seen.to_frame().sort_values(["trajectory", "time"])
        n_trajectories = len(seen.trajectories)
        times = table["time"].to_numpy().reshape(n_trajectories, -1)
        values = table[list(nodes)].to_numpy().reshape(*times.shape, len(nodes))
        distance = (values.transpose(0, 2, 1)[..., None] - np.array(noise.means)) / noise.scale
        return cls(times, -0.5 * distance**2, float(seen.end[0]))

    @property
    def n_nodes(self) -> int:
        return int(self.log_likelihood.shape[1])


@dataclass(frozen=True)
class Chain:
    """Averages over one chain after its burn-in."""

    families: Array
    """(N, F, 2) the families, see above; F is the same for all nodes."""
    probabilities: Array
    """(N, F) mean of P(family | paths)."""
    transitions: Array
    dwell: Array
    """(N, 4, 2) of the families that the chain was in: by parents' and own state."""

    @property
    def edges(self) -> Array:
        """(N, N) probability that row is a parent of column."""
        n_nodes = len(self.families)
        found = np.zeros((n_nodes, n_nodes))
        for child in range(n_nodes):
            for family, probability in zip(self.families[child], self.probabilities[child]):
                for parent in set(family.tolist()) - {child}:
                    found[parent, child] += probability
        return found


def all_families(n_nodes: int, max_parents: int) -> Array:
    """(N, F, 2) every family of up to ``max_parents`` (one or two) parents."""
    rows = []
    for child in range(n_nodes):
        others = [m for m in range(n_nodes) if m != child]
        own = [(child, child)] + [(m, m) for m in others]
        rows.append(own + (list(combinations(others, 2)) if max_parents > 1 else []))
    return np.array(rows, dtype=np.int64)


def size_log_prior(n_nodes: int, max_parents: int) -> Array:
    """(F,) one to ``max_parents`` parents, every number of them equally probable, never none."""
    one = [-math.log(n_nodes - 1)] * (n_nodes - 1)
    n_pairs = math.comb(n_nodes - 1, 2) if max_parents > 1 else 0
    return np.array([-np.inf, *one, *[-math.log(max(n_pairs, 1))] * n_pairs])


def as_families(parents: dict[str, Any], nodes: tuple[str, ...]) -> Array:
    """(N, 2) the families of a graph, in the places described above."""
    number = {name: i for i, name in enumerate(nodes)}
    rows = []
    for name in nodes:
        above = sorted(number[p] for p in parents[name]) or [number[name]]
        rows.append((above[0], above[-1]))
    return np.array(rows, dtype=np.int64)


def sample_graphs(
    measured: Measured,
    max_parents: int,
    start: Array,
    prior: tuple[float, float] = (5.0, 10.0),
    sweeps: int = 6000,
    burn_in: int = 1000,
    seed: int = 0,
    learn_start: bool = True,
    rates: Array | None = None,
    log_prior: Array | None = None,
) -> Chain:
    """One chain from the graph ``start``, held for the first fifth of the burn-in.

    With ``rates`` (N, 4, 2) graph and rates stay as given, and only paths are drawn. Without
    ``learn_start`` both states are equally probable at time 0. ``log_prior`` (F,) is of the
    families, the same for all nodes.
    """
    families = all_families(measured.n_nodes, max_parents)
    free = rates is None
    table = np.full((measured.n_nodes, 4, 2), prior[0] / prior[1]) if rates is None else rates
    initial, count, jumps = _first_paths(measured)
    probabilities, transitions, dwell = _run(
        seed, initial, count, jumps, start.copy(), families, table.copy(), free, learn_start,
        prior[0], prior[1], measured.times, measured.log_likelihood, measured.duration,
        sweeps, burn_in, np.zeros(families.shape[1]) if log_prior is None else log_prior,
    )  # fmt: skip
    return Chain(families, probabilities, transitions, dwell)


def _first_paths(measured: Measured) -> tuple[Array, Array, Array]:
    """What the measurements read, with jumps half way between those that differ."""
    read = np.argmax(measured.log_likelihood, axis=-1)
    n_trajectories, n_nodes, _ = read.shape
    count = np.zeros((n_trajectories, n_nodes), dtype=np.int64)
    jumps = np.zeros((n_trajectories, n_nodes, MOST_JUMPS))
    middle = 0.5 * (measured.times[:, 1:] + measured.times[:, :-1])
    for d, n in np.ndindex(n_trajectories, n_nodes):
        own = middle[d, np.diff(read[d, n]) != 0]
        count[d, n] = len(own)
        jumps[d, n, : len(own)] = own
    return read[:, :, 0].copy(), count, jumps


@numba.njit(cache=True)
def _run(
    seed, initial, count, jumps, graph, families, rates, free, learn_start,
    shape, rate, times, log_likelihood, duration, sweeps, burn_in, log_prior,
):  # fmt: skip
    np.random.seed(seed)
    n_nodes, n_families, _ = families.shape
    n_trajectories = len(initial)
    transitions = np.zeros((n_nodes, n_families, 4, 2))
    dwell = np.zeros((n_nodes, n_families, 4, 2))
    probabilities = np.zeros((n_nodes, n_families))
    mean_transitions, mean_dwell = np.zeros((n_nodes, 4, 2)), np.zeros((n_nodes, 4, 2))
    start = np.full(n_nodes, 0.5)
    weights = np.empty(n_families)
    log_gamma = np.array(
        [math.lgamma(shape + m) - math.lgamma(shape) for m in range(MOST_JUMPS * n_trajectories)]
    )
    place = np.zeros(n_nodes, dtype=np.int64)
    for n in range(n_nodes):
        for f in range(n_families):
            if families[n, f, 0] == graph[n, 0] and families[n, f, 1] == graph[n, 1]:
                place[n] = f
    for sweep in range(sweeps):
        transitions[:], dwell[:] = 0.0, 0.0
        for d in range(n_trajectories):
            _add_statistics(initial[d], count[d], jumps[d], duration, families, transitions, dwell)
        for n in range(n_nodes):
            for f in range(n_families):
                weights[f] = _log_score(transitions[n, f], dwell[n, f], shape, rate, log_gamma)
                weights[f] += log_prior[f]
            weights[:] = np.exp(weights - weights.max())
            weights /= weights.sum()
            drawn = min(np.searchsorted(np.cumsum(weights), np.random.random()), n_families - 1)
            if free and sweep >= burn_in // 5:
                place[n] = drawn
                graph[n] = families[n, drawn]
            m, t = transitions[n, place[n]], dwell[n, place[n]]
            if sweep >= burn_in:
                probabilities[n] += weights
                mean_transitions[n] += m
                mean_dwell[n] += t
            if free:
                for u in range(4):
                    for x in range(2):
                        rates[n, u, x] = np.random.gamma(shape + m[u, x]) / (rate + t[u, x])
            if learn_start:
                ones = initial[:, n].sum()
                start[n] = np.random.beta(1.0 + ones, 1.0 + n_trajectories - ones)
        for d in range(n_trajectories):
            for n in range(n_nodes):
                _draw_path(
                    n, initial[d], count[d], jumps[d], graph, rates, start[n], times[d],
                    log_likelihood[d, n], duration,
                )  # fmt: skip
    kept = sweeps - burn_in
    return probabilities / kept, mean_transitions / kept, mean_dwell / kept


@numba.njit(cache=True)
def _log_score(transitions, dwell, shape, rate, log_gamma):
    """Complete paths, rates integrated out; zero for cells that never occur."""
    total = 0.0
    for u in range(4):
        for x in range(2):
            if dwell[u, x] > 0.0:
                m, t = transitions[u, x], dwell[u, x]
                total += log_gamma[int(m)] - shape * math.log1p(t / rate)
                total -= m * math.log(rate + t)
    return total


@numba.njit(cache=True)
def _configuration(node, graph, state):
    return state[graph[node, 0]] + 2 * state[graph[node, 1]]


@numba.njit(cache=True)
def _add_statistics(initial, count, jumps, duration, families, transitions, dwell):
    """Counts and times of every family of every node in one trajectory."""
    n_nodes, n_families, _ = families.shape
    time, who = np.empty(count.sum() + 1), np.empty(count.sum() + 1, dtype=np.int64)
    size = 0
    for n in range(n_nodes):
        for j in range(count[n]):
            time[size], who[size] = jumps[n, j], n
            size += 1
    time[size], who[size] = duration, _END
    state = initial.copy()
    now = 0.0
    for event in np.argsort(time):
        for n in range(n_nodes):
            for f in range(n_families):
                u = _configuration(f, families[n], state)
                dwell[n, f, u, state[n]] += time[event] - now
        now, n = time[event], who[event]
        if n >= 0:
            for f in range(n_families):
                transitions[n, f, _configuration(f, families[n], state), state[n]] += 1.0
            state[n] = 1 - state[n]


@numba.njit(cache=True)
def _draw_path(n, initial, count, jumps, graph, rates, start, times, log_likelihood, duration):
    """Draw the path of node ``n`` in one trajectory given the paths of all others."""
    n_nodes = len(initial)
    omega = 2.0 * rates[n].max()
    is_child = ((graph[:, 0] == n) | (graph[:, 1] == n)) & (np.arange(n_nodes) != n)
    children = np.flatnonzero(is_child)
    matters = np.zeros(n_nodes, dtype=np.bool_)
    for c in range(n_nodes):
        if c == n or is_child[c]:
            matters[c] = matters[graph[c, 0]] = matters[graph[c, 1]] = True
    time, what = np.empty(_MOST_EVENTS), np.empty(_MOST_EVENTS, dtype=np.int64)
    size = 0
    for c in range(n_nodes):
        for j in range(count[c] if matters[c] else 0):
            time[size], what[size] = jumps[c, j], c
            size += 1
    for k in range(len(times)):
        time[size], what[size] = times[k], n_nodes + k
        size += 1
    for _ in range(np.random.poisson(omega * duration)):
        time[size], what[size] = np.random.random() * duration, _IMAGINED
        size += 1
    time[size], what[size] = duration, _END
    state = initial.copy()
    old = state[n]
    filtered, flips = np.empty((size + 1, 2)), np.empty((size + 1, 2))
    place = np.empty(size + 1)
    weight, seen = np.array([1.0 - start, start]), np.zeros(2)
    now, n_places = 0.0, 0
    for event in np.argsort(time[: size + 1]):
        kind = what[event]
        may_jump = kind == n
        state[n] = old
        if kind == _IMAGINED:
            # thinned to the rate omega − (rate of leaving the state)
            rate = rates[n, _configuration(n, graph, state), old]
            may_jump = np.random.random() * omega > rate
        for x in range(2):
            state[n] = x
            for c in children:
                rate = rates[c, _configuration(c, graph, state), state[c]]
                seen[x] -= rate * (time[event] - now)
                if kind == c:
                    seen[x] += math.log(rate)
            if kind >= n_nodes:
                seen[x] += log_likelihood[kind - n_nodes, x]
        now = time[event]
        if may_jump or kind == _END:
            weight *= np.exp(seen - seen.max())
            weight /= weight.sum()
            seen[:] = 0.0
            filtered[n_places] = weight
        if may_jump:
            for x in range(2):
                state[n] = x
                flips[n_places, x] = rates[n, _configuration(n, graph, state), x] / omega
            stay = weight * (1.0 - flips[n_places])
            move = weight * flips[n_places]
            weight[0], weight[1] = stay[0] + move[1], stay[1] + move[0]
            place[n_places] = now
            n_places += 1
        if kind == n:
            old = 1 - old
        elif 0 <= kind < n_nodes:
            state[kind] = 1 - state[kind]
    x = 1 if np.random.random() < filtered[n_places, 1] else 0
    n_jumps = 0
    for k in range(n_places - 1, -1, -1):
        stays = filtered[k, x] * (1.0 - flips[k, x])
        comes = filtered[k, 1 - x] * flips[k, 1 - x]
        if np.random.random() * (stays + comes) < comes:
            x = 1 - x
            time[n_jumps] = place[k]
            n_jumps += 1
    if n_jumps > MOST_JUMPS:
        raise ValueError("a path has too many jumps")
    initial[n], count[n] = x, n_jumps
    jumps[n, :n_jumps] = time[:n_jumps][::-1]
