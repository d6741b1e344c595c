"""Scores of one node's candidate families with every other node frozen.

With the neighbours' moments fixed, the configuration weights of a family and the pull ψ of the
node's children do not change: only the node's own messages and rates are iterated, at a cost that
does not depend on the size of the network. The score of a family is ln Z − E + Gamma terms; terms
that all families of the node share are left out. Rates approach their solution geometrically, so
every other update is extrapolated.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from asterism.learning.search._marginal import (
    CONVERGED,
    IMPOSSIBLE,
    ITERATION_LIMIT,
    MarginalPrior,
    update_family_rates,
)
from asterism.numerics._bundle import bundle
from asterism.numerics._jit import inner, kernel
from asterism.star._averages import average_table, multiply_in_parent
from asterism.star._buffers import (
    BLOCK,
    CONFIGURATIONS,
    IS_EXOGENOUS,
    LOG_OF_ZERO_RATE,
    SQUARES,
    STATES,
    STRIDE,
    TABLE,
    moments_begin,
    prepare_trajectory,
)
from asterism.star._messages import pass_messages
from asterism.star._node import clear_set_steps, collect_pull, propagate_block, step_moments
from asterism.star._solve import settled

_REORDER = {"contract", "reassoc", "nsz"}


class Asked(NamedTuple):
    """Which families to score, and from which rates each node's begin."""

    chosen: Any
    family_start: Any
    families: Any
    """Those of ``chosen[i]`` are rows ``family_start[i] : family_start[i + 1]``, padded with −1."""
    start_rates: Any
    """(S, S) blocks of the chosen nodes, one after the other; the prior's mask is laid out so."""


class LocalRule(NamedTuple):
    """When to stop, and how far apart (±) the configurations of a family start."""

    max_iterations: int
    tolerance: float
    spread: float
    stop: Any
    """(1,) set when the time is over: families from there on have no score (NaN)."""


class Scored(NamedTuple):
    """Per family: its score, the iterations it took, and how they ended."""

    scores: Any
    iterations: Any
    status: Any
    dwell: Any
    """(F, …) dwell times and ``transitions`` of each family, flat; no rows where not wanted."""
    transitions: Any


class Frozen(NamedTuple):
    """What the frozen neighbours say, block by block of time steps."""

    block_starts: Any
    """(D + 1,) first block of each trajectory."""
    pull: Any
    """ψ of the node's children."""
    weights: Any
    """Probability of each configuration of the family."""


class FamilyRates(NamedTuple):
    """The rates of one family, flat, and what is remembered to extrapolate them."""

    rates: Any
    table: Any
    """What the method averages: the rates, or their logarithms."""
    logs: Any
    steps: Any
    """Logarithms of the rates after the last update, and what it changed."""


@inner(allocates=True)
def _block_starts(problem):
    """(D+1,) first block of each trajectory when blocks are counted through all of them."""
    n_trajectories = problem.step_start.shape[0] - 1
    starts = np.zeros(n_trajectories + 1, dtype=np.int64)
    for d in range(n_trajectories):
        steps = problem.step_start[d + 1] - problem.step_start[d]
        starts[d + 1] = starts[d] + (steps + BLOCK - 1) // BLOCK
    return starts


@inner
def _pull_of_children(problem, moments, table, node, block_starts, work, pull):
    """ψ of the node on all steps of all trajectories, from its children in the current graph."""
    for d in range(block_starts.shape[0] - 1):
        prepare_trajectory(problem, d, work)
        steps = problem.step_start[d + 1] - problem.step_start[d]
        for block in range(block_starts[d + 1] - block_starts[d]):
            first = block * BLOCK
            count = min(BLOCK, steps - first)
            here = pull[block_starts[d] + block]
            collect_pull(work.addresses, problem, work, moments, table, d, node, first, count, here)


@inner
def _family_weights(problem, moments, family, block_starts, work, weights):
    """Probability of each configuration of a candidate family on all steps; their number."""
    n_configurations = int(1)
    for d in range(block_starts.shape[0] - 1):
        prepare_trajectory(problem, d, work)
        steps = problem.step_start[d + 1] - problem.step_start[d]
        for block in range(block_starts[d + 1] - block_starts[d]):
            first = block * BLOCK
            count = min(BLOCK, steps - first)
            here = weights[block_starts[d] + block]
            for k in range(count):
                here[0, k] = 1.0
            n_configurations = int(1)  # not a written number: see ``inner``
            for parent in family:
                if parent < 0:
                    continue
                size = problem.node[parent, STATES]
                multiply_in_parent(
                    here,
                    n_configurations,
                    moments,
                    moments_begin(problem, d, parent),
                    steps,
                    size,
                    first,
                    count,
                    work.inverse_width,
                    bool(False),
                )
                n_configurations *= size
    return n_configurations


