"""Scores of one node's candidate families with every other node frozen.

With the neighbours' moments fixed, the configuration weights of a family and the pull ψ of the
node's children do not change: only the node's own messages and rates are iterated, at a cost that
does not depend on the size of the network. The score of a family is ln Z − E + Gamma terms; terms
that all families of the node share are left out.

Rates of one family while it is scored alone: energy, Gamma terms, update and extrapolation.

Rates approach their solution geometrically: every other update is extrapolated.

Screening: what each single parent would gain, from frozen statistics.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.learning.search._marginal import digamma
from asterism.numerics._jit import inner, kernel
from asterism.star._averages import (
    average_table,
    multiply_in_parent,
)
from asterism.star._buffers import (
    BLOCK,
    STATES,
    STRIDE,
    make_work,
    moments_begin,
    prepare_trajectory,
)
from asterism.star._messages import backward_pass, evaluate_marks, forward_pass
from asterism.star._node import (
    apply_spans,
    clear_set_steps,
    collect_pull,
    propagate_block,
    step_moments,
)

_REORDER = {"contract", "reassoc", "nsz"}

# outcome of a family's iteration
CONVERGED = 0
ITERATION_LIMIT = 1
IMPOSSIBLE = 2


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
            collect_pull(problem, moments, table, d, node, first, count, work, here)


@inner
def _family_weights(problem, moments, family, block_starts, work, weights):
    """Probability of each configuration of a candidate family on all steps; their number."""
    n_configurations = 1
    for d in range(block_starts.shape[0] - 1):
        prepare_trajectory(problem, d, work)
        steps = problem.step_start[d + 1] - problem.step_start[d]
        for block in range(block_starts[d + 1] - block_starts[d]):
            first = block * BLOCK
            count = min(BLOCK, steps - first)
            here = weights[block_starts[d] + block]
            for k in range(count):
                here[0, k] = 1.0
            n_configurations = 1
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
                    False,
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


@inner(inline="always")
def _solve_family(
    problem,
    node,
    family_rates,
    table,
    initial,
    geometric,
    allowed,
    shape,
    rate,
    exact_point,
    max_iterations,
    tolerance,
    block_starts,
    pull,
    weights,
    n_configurations,
    work,
    dwell,
    transitions,
    logs,
    last_steps,
):
    """Iterate the node's messages and rates; (score, iterations, status)."""
    size = problem.node[node, STATES]
    rows = size * size
    n_trajectories = block_starts.shape[0] - 1
    previous = math.inf
    score = -math.inf
    n_plain = 0
    start_extrapolation(n_configurations * rows, family_rates, logs)
    for iteration in range(max_iterations):
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
                    table,
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
                propagate_block(size, width, block, count, count, work)
            clamped = apply_spans(problem, d, node, work)
            evaluate_marks(problem, family_rates, d, node, work)
            this_log_z, bad_point = backward_pass(problem, initial, d, node, work)
            if bad_point >= 0:
                return -math.inf, iteration + 1, IMPOSSIBLE
            log_z += this_log_z
            forward_pass(problem, initial, d, node, work)
            for block in range(block_starts[d + 1] - block_starts[d]):
                first = block * BLOCK
                count = min(BLOCK, steps - first)
                begin = first_step + first
                width = problem.width[begin : begin + count]
                step_moments(size, width, first, count, count, clamped, work)
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
        energy, gamma_terms = update_family_rates(
            size,
            n_configurations,
            family_rates,
            table,
            allowed,
            shape,
            rate,
            exact_point,
            geometric,
            dwell,
            transitions,
        )
        score = log_z - energy + gamma_terms
        moved = abs(score - previous)
        previous = score
        # from equal rates the first iteration changes little: never stop there
        if iteration >= 2 and moved <= tolerance * max(1.0, 1e-3 * abs(score)):
            return score, iteration + 1, CONVERGED
        if not exact_point:
            # (with the exact stationary point exit rates are not sums)
            n_plain = extrapolate(
                size, n_configurations, geometric, n_plain, family_rates, table, logs, last_steps
            )
    return score, max_iterations, ITERATION_LIMIT


