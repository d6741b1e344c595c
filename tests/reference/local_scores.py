"""Plain versions of what a large search scores: one node with all others frozen, and screening.

A family's score is ln Z − E + Gamma terms at the self-consistent rates (M+α)/(T+β) of the node, its
neighbours' moments held fixed. Matrix exponentials come from scipy, loops are Python, nothing is
extrapolated.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from scipy.linalg import expm
from scipy.special import gammaln


class Frozen:
    """The neighbours of a node on the grid: W of every node and step, one array per trajectory."""

    def __init__(self, n_states, step_start, widths, moments):
        self.n_states = list(n_states)
        self.widths = [widths[a:b] for a, b in pairwise(step_start)]
        squares = sum(s * s for s in self.n_states)
        rows = np.cumsum([0, *(s * s for s in self.n_states)])
        self.moments = []
        for a, b in pairwise(step_start):
            piece = moments[a * squares : b * squares].reshape(squares, b - a)
            self.moments.append(
                [
                    piece[rows[n] : rows[n + 1]].reshape(s, s, b - a)
                    for n, s in enumerate(self.n_states)
                ]
            )

    def marginal(self, d, node, k):
        """Average probability of the states of a node on one step."""
        return np.diag(self.moments[d][node][:, :, k]) / self.widths[d][k]

    def configuration_weights(self, d, family, k):
        """(U,) probability of each configuration of a family."""
        weights = [1.0]
        for parent in family:
            m = self.marginal(d, parent, k)
            weights = [w * m[x] for w in weights for x in range(len(m))]
        return np.array(weights)

    def pull(self, d, node, k, children):
        """ψ(x'): ``children`` maps a child to (its parents, its (U, S, S) rates)."""
        psi = np.zeros(self.n_states[node])
        for child, (parents, rates) in children.items():
            w = self.moments[d][child][:, :, k] / self.widths[d][k]
            sizes = [self.n_states[p] for p in parents]
            for u, states in enumerate(product(*map(range, sizes))):
                others = 1.0
                for parent, x in zip(parents, states):
                    if parent != node:
                        others *= self.marginal(d, parent, k)[x]
                psi[states[parents.index(node)]] += others * float((w * rates[u]).sum())
        return psi


def step_integral(generator, width, forward, backward):
    """∫ f(x) ρ(y) dt over a step, by a block exponential, normalised by f P ρ."""
    size = len(generator)
    block = np.zeros((2 * size, 2 * size))
    block[:size, :size] = block[size:, size:] = generator
    block[:size, size:] = np.outer(backward, forward)
    whole = expm(block * width)
    return whole[:size, size:].T / (forward @ whole[:size, :size] @ backward)


def family_score(frozen, node, family, children, likelihoods, initial, start, shape, rate):
    """Score of one family; ``likelihoods[d][k]`` are those at grid point k of trajectory d."""
    size = frozen.n_states[node]
    n_configurations = int(np.prod([frozen.n_states[p] for p in family], initial=1))
    off = ~np.eye(size, dtype=bool)
    # configurations that start from equal rates would stay equal for ever
    factors = np.exp(0.3 * np.linspace(-1.0, 1.0, n_configurations))
    rates = np.array([np.where(off, start * f, 0.0) for f in factors])
    score = -np.inf
    for _ in range(500):
        for u in range(n_configurations):
            np.fill_diagonal(rates[u], 0.0)
            np.fill_diagonal(rates[u], -rates[u].sum(axis=1))
        dwell = np.zeros((n_configurations, size))
        moves = np.zeros((n_configurations, size, size))
        log_z = 0.0
        for d, widths in enumerate(frozen.widths):
            weights = [frozen.configuration_weights(d, family, k) for k in range(len(widths))]
            generators = [
                np.tensordot(weights[k], rates, 1) + np.diag(frozen.pull(d, node, k, children))
                for k in range(len(widths))
            ]
            backward = [np.ones(size)]
            for k in reversed(range(len(widths))):
                after = likelihoods[d][k + 1] * backward[0]
                log_z += np.log(after.sum())
                after = after / after.sum()
                backward.insert(0, expm(generators[k] * widths[k]) @ after)
            log_z += np.log(initial @ (likelihoods[d][0] * backward[0]))
            forward = initial * likelihoods[d][0]
            for k, width in enumerate(widths):
                after = likelihoods[d][k + 1] * backward[k + 1]
                w = step_integral(generators[k], width, forward, after)
                for u in range(n_configurations):
                    dwell[u] += weights[k][u] * np.diag(w)
                    moves[u] += weights[k][u] * rates[u] * w
                forward = forward @ expm(generators[k] * width)
                forward = forward / forward.sum() * likelihoods[d][k + 1]
        moves[:, ~off] = 0.0
        logs = np.log(np.where(rates > 0.0, rates, 1.0))
        exits = np.array([np.diag(r) for r in rates])
        energy = float((moves * logs).sum() + (dwell * exits).sum())
        before, score = score, log_z - energy + gamma_terms(moves, dwell, shape, rate)
        rates = np.where(off, (moves + shape) / (dwell[:, :, None] + rate), 0.0)
        if abs(score - before) < 1e-10:
            break
    return score


def gamma_terms(moves, dwell, shape, rate):
    """Σ [α ln β − ln Γ(α) + ln Γ(M+α) − (M+α) ln(T+β)] over x ≠ y."""
    size = dwell.shape[-1]
    total = 0.0
    for u in range(len(dwell)):
        for x in range(size):
            for y in range(size):
                if x != y:
                    count = moves[u, x, y] + shape
                    total += shape * np.log(rate) - gammaln(shape) + gammaln(count)
                    total -= count * np.log(dwell[u, x] + rate)
    return float(total)


def single_parent_gain(frozen, child, parent, rates, shape, rate):
    """What one parent adds to the Gamma terms, from the moments as they are (screening)."""
    size, parent_size = frozen.n_states[child], frozen.n_states[parent]
    dwell, moves = np.zeros((parent_size, size)), np.zeros((parent_size, size, size))
    for d, widths in enumerate(frozen.widths):
        for k in range(len(widths)):
            w = frozen.moments[d][child][:, :, k]
            for u, probability in enumerate(frozen.marginal(d, parent, k)):
                dwell[u] += probability * np.diag(w)
                moves[u] += probability * rates * w
    alone = gamma_terms(moves.sum(0)[None], dwell.sum(0)[None], shape, rate)
    return gamma_terms(moves, dwell, shape, rate) - alone
