"""Sweeps over all nodes until the messages of a trajectory agree, with acceleration.

Plain Gauss–Seidel sweeps come first: at weak and moderate coupling they are done in a few. Where
each sweep removes too little of the residual, Anderson mixing extrapolates from the last
differences of the sweep map. When the residual stops falling, the history is dropped and the
updates are damped. Whatever is mixed is projected back to what moments can be: non-negative,
diagonals summing to the step.

Anderson mixing: where the last few differences of an iteration say that its fixed point lies.

From the last differences of the residual (what a sweep changed) and of the image (what a sweep
gave) the next state is image − Σ γ_i Δimage_i, with γ the least-squares fit of the residual by its
differences. These are kept in single precision: only the way to the fixed point depends on them.

Expected dwell times and transitions from the moments of solved trajectories.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.numerics._jit import inner, kernel
from asterism.numerics._step import has_settled
from asterism.star._averages import configuration_weights
from asterism.star._buffers import (
    BLOCK,
    CONFIGURATIONS,
    DWELL,
    IS_EXOGENOUS,
    IS_JUMP,
    MARGINAL,
    MEMBERS,
    PARENTS,
    STATES,
    TABLE,
    is_corrected,
    make_work,
    moments_begin,
    moments_range,
    prepare_trajectory,
    project_moments,
    scale_of_moments,
    start_moments,
)
from asterism.star._links import add_jump_statistics
from asterism.star._messages import DATA, EVIDENCE, JUMPS, RESIDUAL, START, sweep_trajectory
from asterism.star._node import clear_set_steps
from asterism.star._readings import NOTHING

# how an iteration ended
CONVERGED = 0
SWEEP_LIMIT = 1
IMPOSSIBLE = 2
GUARD = 3
NOT_FINITE = 4

# columns of the integers that an iteration fills per trajectory (totals: see ``sweep``)
SWEEPS = 0
STATUS = 1
BAD_NODE = 2
BAD_POINT = 3
N_INTEGERS = 4

_PLAIN_SWEEPS = 5
# mixing needs eight more copies of the moments: where they are many it is the last resort
_MANY_MOMENTS = 4_000_000
_MORE_PLAIN_SWEEPS = 20
_SLACK = 1e-6  # by which the evidence may exceed its upper limit, relative to it
_SLOW = 0.3  # share of the residual that a sweep may leave before mixing pays


settled = inner(has_settled)


@inner
def _linked_range(problem, trajectory):
    """First and past-the-last entry of the marginals at this trajectory's linked evidence."""
    end = problem.marginals.shape[0]
    member = problem.link[problem.link_start[trajectory], MEMBERS]
    past = problem.link[problem.link_start[trajectory + 1], MEMBERS]
    first = problem.member[member, MARGINAL] if member < problem.member.shape[0] else end
    last = problem.member[past, MARGINAL] if past < problem.member.shape[0] else end
    return first, last


