"""Sweeps until the messages of a trajectory agree, with acceleration; expected statistics.

Plain Gauss–Seidel sweeps come first: at weak and moderate coupling they are done in a few. If
they are not, Anderson mixing extrapolates from the last differences of the sweep map. When the
residual stops falling, the history is dropped and the updates are damped. Whatever is mixed is
projected back to what moments can be: non-negative, diagonals summing to the step.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.kernels._jit import kernel
from asterism.kernels.averages import configuration_weights, node_moments
from asterism.kernels.links import add_jump_statistics
from asterism.kernels.sweep import BLOCK, make_work, prepare_trajectory, sweep_trajectory

CONVERGED = 0
SWEEP_LIMIT = 1
IMPOSSIBLE = 2
GUARD = 3
NOT_FINITE = 4

_PLAIN_SWEEPS = 5
_DEPTH = 4
_REORDER = {"contract", "reassoc", "nsz"}


@kernel
def start_moments(problem, trajectory, moments):
    """Uninformed moments: uniform marginals; known states where they are known throughout."""
    graph = problem.graph
    marks = problem.marks
    n_nodes = graph.n_states.shape[0]
    first_step = problem.grid.step_start[trajectory]
    for node in range(n_nodes):
        size = graph.n_states[node]
        own = node_moments(graph, problem.grid, moments, trajectory, node)
        for row in range(size * size):
            for k in range(own.shape[1]):
                own[row, k] = problem.grid.width[first_step + k] / size
        pair = trajectory * n_nodes + node
        for i in range(marks.span_start[pair], marks.span_start[pair + 1]):
            state = marks.span_state[i]
            for k in range(marks.span_first[i], marks.span_last[i]):
                for row in range(size * size):
                    own[row, k] = 0.0
                own[state * size + state, k] = problem.grid.width[first_step + k]


@kernel
def project_moments(problem, trajectory, moments):
    """Make mixed moments legal: no negative entry, each step's diagonal sums to its width."""
    graph = problem.graph
    first_step = problem.grid.step_start[trajectory]
    for node in range(graph.n_states.shape[0]):
        size = graph.n_states[node]
        own = node_moments(graph, problem.grid, moments, trajectory, node)
        for row in range(size * size):
            for k in range(own.shape[1]):
                own[row, k] = max(own[row, k], 0.0)
        for k in range(own.shape[1]):
            total = 0.0
            for x in range(size):
                total += own[x * size + x, k]
            width = problem.grid.width[first_step + k]
            if total > 0.0:
                for x in range(size):
                    own[x * size + x, k] *= width / total
            else:
                for x in range(size):
                    own[x * size + x, k] = width / size


