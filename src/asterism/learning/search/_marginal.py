"""Marginal dynamics: messages and posterior rates iterated together until they agree.

Rates are unknown with independent Gamma(α, β) priors. After every sweep over all trajectories they
become their posterior means R̄ = (M+α)/(T+β) at the expected statistics M and T; with α = β = 0 that
is an EM iteration. The exact stationary point of the marginalised energy uses
exp(digamma(M+α))/(T+β) off the diagonal instead. Only allowed transitions exist.

Anderson mixing makes it converge in fewer sweeps. What is mixed is every moment and the logarithm
of every rate.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from asterism.engine._outcome import EVIDENCE, RESIDUAL
from asterism.numerics._bundle import bundle
from asterism.numerics._jit import inner, kernel
from asterism.star._buffers import (
    CONFIGURATIONS,
    DWELL,
    INITIAL,
    IS_EXOGENOUS,
    LOG_OF_ZERO_RATE,
    SQUARES,
    STATES,
    TABLE,
    moments_range,
    prepare_trajectory,
    project_moments,
    scale_of_moments,
    start_moments,
)
from asterism.star._kept_messages import NOTHING, Messages, Reading
from asterism.star._node import add_statistics
from asterism.star._solve import (
    DEPTH,
    add_products,
    begin_sweep,
    fit,
    make_history,
    remember,
    settled,
    step_back,
    sweep_trajectory,
)

# how the iteration ended
CONVERGED = 0
ITERATION_LIMIT = 1
IMPOSSIBLE = 2
NOT_FINITE = 4
OUT_OF_TIME = 5

# entries of the summary
TOTAL_EVIDENCE = 0
ENERGY = 1
GAMMA_TERMS = 2
LARGEST_RESIDUAL = 3
RATE_CHANGE = 4
N_SUMMARY = 5


class MarginalPrior(NamedTuple):
    """The Gamma prior of the rates as loops read it."""

    allowed: Any
    """One boolean per entry of the rates: which transitions may happen."""
    shape: float
    rate: Any
    """Flat (S, S) blocks, one per node: β of its transitions. All zero for maximum likelihood."""
    digamma: bool
    """Whether rates are the exact stationary point instead of posterior means."""


#: iterations before which a score beyond all bounds may still come down
_LATE = 10
#: iterations in a row in which the score stays that settle it: slow drifts showed within five on
#: measurements of pure noise
_STILL = 10


class Rule(NamedTuple):
    """How to iterate, and when to stop."""

    restart: bool
    """Whether moments begin from nothing."""
    min_iterations: int
    max_iterations: int
    tolerance: float
    learn_initial: bool
    """After every sweep start probabilities become the average of the trajectories', with one
    pseudo-trajectory that starts anywhere."""
    accelerate: bool
    """Whether to mix: it needs memory for eight more sets of moments, and positive rates."""
    ceiling: float
    """Where the score exceeds this, the iteration has run away."""
    negligible: float = 0.0
    """Nats by which a score may move within ten iterations and count as settled; 0: never."""
    stop: Any = np.zeros(1, dtype=np.bool_)
    """(1,) set when the time is over."""


class Sums(NamedTuple):
    """What the last sweep gave: expected statistics, and sums per trajectory and of all."""

    dwell: Any
    transitions: Any
    totals: Any
    summary: Any
    """F, E and Gamma terms consistent with the statistics, and how much changed."""


@inner
def digamma(z):
    """d ln Γ(z)/dz for z > 0, by recurrence to z ≥ 10 and the asymptotic series."""
    value = 0.0
    while z < 10.0:
        value -= 1.0 / z
        z += 1.0
    inverse = 1.0 / (z * z)
    tail = inverse * (
        1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132)))
    )
    return value + math.log(z) - 0.5 / z - tail


@inner
def update_family_rates(size, n_configurations, family, counts, prior):
    """Replace a family's rates by their posterior means; (E, Gamma terms, largest change).

    E = Σ (M ln R − T R_exit) and the marginalised Gamma terms are those at the rates before; the
    change is relative. ``family`` are rates, table and whether the table holds logarithms,
    ``counts`` dwell times and transitions; all of them, and the prior, begin where the family does.
    """
    rates, table, geometric = family
    dwell, transitions = counts
    shape, rows = prior.shape, size * size
    energy = 0.0
    gamma_terms = 0.0
    largest = 0.0
    constant = math.lgamma(shape) if shape > 0.0 else 0.0
    for u in range(n_configurations):
        for x in range(size):
            diagonal = u * rows + x * size + x
            energy += dwell[u * size + x] * rates[diagonal]
            leave = 0.0
            for y in range(size):
                if x == y:
                    continue
                entry = u * rows + x * size + y
                time = dwell[u * size + x] + prior.rate[x * size + y]
                if prior.allowed[x * size + y]:
                    count = transitions[entry]
                    if count > 0.0:
                        energy += count * math.log(rates[entry])
                    count += shape
                    if shape > 0.0:
                        gamma_terms += shape * math.log(prior.rate[x * size + y]) - constant
                        gamma_terms += math.lgamma(count) - count * math.log(time)
                    value = rates[entry]
                    if time > 0.0:
                        value = count / time
                    leave += value
                    if prior.digamma and count > 0.0 and time > 0.0:
                        value = math.exp(digamma(count)) / time
                    scale = max(value, rates[entry])
                    if scale > 0.0:
                        largest = max(largest, abs(value - rates[entry]) / scale)
                    rates[entry] = value
                else:
                    rates[entry] = 0.0
                if geometric:
                    table[entry] = LOG_OF_ZERO_RATE
                    if rates[entry] > 0.0:
                        table[entry] = math.log(rates[entry])
            rates[diagonal] = -leave
            table[diagonal] = -leave
    return energy, gamma_terms, largest


@kernel
def solve_marginal(problem, work, parameters, moments, prior, rule, sums):
    """Iterate messages of all trajectories and rates; (iterations, status, node, trajectory).

    Node and trajectory are those of impossible evidence, else −1. ``parameters`` and ``moments``
    hold the start and receive the solution (the table is the rates themselves for the star).
    """
    problem, work, parameters = bundle(problem), bundle(work), bundle(parameters)
    rates, initial, geometric = parameters.rates, parameters.initial, parameters.geometric
    dwell, transitions, totals, summary = sums
    accelerate = rule.accelerate
    n_trajectories = problem.step_start.shape[0] - 1
    if rule.restart:
        for d in range(n_trajectories):
            start_moments(problem, d, moments)
    starts = np.zeros(initial.shape[0])
    no_points = np.zeros(0)
    no_states = np.zeros((0, 0), dtype=np.int32)
    no_messages = Messages(no_points, no_points, no_points, no_states, no_states)
    nothing = bundle(Reading(NOTHING, no_messages, no_points))  # its arrays are never read
    with_pull = not rule.restart
    full_step = 1.0
    damping = full_step
    previous = math.inf
    reference = math.inf
    n_still = 0
    best = math.inf
    stalled = 0
    mixing = accelerate
    moment_history = make_history(moments.shape[0] if accelerate else 0)
    rate_history = make_history(rates.shape[0] if accelerate else 0)
    if accelerate:
        for d in range(n_trajectories):
            first, last = moments_range(problem, d)
            scale_of_moments(problem, geometric, d, moment_history.scale[first:last])
    logs = np.zeros(rates.shape[0] if accelerate else 0)
    gram = np.zeros((DEPTH, DEPTH))
    n_differences = int(-1)  # the first sweep that counts has no predecessor to differ from
    may_begin_again = True
    for iteration in range(rule.max_iterations):
        # the first sweep may begin from nothing and says little about the later ones
        counts = mixing and iteration > 0
        if counts:
            begin_sweep(moment_history, moments)
            logarithms(rates, rate_history.before)
        for i in range(dwell.shape[0]):
            dwell[i] = 0.0
        for i in range(transitions.shape[0]):
            transitions[i] = 0.0
        starts[:] = 0.0
        evidence = 0.0
        residual = 0.0
        for d in range(n_trajectories):
            prepare_trajectory(problem, d, work)
            bad_node, _ = sweep_trajectory(
                problem, work, parameters, moments, d, with_pull, damping, totals, nothing
            )
            if bad_node >= 0:
                return iteration + 1, IMPOSSIBLE, bad_node, d
            for i in range(starts.shape[0]):
                starts[i] += work.starts[i]
            evidence += totals[d, EVIDENCE]
            residual = max(residual, totals[d, RESIDUAL])
            add_statistics(
                work.addresses, problem, work, rates, geometric, moments, d, dwell, transitions
            )
        with_pull = True
        update_all(problem, parameters, prior, rule.learn_initial, starts, sums)
        summary[TOTAL_EVIDENCE] = evidence
        summary[LARGEST_RESIDUAL] = residual
        if not math.isfinite(evidence):
            return iteration + 1, NOT_FINITE, -1, -1
        # without a prior only F is free of the unit of time
        score = evidence
        if prior.shape > 0.0:
            score += summary[GAMMA_TERMS] - summary[ENERGY]
        if score > rule.ceiling and iteration >= _LATE:
            return iteration + 1, NOT_FINITE, -1, -1
        moved = abs(score - previous)
        previous = score
        change = max(residual, summary[RATE_CHANGE])
        if iteration + 1 >= rule.min_iterations and settled(change, moved, rule.tolerance, 1.0):
            return iteration + 1, CONVERGED, -1, -1
        # where measurements tell almost nothing, rates drift on for ever and no score changes
        n_still += 1
        if abs(score - reference) > rule.negligible:
            reference = score
            n_still = 0
        elif n_still >= _STILL and rule.negligible > 0.0:
            return iteration + 1, CONVERGED, -1, -1
        if rule.stop[0]:
            return iteration + 1, OUT_OF_TIME, -1, -1
        if residual < 0.95 * best:
            best = residual
            stalled = 0
        else:
            stalled += 1
        if stalled >= 6:
            stalled = 0
            best = residual
            if mixing and may_begin_again:
                # what is remembered may mislead: forget it, once
                may_begin_again = False
                n_differences = int(-1)
                continue
            mixing = False
            # moments that follow drifting rates do not oscillate: damped, they would fall behind
            if residual > summary[RATE_CHANGE]:
                damping = max(0.1, 0.6 * damping)
        if counts and mixing:
            logarithms(rates, logs)
            if n_differences < 0:
                remember(moment_history, moments, int(0))
                remember(rate_history, logs, int(0))
            else:
                mix(problem, moment_history, rate_history, moments, logs, n_differences, gram)
                set_rates(problem, logs, rate_history.image, prior.digamma, parameters)
            n_differences += 1
    return rule.max_iterations, ITERATION_LIMIT, -1, -1


@inner
def update_start(problem, initial, node, starts, n_trajectories):
    """Average the trajectories' starts of a node, and one that starts anywhere; what it changed."""
    size = problem.node[node, STATES]
    begin = problem.node[node, INITIAL]
    change = 0.0
    for x in range(size):
        value = (starts[begin + x] + 1.0 / size) / (n_trajectories + 1.0)
        change = max(change, abs(value - initial[begin + x]))
        initial[begin + x] = value
    return change