@kernel
def iterate(
    problem,
    rates,
    table,
    initial,
    geometric,
    moments,
    chosen,
    restart,
    max_sweeps,
    tolerance,
    damping_at_start,
    totals,
    integers,
    history,
    counting,
    dwell,
    transitions,
    starts,
    reading,
    messages,
    at_points,
    addresses,
):
    """Sweep the trajectories listed in ``chosen``, one after the other, until they agree.

    ``rates`` are the intensities, ``table`` what is averaged (``rates`` again, or logarithms off
    the diagonal when ``geometric``). ``restart`` begins from uninformed moments, else from what
    ``moments`` holds. ``totals[d]`` and ``integers[d]`` receive the columns named above,
    ``history[d]`` F and residual after every sweep.

    With ``counting``, the expected statistics of the moments in the end are added to ``dwell`` and
    ``transitions``, and the marginals at the start to ``starts``; ``max_sweeps`` zero does no more
    than that. ``reading`` (see ``readings``) asks for what the last sweep's messages say: with
    ``damping_at_start`` zero and one sweep that is all that happens.
    """
    longest = 1
    for trajectory in chosen:
        steps = problem.step_start[trajectory + 1] - problem.step_start[trajectory]
        longest = max(longest, steps)
    work = make_work(problem, longest, addresses)
    memory = make_history(0)
    gram = np.zeros((DEPTH, DEPTH))
    for trajectory in chosen:
        first_moment, last_moment = moments_range(problem, trajectory)
        current = moments[first_moment:last_moment]
        prepare_trajectory(problem, trajectory, work)
        if restart:
            start_moments(problem, trajectory, moments)
        first_linked, last_linked = _linked_range(problem, trajectory)
        linked = problem.marginals[first_linked:last_linked]
        linked_before = linked.copy() if reading != NOTHING else linked
        # the first sweep from an uninformed start ignores the children
        with_pull = not restart
        damping = damping_at_start
        plain_sweeps = _PLAIN_SWEEPS
        if current.shape[0] > _MANY_MOMENTS:
            plain_sweeps = _MORE_PLAIN_SWEEPS
        accelerating = False
        n_differences = -1
        best = math.inf
        stalled = 0
        previous = math.inf
        last = math.inf
        status = SWEEP_LIMIT
        bad_node = -1
        bad_point = -1
        sweep = 0
        while sweep < max_sweeps and status == SWEEP_LIMIT:
            if accelerating:
                begin_sweep(memory, current)
            bad_node, bad_point = sweep_trajectory(
                problem,
                rates,
                table,
                initial,
                geometric,
                with_pull,
                damping,
                moments,
                trajectory,
                work,
                totals,
                reading,
                messages,
                at_points,
            )
            if bad_node >= 0:
                status = IMPOSSIBLE
            evidence = totals[trajectory, EVIDENCE]
            residual = totals[trajectory, RESIDUAL]
            history[trajectory, 0, sweep] = evidence
            history[trajectory, 1, sweep] = residual
            with_pull = True
            sweep += 1
            if status == IMPOSSIBLE:
                break
            if not math.isfinite(evidence):
                status = NOT_FINITE
                break
            moved = abs(evidence - previous)
            previous = evidence
            if settled(residual, moved, tolerance, max(1.0, abs(evidence))):
                bound = (
                    totals[trajectory, DATA] + totals[trajectory, START] + totals[trajectory, JUMPS]
                )
                status = CONVERGED
                slack = _SLACK
                if is_corrected(problem):
                    # the bound holds up to the error of the steps, to which the caller's grid and
                    # the tolerance of the iteration are adapted
                    slack = max(slack, 1e3 * tolerance)
                if evidence > bound + slack * max(1.0, abs(bound)):
                    status = GUARD
                break
            if residual < 0.95 * best:
                best = residual
                stalled = 0
            else:
                stalled += 1
            if stalled >= 4:
                # neither plain nor accelerated sweeps help: damp, and forget the history
                damping = max(0.1, 0.6 * damping)
                stalled = 0
                best = residual
                accelerating = False
                continue
            if accelerating and sweep < max_sweeps:
                if mix_alone(memory, current, n_differences, gram):
                    project_moments(problem, trajectory, moments)
                n_differences += 1
            elif sweep >= plain_sweeps and damping == damping_at_start and residual > _SLOW * last:
                accelerating = True
                n_differences = -1
                if memory.before.shape[0] != current.shape[0]:
                    memory = make_history(current.shape[0])
                scale_of_moments(problem, geometric, trajectory, memory.scale)
            last = residual
        if counting:
            add_statistics(problem, rates, geometric, moments, trajectory, dwell, transitions, work)
            if sweep > 0:
                for i in range(starts.shape[0]):
                    starts[i] += work.starts[i]
        if reading != NOTHING:
            # forward passes overwrote these: asking must change nothing
            for i in range(linked.shape[0]):
                linked[i] = linked_before[i]
        if max_sweeps == 0:
            continue
        integers[trajectory, SWEEPS] = sweep
        integers[trajectory, STATUS] = status
        integers[trajectory, BAD_NODE] = bad_node
        integers[trajectory, BAD_POINT] = bad_point


DEPTH = 4
_REORDER = {"contract", "reassoc", "nsz"}


class History(NamedTuple):
    """What is remembered of one part of the state."""

    before: NDArray[np.float64]
    """The state that the last sweep began with."""
    image: NDArray[np.float64]
    scale: NDArray[np.float32]
    """What makes a change dimensionless, so that the unit of time does not matter."""
    residual: NDArray[np.float32]
    image_steps: NDArray[np.float32]
    residual_steps: NDArray[np.float32]


@inner(allocates=True)
def make_history(size):
    """Room for a part of ``size`` numbers."""
    return History(
        np.zeros(size),
        np.zeros(size),
        np.ones(size, dtype=np.float32),
        np.zeros(size, dtype=np.float32),
        np.zeros((DEPTH, size), dtype=np.float32),
        np.zeros((DEPTH, size), dtype=np.float32),
    )


@inner
def begin_sweep(history, state):
    """Keep the state that a sweep begins with."""
    for i in range(state.shape[0]):
        history.before[i] = state[i]


@inner(fastmath=_REORDER)
def remember(history, image, slot):
    """Store the newest differences in ``slot``; image and residual become the present ones."""
    image_step = history.image_steps[slot]
    residual_step = history.residual_steps[slot]
    for i in range(image.shape[0]):
        residual = (image[i] - history.before[i]) * history.scale[i]
        residual_step[i] = residual - history.residual[i]
        image_step[i] = image[i] - history.image[i]
        history.residual[i] = residual
        history.image[i] = image[i]