@inner(fastmath=_REORDER)
def _add_statistics(weights, fresh, size, n_configurations, count, dwell, transitions):
    """Σ_k weights(u) W(x,y) of one block, diagonal to ``dwell`` and the rest to ``transitions``."""
    rows = size * size
    for u in range(n_configurations):
        for row in range(rows):
            total = 0.0
            for k in range(count):
                total += weights[u, k] * fresh[row, k]
            x = row // size
            if row == x * size + x:
                dwell[u * size + x] += total
            else:
                transitions[u * rows + row] += total


@inner
def _solve_family(
    problem, node, current, frozen, n_configurations, family, counts, prior, rule, work
):
    """Iterate the node's messages and rates; (score, iterations, status)."""
    block_starts, pull, weights = frozen
    dwell, transitions = counts
    geometric = current.geometric
    size = problem.node[node, STATES]
    rows = size * size
    n_trajectories = block_starts.shape[0] - 1
    previous = math.inf
    score = -math.inf
    may_jump = bool(False)  # only after two plain updates
    remember_rates(n_configurations * rows, family.rates, family.logs)
    for iteration in range(rule.max_iterations):
        for i in range(n_configurations * size):
            dwell[i] = 0.0
        for i in range(n_configurations * rows):
            transitions[i] = 0.0
        log_z = 0.0
        for d in range(n_trajectories):
            first_step = problem.step_start[d]
            steps = problem.step_start[d + 1] - first_step
            for block in range(block_starts[d + 1] - block_starts[d]):
                count = min(BLOCK, steps - block * BLOCK)
                generator = work.steps[block, :rows]
                average_table(
                    family.table,
                    size,
                    n_configurations,
                    weights[block_starts[d] + block],
                    count,
                    generator,
                )
                if geometric:
                    for row in range(rows):
                        if row // size != row % size:
                            for k in range(count):
                                generator[row, k] = math.exp(generator[row, k])
                psi = pull[block_starts[d] + block]
                for x in range(size):
                    for k in range(count):
                        generator[x * size + x, k] += psi[x, k]
                begin = first_step + block * BLOCK
                width = problem.width[begin : begin + count]
                propagate_block(work.addresses, size, width, block, count, count, work)
            this_log_z, _, _, bad_point, clamped = pass_messages(
                work.addresses, problem, work, family.rates, current.initial, d, node
            )
            if bad_point >= 0:
                return -math.inf, iteration + 1, IMPOSSIBLE
            log_z += this_log_z
            for block in range(block_starts[d + 1] - block_starts[d]):
                first = block * BLOCK
                count = min(BLOCK, steps - first)
                begin = first_step + first
                width = problem.width[begin : begin + count]
                step_moments(work.addresses, size, width, first, count, count, clamped, work)
                fresh = work.matrices[3]
                if geometric:
                    for row in range(rows):
                        if row // size != row % size:
                            for k in range(count):
                                fresh[row, k] *= work.steps[block, row, k]
                if clamped:
                    clear_set_steps(problem, d, node, first, count, rows, fresh)
                _add_statistics(
                    weights[block_starts[d] + block],
                    fresh,
                    size,
                    n_configurations,
                    count,
                    dwell,
                    transitions,
                )
        if not geometric:
            for i in range(n_configurations * rows):
                transitions[i] *= family.rates[i]
        energy, gamma_terms, _ = update_family_rates(
            size, n_configurations, (family.rates, family.table, geometric), counts, prior
        )
        score = log_z - energy + gamma_terms
        moved = abs(score - previous)
        previous = score
        # from equal rates the first iteration changes little: never stop there
        if iteration >= 2 and settled(0.0, moved, rule.tolerance, max(1.0, 1e-3 * abs(score))):
            return score, iteration + 1, CONVERGED
        if not prior.digamma:
            # (with the exact stationary point exit rates are not sums)
            jumped = extrapolate(size, n_configurations, geometric, may_jump, family)
            may_jump = not jumped
    return score, rule.max_iterations, ITERATION_LIMIT