@kernel
def score_families(
    problem,
    current_table,
    initial,
    geometric,
    moments,
    chosen,
    family_start,
    families,
    start_rates,
    allowed,
    shape,
    rate,
    exact_point,
    max_iterations,
    tolerance,
    spread,
    scores,
    iterations,
    status,
    addresses,
):
    """Local scores of the listed families of each node in ``chosen``.

    The families of ``chosen[i]`` are rows ``family_start[i] : family_start[i+1]`` of ``families``
    (padded with −1). ``start_rates`` and ``allowed`` hold the (S, S) blocks of the chosen nodes one
    after the other; configurations start apart by ± ``spread``. ``current_table`` belongs to the
    graph in ``problem`` and determines ψ.
    """
    block_starts = _block_starts(problem)
    n_blocks = block_starts[block_starts.shape[0] - 1]
    longest = 1
    for d in range(block_starts.shape[0] - 1):
        longest = max(longest, problem.step_start[d + 1] - problem.step_start[d])
    work = make_work(problem, longest, addresses)
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
    rates = np.zeros(most * rows)
    table = np.zeros(most * rows)
    dwell = np.zeros(most * largest_size)
    transitions = np.zeros(most * rows)
    logs = np.zeros(most * rows)
    last_steps = np.zeros(most * rows)
    begin = 0
    for i in range(chosen.shape[0]):
        node = chosen[i]
        size = problem.node[node, STATES]
        squares = size * size
        own_start = start_rates[begin : begin + squares]
        own_allowed = allowed[begin : begin + squares]
        begin += squares
        _pull_of_children(problem, moments, current_table, node, block_starts, work, pull)
        for f in range(family_start[i], family_start[i + 1]):
            n_configurations = _family_weights(
                problem, moments, families[f], block_starts, work, weights
            )
            for u in range(n_configurations):
                factor = 1.0
                if n_configurations > 1:
                    factor = math.exp(spread * (2.0 * u / (n_configurations - 1.0) - 1.0))
                for row in range(squares):
                    value = own_start[row] * factor
                    rates[u * squares + row] = value
                    table[u * squares + row] = value
                    if geometric and row // size != row % size:
                        table[u * squares + row] = LOG_OF_ZERO_RATE
                        if value > 0.0:
                            table[u * squares + row] = math.log(value)
            scores[f], iterations[f], status[f] = _solve_family(
                problem,
                node,
                rates,
                table,
                initial,
                geometric,
                own_allowed,
                shape,
                rate,
                exact_point,
                max_iterations,
                tolerance,
                block_starts,
                pull,
                weights,
                n_configurations,
                work,
                dwell,
                transitions,
                logs,
                last_steps,
            )


LOG_OF_ZERO_RATE = -1e12
_FARTHEST = 8.0  # times the last step that an extrapolation may go


@inner
def update_family_rates(
    size,
    n_configurations,
    rates,
    table,
    allowed,
    shape,
    rate,
    exact_point,
    geometric,
    dwell,
    transitions,
):
    """E and Gamma terms at the current rates, which then become posterior means; (E, Γ)."""
    rows = size * size
    energy = 0.0
    gamma_terms = 0.0
    constant = shape * math.log(rate) - math.lgamma(shape)
    for u in range(n_configurations):
        for x in range(size):
            time = dwell[u * size + x]
            energy += time * rates[u * rows + x * size + x]
            leave = 0.0
            for y in range(size):
                if x == y:
                    continue
                entry = u * rows + x * size + y
                if not allowed[x * size + y]:
                    rates[entry] = 0.0
                    table[entry] = LOG_OF_ZERO_RATE if geometric else 0.0
                    continue
                count = transitions[entry]
                if not geometric:
                    count *= rates[entry]
                if count > 0.0:
                    energy += count * math.log(rates[entry])
                count += shape
                gamma_terms += constant + math.lgamma(count) - count * math.log(time + rate)
                value = count / (time + rate)
                leave += value
                if exact_point:
                    value = math.exp(digamma(count)) / (time + rate)
                rates[entry] = value
                table[entry] = math.log(value) if geometric else value
            diagonal = u * rows + x * size + x
            rates[diagonal] = -leave
            table[diagonal] = -leave
    return energy, gamma_terms


@inner
def start_extrapolation(n_entries, rates, logs):
    """Remember where the rates begin; zero stands for entries that are no rates."""
    for i in range(n_entries):
        logs[i] = math.log(rates[i]) if rates[i] > 0.0 else 0.0


@inner
def extrapolate(size, n_configurations, geometric, n_plain, rates, table, logs, steps):
    """Put the rates where two updates in a row point (Aitken); the updates since then.

    ``logs`` and ``steps`` hold the logarithms after the last update and what it changed.
    """
    rows = size * size
    n_entries = n_configurations * rows
    along = 0.0
    squared = 0.0
    for i in range(n_entries):
        if rates[i] > 0.0:
            now = math.log(rates[i])
            step = now - logs[i]
            change = step - steps[i]
            along += change * step
            squared += change * change
            steps[i] = step
            logs[i] = now
    if n_plain == 0 or not squared > 0.0:
        return 1
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
    return 0


@kernel
def single_parent_gains(
    dwell, transitions, own_dwell, own_transitions, size, parent_size, allowed, shape, rate, gains
):
    """Gain in Gamma terms of each (child, parent) pair from frozen statistics.

    ``dwell`` (parent states, children·S, parents) and ``transitions`` (parent states,
    children·S², parents) are products of child moments with parent marginals; ``own_…`` are the
    totals of the children. Children share ``size``, parents ``parent_size``.
    """
    constant = shape * math.log(rate) - math.lgamma(shape)
    squares = size * size
    for child in range(gains.shape[0]):
        base = 0.0
        for x in range(size):
            time = own_dwell[child * size + x] + rate
            for y in range(size):
                if x != y and allowed[child, x * size + y]:
                    count = own_transitions[child * squares + x * size + y] + shape
                    base += constant + math.lgamma(count) - count * math.log(time)
        for parent in range(gains.shape[1]):
            total = -base
            for u in range(parent_size):
                for x in range(size):
                    log_time = math.log(max(dwell[u, child * size + x, parent], 0.0) + rate)
                    for y in range(size):
                        if x != y and allowed[child, x * size + y]:
                            count = transitions[u, child * squares + x * size + y, parent]
                            count = max(count, 0.0) + shape
                            total += constant + math.lgamma(count) - count * log_time
            gains[child, parent] = total