@inner(fastmath=_REORDER)
def add_products(history, slot, n_kept, gram, right):
    """Add the inner products that are new: those of the newest difference and of the residual."""
    newest = history.residual_steps[slot]
    for j in range(n_kept):
        step = history.residual_steps[j]
        with_newest = 0.0
        with_residual = 0.0
        for i in range(newest.shape[0]):
            with_newest += step[i] * newest[i]
            with_residual += step[i] * history.residual[i]
        gram[slot, j] += with_newest
        right[j] += with_residual


@inner(fastmath=_REORDER)
def step_back(history, state, n_kept, gamma):
    """state = image − Σ γ_i Δimage_i."""
    for j in range(n_kept):
        step = history.image_steps[j]
        for i in range(state.shape[0]):
            state[i] -= gamma[j] * step[i]


@inner
def solve_small(matrix, right, n):
    """Gaussian elimination in place for a small, positive definite system."""
    for i in range(n):
        for j in range(i + 1, n):
            factor = matrix[j, i] / matrix[i, i]
            for k in range(i, n):
                matrix[j, k] -= factor * matrix[i, k]
            right[j] -= factor * right[i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            right[i] -= matrix[i, k] * right[k]
        right[i] /= matrix[i, i]


@inner(allocates=True)
def fit(gram, right, n_kept, gamma):
    """Least squares by the normal equations, slightly damped; False where nothing moved."""
    matrix = np.empty((n_kept, n_kept))
    trace = 0.0
    for i in range(n_kept):
        trace += gram[i, i]
        gamma[i] = right[i]
        for j in range(n_kept):
            matrix[i, j] = gram[i, j]
    if not trace > 0.0:
        return False
    for i in range(n_kept):
        matrix[i, i] += 1e-12 * trace
    solve_small(matrix, gamma, n_kept)
    return True


@inner(allocates=True)
def mix_alone(history, image, n_before, gram):
    """Put ``image``, what a sweep gave, where the differences point; False if it stays.

    ``n_before`` differences were stored before this one (−1: not even a sweep to differ from).
    ``gram`` holds their inner products.
    """
    slot = max(n_before, 0) % DEPTH
    remember(history, image, slot)
    if n_before < 0:
        return False
    n_kept = min(n_before + 1, DEPTH)
    right = np.zeros(DEPTH)
    gamma = np.zeros(DEPTH)
    for j in range(DEPTH):
        gram[slot, j] = 0.0
    add_products(history, slot, n_kept, gram, right)
    for j in range(DEPTH):
        gram[j, slot] = gram[slot, j]
    if not fit(gram, right, n_kept, gamma):
        return False
    step_back(history, image, n_kept, gamma)
    return True


@inner(fastmath=_REORDER)
def _add_node_statistics(
    problem, rates, geometric, moments, trajectory, node, dwell, transitions, work
):
    """Add T^u(x) = ∫ m m^u and M^u(x,y) = ∫ τ^u of one node and trajectory to the flat tables."""
    size = problem.node[node, STATES]
    rows = size * size
    begin = moments_begin(problem, trajectory, node)
    table = problem.node[node, TABLE]
    dwell_begin = problem.node[node, DWELL]
    steps = problem.step_start[trajectory + 1] - problem.step_start[trajectory]
    weights = work.configurations[0]
    nobody = problem.node[node + 1, PARENTS] - problem.node[node, PARENTS]
    for block in range((steps + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        count = min(BLOCK, steps - first)
        configuration_weights(
            problem,
            moments,
            trajectory,
            node,
            nobody,
            first,
            count,
            work.inverse_width,
            weights,
            work.configurations[1],
        )
        if is_corrected(problem):
            begin_step = problem.step_start[trajectory] + first
            quadrature = problem.quadrature[begin_step : begin_step + count]
            for u in range(problem.node[node, CONFIGURATIONS]):
                for k in range(count):
                    weights[u, k] *= quadrature[k]
        n_configurations = problem.node[node, CONFIGURATIONS]
        clear_set_steps(problem, trajectory, node, first, count, n_configurations, weights)
        for u in range(problem.node[node, CONFIGURATIONS]):
            for row in range(rows):
                total = 0.0
                place = begin + row * steps + first
                here = moments[place : place + count]
                for k in range(count):
                    total += weights[u, k] * here[k]
                x = row // size
                if row == x * size + x:
                    dwell[dwell_begin + u * size + x] += total
                elif geometric:
                    transitions[table + u * rows + row] += total
                else:
                    transitions[table + u * rows + row] += rates[table + u * rows + row] * total


@inner
def add_statistics(problem, rates, geometric, moments, trajectory, dwell, transitions, work):
    """Add the expected statistics of one trajectory to flat tables."""
    for node in range(problem.node.shape[0] - 1):
        if problem.node[node, IS_EXOGENOUS] == 0:
            _add_node_statistics(
                problem, rates, geometric, moments, trajectory, node, dwell, transitions, work
            )
    for link in range(problem.link_start[trajectory], problem.link_start[trajectory + 1]):
        if problem.link[link, IS_JUMP] == 1:
            add_jump_statistics(problem, link, transitions)