@inner
def update_all(problem, parameters, prior, learn_initial, starts, sums):
    """Energy, Gamma terms and new rates of every node from summed statistics."""
    dwell, transitions, totals, summary = sums
    summary[ENERGY] = 0.0
    summary[GAMMA_TERMS] = 0.0
    summary[RATE_CHANGE] = 0.0
    for node in range(problem.node.shape[0] - 1):
        if problem.node[node, IS_EXOGENOUS] == 1:
            continue
        begin, first = problem.node[node, TABLE], problem.node[node, DWELL]
        own = MarginalPrior(
            prior.allowed[begin:],
            prior.shape,
            prior.rate[problem.node[node, SQUARES] :],
            prior.digamma,
        )
        family = parameters.rates[begin:], parameters.table[begin:], parameters.geometric
        counts = dwell[first:], transitions[begin:]
        size, n_configurations = problem.node[node, STATES], problem.node[node, CONFIGURATIONS]
        energy, gamma_terms, change = update_family_rates(
            size, n_configurations, family, counts, own
        )
        summary[ENERGY] += energy
        summary[GAMMA_TERMS] += gamma_terms
        if learn_initial:
            moved = update_start(problem, parameters.initial, node, starts, totals.shape[0])
            change = max(change, moved)
        summary[RATE_CHANGE] = max(summary[RATE_CHANGE], change)