@kernel(fastmath=_REORDER)
def _dot(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@kernel
def _anderson_step(current, residual_steps, image_steps, residual, depth):
    """current −= image_steps γ, with γ the least-squares fit of the residual by its differences."""
    gram = np.empty((depth, depth))
    right = np.empty(depth)
    for i in range(depth):
        right[i] = _dot(residual_steps[i], residual)
        for j in range(i + 1):
            gram[i, j] = _dot(residual_steps[i], residual_steps[j])
            gram[j, i] = gram[i, j]
    trace = 0.0
    for i in range(depth):
        trace += gram[i, i]
    if not trace > 0.0:
        return
    for i in range(depth):
        gram[i, i] += 1e-12 * trace
    gamma = np.linalg.solve(gram, right)
    for i in range(depth):
        g = gamma[i]
        column = image_steps[i]
        for k in range(current.shape[0]):
            current[k] -= g * column[k]


@kernel
def solve_trajectory(
    problem, rates, table, initial, geometric, moments, trajectory, restart, max_sweeps, tolerance,
    evidence_tolerance, work, history,
):
    """Iterate one trajectory; returns (last sweep, number of sweeps, status)."""
    n_nodes = problem.graph.n_states.shape[0]
    squares = problem.graph.square_start[n_nodes]
    current = moments[
        problem.grid.step_start[trajectory] * squares : problem.grid.step_start[trajectory + 1]
        * squares
    ]
    prepare_trajectory(problem, trajectory, work)
    if restart:
        start_moments(problem, trajectory, moments)
    before = np.empty(0)
    residual_now = np.empty(0)
    residual_last = np.empty(0)
    image_last = np.empty(0)
    residual_steps = np.empty((0, 0))
    image_steps = np.empty((0, 0))
    n_kept = 0
    has_last = False
    damping = 1.0
    best = math.inf
    stalled = 0
    previous = math.inf
    last = sweep_trajectory(
        problem, rates, table, initial, geometric, not restart, 1.0, moments, trajectory, work
    )
    history[0, 0] = last.evidence
    history[1, 0] = last.residual
    if last.impossible_node >= 0:
        return last, 1, IMPOSSIBLE
    sweep = 1
    while sweep < max_sweeps:
        accelerate = sweep >= _PLAIN_SWEEPS and damping == 1.0
        if accelerate and before.shape[0] == 0:
            before = np.empty(current.shape[0])
            residual_now = np.empty(current.shape[0])
            residual_last = np.empty(current.shape[0])
            image_last = np.empty(current.shape[0])
            residual_steps = np.empty((_DEPTH, current.shape[0]))
            image_steps = np.empty((_DEPTH, current.shape[0]))
        if accelerate:
            for i in range(current.shape[0]):
                before[i] = current[i]
        last = sweep_trajectory(
            problem, rates, table, initial, geometric, True, damping, moments, trajectory, work
        )
        history[0, sweep] = last.evidence
        history[1, sweep] = last.residual
        sweep += 1
        if last.impossible_node >= 0:
            return last, sweep, IMPOSSIBLE
        if not math.isfinite(last.evidence):
            return last, sweep, NOT_FINITE
        change = abs(last.evidence - previous)
        previous = last.evidence
        if last.residual <= tolerance and change <= evidence_tolerance * max(
            1.0, abs(last.evidence)
        ):
            bound = last.data + last.initial + last.jumps
            if last.evidence > bound + 1e-6 * max(1.0, abs(bound)):
                return last, sweep, GUARD
            return last, sweep, CONVERGED
        if last.residual < 0.95 * best:
            best = last.residual
            stalled = 0
        else:
            stalled += 1
        if stalled >= 4:
            # neither plain nor accelerated sweeps help: damp, and forget the history
            damping = max(0.1, 0.6 * damping)
            stalled = 0
            best = last.residual
            n_kept = 0
            has_last = False
            continue
        if not accelerate:
            continue
        for i in range(current.shape[0]):
            residual_now[i] = current[i] - before[i]
        if has_last:
            slot = n_kept % _DEPTH
            for i in range(current.shape[0]):
                residual_steps[slot, i] = residual_now[i] - residual_last[i]
                image_steps[slot, i] = current[i] - image_last[i]
            n_kept += 1
        for i in range(current.shape[0]):
            residual_last[i] = residual_now[i]
            image_last[i] = current[i]
        has_last = True
        if n_kept > 0:
            _anderson_step(
                current, residual_steps, image_steps, residual_now, min(n_kept, _DEPTH)
            )
            project_moments(problem, trajectory, moments)
    return last, sweep, SWEEP_LIMIT


@kernel
def solve_range(
    problem, rates, table, initial, geometric, moments, chosen, restart, max_sweeps, tolerance,
    evidence_tolerance, totals, integers, history,
):
    """Solve the trajectories listed in ``chosen``, one after the other.

    ``totals[d]`` receives evidence, data, initial, jumps, residual; ``integers[d]`` the number of
    sweeps, the status, and node and point of impossible evidence; ``history[d]`` F and residual.
    """
    longest = 1
    for trajectory in chosen:
        steps = problem.grid.step_start[trajectory + 1] - problem.grid.step_start[trajectory]
        longest = max(longest, steps)
    work = make_work(problem.graph, problem.marks, longest)
    for trajectory in chosen:
        last, sweeps, status = solve_trajectory(
            problem, rates, table, initial, geometric, moments, trajectory, restart, max_sweeps,
            tolerance, evidence_tolerance, work, history[trajectory],
        )
        totals[trajectory, 0] = last.evidence
        totals[trajectory, 1] = last.data
        totals[trajectory, 2] = last.initial
        totals[trajectory, 3] = last.jumps
        totals[trajectory, 4] = last.residual
        integers[trajectory, 0] = sweeps
        integers[trajectory, 1] = status
        integers[trajectory, 2] = last.impossible_node
        integers[trajectory, 3] = last.impossible_point


@kernel
def sweep_range(
    problem, rates, table, initial, geometric, with_pull, damping, moments, chosen, totals, integers
):
    """One sweep of each chosen trajectory (see :func:`solve_range` for the outputs)."""
    longest = 1
    for trajectory in chosen:
        steps = problem.grid.step_start[trajectory + 1] - problem.grid.step_start[trajectory]
        longest = max(longest, steps)
    work = make_work(problem.graph, problem.marks, longest)
    for trajectory in chosen:
        prepare_trajectory(problem, trajectory, work)
        last = sweep_trajectory(
            problem, rates, table, initial, geometric, with_pull, damping, moments, trajectory, work
        )
        totals[trajectory, 0] = last.evidence
        totals[trajectory, 1] = last.data
        totals[trajectory, 2] = last.initial
        totals[trajectory, 3] = last.jumps
        totals[trajectory, 4] = last.residual
        integers[trajectory, 0] += 1
        if last.impossible_node >= 0:
            integers[trajectory, 1] = IMPOSSIBLE
        integers[trajectory, 2] = last.impossible_node
        integers[trajectory, 3] = last.impossible_point


@kernel(fastmath=_REORDER)
def add_node_statistics(problem, rates, geometric, moments, trajectory, node, dwell, transitions, work):
    """Expected dwell times T^u(x) and transitions M^u(x,y) of one node and trajectory, added up."""
    graph = problem.graph
    size = graph.n_states[node]
    own = node_moments(graph, problem.grid, moments, trajectory, node)
    table = graph.table_start[node]
    dwell_begin = graph.dwell_start[node]
    n_configurations = graph.n_configurations[node]
    steps = own.shape[1]
    for block in range((steps + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        count = min(BLOCK, steps - first)
        configuration_weights(
            graph, problem.grid, moments, trajectory, node, -1, first, count, work.inverse_width,
            work.weights, work.scratch,
        )
        for u in range(n_configurations):
            for x in range(size):
                for y in range(size):
                    row = x * size + y
                    total = 0.0
                    for k in range(count):
                        total += work.weights[u, k] * own[row, first + k]
                    if x == y:
                        dwell[dwell_begin + u * size + x] += total
                    else:
                        entry = table + u * size * size + row
                        factor = 1.0 if geometric else rates[entry]
                        transitions[entry] += factor * total


@kernel
def statistics_range(problem, rates, geometric, moments, chosen, dwell, transitions):
    """Add the expected statistics of the chosen trajectories to flat tables."""
    graph = problem.graph
    longest = 1
    for trajectory in chosen:
        steps = problem.grid.step_start[trajectory + 1] - problem.grid.step_start[trajectory]
        longest = max(longest, steps)
    work = make_work(graph, problem.marks, longest)
    for trajectory in chosen:
        prepare_trajectory(problem, trajectory, work)
        for node in range(graph.n_states.shape[0]):
            if not graph.is_exogenous[node]:
                add_node_statistics(
                    problem, rates, geometric, moments, trajectory, node, dwell, transitions, work
                )
        for link in range(
            problem.links.trajectory_start[trajectory],
            problem.links.trajectory_start[trajectory + 1],
        ):
            if problem.links.is_jump[link]:
                add_jump_statistics(graph, problem.links, link, transitions)