@kernel
def score_families(problem, work, current, moments, asked, prior, rule, scored):
    """Local scores of the families asked for.

    ``current`` are the parameters of the graph in ``problem``, which determine ψ.
    """
    problem, work = bundle(problem), bundle(work)
    geometric, families = current.geometric, asked.families
    block_starts = _block_starts(problem)
    n_blocks = block_starts[block_starts.shape[0] - 1]
    largest_size = 0
    for n in range(problem.node.shape[0] - 1):
        largest_size = max(largest_size, problem.node[n, STATES])
    most = 1
    for f in range(families.shape[0]):
        n_configurations = 1
        for parent in families[f]:
            if parent >= 0:
                n_configurations *= problem.node[parent, STATES]
        most = max(most, n_configurations)
    rows = largest_size * largest_size
    pull = np.zeros((n_blocks, largest_size, STRIDE))
    weights = np.zeros((n_blocks, most, STRIDE))
    frozen = Frozen(block_starts, pull, weights)
    rates = np.zeros(most * rows)
    table = rates
    if geometric:
        table = np.zeros(most * rows)
    family = FamilyRates(rates, table, np.zeros(most * rows), np.zeros(most * rows))
    counts = (np.zeros(most * largest_size), np.zeros(most * rows))
    begin = 0
    for i in range(asked.chosen.shape[0]):
        node = asked.chosen[i]
        size = problem.node[node, STATES]
        squares = size * size
        own_start = asked.start_rates[begin : begin + squares]
        mask, rate = prior.allowed[begin:], prior.rate[problem.node[node, SQUARES] :]
        own = MarginalPrior(mask, prior.shape, rate, prior.digamma)
        begin += squares
        _pull_of_children(problem, moments, current.table, node, block_starts, work, pull)
        for f in range(asked.family_start[i], asked.family_start[i + 1]):
            if rule.stop[0]:
                scored.scores[f] = math.nan
                continue
            n_configurations = _family_weights(
                problem, moments, families[f], block_starts, work, weights
            )
            for u in range(n_configurations):
                factor = 1.0
                if n_configurations > 1:
                    factor = math.exp(rule.spread * (2.0 * u / (n_configurations - 1.0) - 1.0))
                for row in range(squares):
                    value = own_start[row] * factor
                    rates[u * squares + row] = value
                    table[u * squares + row] = value
                    if geometric and row // size != row % size:
                        table[u * squares + row] = LOG_OF_ZERO_RATE
                        if value > 0.0:
                            table[u * squares + row] = math.log(value)
            score, iterations, status = _solve_family(
                problem, node, current, frozen, n_configurations, family, counts, own, rule, work
            )
            scored.scores[f] = score
            scored.iterations[f] = iterations
            scored.status[f] = status
            if scored.dwell.shape[0] > 0:
                for i in range(n_configurations * size):
                    scored.dwell[f, i] = counts[0][i]
                for i in range(n_configurations * squares):
                    scored.transitions[f, i] = counts[1][i]


_FARTHEST = 8.0  # times the last step that an extrapolation may go


@inner
def remember_rates(n_entries, rates, logs):
    """Where the rates begin, as logarithms; zero stands for entries that are no rates."""
    for i in range(n_entries):
        logs[i] = math.log(rates[i]) if rates[i] > 0.0 else 0.0


@inner
def extrapolate(size, n_configurations, geometric, jump, family):
    """Put the rates of one node where two updates in a row point (Aitken), if ``jump``.

    Near the solution the logarithms of a node's rates approach it geometrically. Two steps tell by
    which factor, and so how far there is to go. The plain update that follows corrects what the
    guess got wrong, so that the solution is the same. Returns whether the rates jumped.
    """
    rates, table, logs, steps = family
    rows = size * size
    along = 0.0
    squared = 0.0
    for i in range(n_configurations * rows):
        if rates[i] > 0.0:
            now = math.log(rates[i])
            step = now - logs[i]
            change = step - steps[i]
            along += change * step
            squared += change * change
            steps[i] = step
            logs[i] = now
    if not jump or not squared > 0.0:
        return False
    ahead = min(max(-along / squared, 0.0), _FARTHEST)
    for u in range(n_configurations):
        for x in range(size):
            leave = 0.0
            for y in range(size):
                entry = u * rows + x * size + y
                if x != y and rates[entry] > 0.0:
                    logs[entry] += min(max(ahead * steps[entry], -1.0), 1.0)
                    rates[entry] = math.exp(logs[entry])
                    table[entry] = logs[entry] if geometric else rates[entry]
                    leave += rates[entry]
            diagonal = u * rows + x * size + x
            rates[diagonal] = -leave
            table[diagonal] = -leave
    return True


@kernel
def extrapolate_all(nodes, parameters, logs, steps, jump):
    """The same for every node of ``Problem.node``, for Python to call."""
    for node in range(nodes.shape[0] - 1):
        if nodes[node, IS_EXOGENOUS] == 0:
            begin, end = nodes[node, TABLE], nodes[node + 1, TABLE]
            family = FamilyRates(
                parameters.rates[begin:end],
                parameters.table[begin:end],
                logs[begin:end],
                steps[begin:end],
            )
            size, n_configurations = nodes[node, STATES], nodes[node, CONFIGURATIONS]
            extrapolate(size, n_configurations, parameters.geometric, jump, family)