@kernel
def update_all_rates(problem, parameters, prior, learn_initial, starts, sums):
    """The same for Python to call, after a sweep in threads."""
    update_all(bundle(problem), bundle(parameters), prior, learn_initial, starts, sums)


_LARGEST_STEP = 2.0  # no mixed rate is further from its image than this factor's logarithm


@inner
def logarithms(rates, logs):
    """ln |rate| of every entry; zero for rates of zero, which stay as they are."""
    for i in range(rates.shape[0]):
        size = abs(rates[i])
        logs[i] = math.log(size) if size > 0.0 else 0.0


@inner
def set_rates(problem, logs, image, free_exits, parameters):
    """Rates from mixed logarithms; exit rates are sums again unless they are free."""
    rates, table, geometric = parameters.rates, parameters.table, parameters.geometric
    for node in range(problem.node.shape[0] - 1):
        size = problem.node[node, STATES]
        for row in range(problem.node[node, CONFIGURATIONS] * size):
            begin = problem.node[node, TABLE] + row * size
            diagonal = begin + row % size
            leave = 0.0
            for entry in range(begin, begin + size):
                if rates[entry] == 0.0:
                    continue
                step = min(max(logs[entry] - image[entry], -_LARGEST_STEP), _LARGEST_STEP)
                size_of_rate = math.exp(image[entry] + step)
                if entry == diagonal:
                    rates[entry] = -size_of_rate
                else:
                    rates[entry] = size_of_rate
                    leave += size_of_rate
                    if geometric:
                        table[entry] = image[entry] + step
            if not free_exits:
                rates[diagonal] = -leave
            table[diagonal] = rates[diagonal]


@inner(allocates=True)
def mix(problem, moment_history, rate_history, moments, logs, n_before, gram):
    """Put ``moments`` and ``logs``, the images of a sweep, where the differences point.

    ``n_before`` differences were stored before this one. ``gram`` holds their inner products.
    """
    slot = n_before % DEPTH
    remember(moment_history, moments, slot)
    remember(rate_history, logs, slot)
    n_kept = min(n_before + 1, DEPTH)
    right = np.zeros(DEPTH)
    gamma = np.zeros(DEPTH)
    for j in range(DEPTH):
        gram[slot, j] = 0.0
    add_products(moment_history, slot, n_kept, gram, right)
    add_products(rate_history, slot, n_kept, gram, right)
    for j in range(DEPTH):
        gram[j, slot] = gram[slot, j]
    if fit(gram, right, n_kept, gamma):
        step_back(moment_history, moments, n_kept, gamma)
        step_back(rate_history, logs, n_kept, gamma)
        for d in range(problem.step_start.shape[0] - 1):
            project_moments(problem, d, moments)
