"""Sweeps over all nodes until the messages of a trajectory agree, with acceleration.

Plain Gauss–Seidel sweeps come first: at weak and moderate coupling they are done in a few. Where
each sweep removes too little of the residual, Anderson mixing takes over: from the last differences
of the residual (what a sweep changed) and of the image (what a sweep gave) the next state is
image − Σ γ_i Δimage_i, with γ the least-squares fit of the residual by its differences. These are
kept in single precision: only the way to the fixed point depends on them. When the residual stops
falling, the history is dropped and the updates are damped. Whatever is mixed is projected back to
what moments can be: non-negative, diagonals summing to the step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.engine._outcome import (
    CONVERGED,
    EVIDENCE,
    GUARD,
    IMPOSSIBLE,
    NOT_FINITE,
    RESIDUAL,
    STATUS,
    SWEEP_LIMIT,
    SWEEPS,
)
from asterism.numerics._bundle import bundle
from asterism.numerics._jit import inner, kernel, view
from asterism.numerics._step import has_settled
from asterism.star._buffers import (
    IS_EXOGENOUS,
    MARGINAL,
    MEMBERS,
    is_corrected,
    moments_range,
    prepare_trajectory,
    project_moments,
    scale_of_moments,
    start_moments,
)
from asterism.star._kept_messages import (
    AT_POINTS,
    MESSAGES,
    NOTHING,
    keep_marginals,
    keep_messages,
)
from asterism.star._links import (
    TOTALS,
    ask_links,
)
from asterism.star._messages import (
    pass_messages,
)
from asterism.star._node import (
    add_statistics,
    node_generator,
    store_moments,
)

# columns of the integers of a trajectory, behind those of every rule
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


@view
def _linked_range(problem, trajectory):
    """First and past-the-last entry of the marginals at this trajectory's linked evidence."""
    end = problem.marginals.shape[0]
    member = problem.link[problem.link_start[trajectory], MEMBERS]
    past = problem.link[problem.link_start[trajectory + 1], MEMBERS]
    first = problem.member[member, MARGINAL] if member < problem.member.shape[0] else end
    last = problem.member[past, MARGINAL] if past < problem.member.shape[0] else end
    return first, last


# columns of the totals of a trajectory, behind those of every rule
DATA = 2
START_TERM = 3
JUMPS = 4
N_TOTALS = 5


@inner
def keep_reading(problem, work, reading, trajectory, node, clamped):
    """Keep what ``reading`` asks for of a node; False if it left the range of finite numbers."""
    if reading.kind == MESSAGES:
        keep_messages(
            work.addresses, problem, work, bundle(reading.messages), trajectory, node, clamped
        )
    elif reading.kind == AT_POINTS:
        return keep_marginals(work.addresses, problem, work, reading.at_points, trajectory, node)
    return True


@inner
def sweep_trajectory(
    problem, work, parameters, moments, trajectory, with_pull, damping, totals, reading
):
    """Update every node of one trajectory once, in order (Gauss–Seidel).

    ``totals[trajectory]`` receives F by the fixed-point identity Σ_n (ln Z_n − ∫ Σ m ψ), with the
    corrections of linked evidence, its data and start terms and the residual. ``reading`` says
    what to keep; with ``damping`` zero the moments stay as they are. Returns node and grid point of
    impossible evidence, or −1 and −1.
    """
    evidence = 0.0
    data = 0.0
    start = 0.0
    residual = 0.0
    geometric = parameters.geometric
    for node in range(problem.node.shape[0] - 1):
        if problem.node[node, IS_EXOGENOUS] == 1:
            keep_reading(problem, work, reading, trajectory, node, bool(True))
            continue
        node_generator(
            work.addresses,
            problem,
            work,
            moments,
            parameters.table,
            geometric,
            with_pull,
            trajectory,
            node,
        )
        log_z, node_data, node_start, bad_point, clamped = pass_messages(
            work.addresses, problem, work, parameters.rates, parameters.initial, trajectory, node
        )
        if bad_point >= 0 or not keep_reading(problem, work, reading, trajectory, node, clamped):
            totals[trajectory, EVIDENCE] = -math.inf
            return node, max(bad_point, 0)
        change, pull_mass = store_moments(
            work.addresses, problem, work, moments, geometric, damping, clamped, trajectory, node
        )
        evidence += log_z - pull_mass
        data += node_data
        start += node_start
        residual = max(residual, change)
    totals[trajectory, EVIDENCE] = evidence
    totals[trajectory, DATA] = data
    totals[trajectory, START_TERM] = start
    totals[trajectory, JUMPS] = 0.0
    totals[trajectory, RESIDUAL] = residual
    if problem.link_start[trajectory + 1] > problem.link_start[trajectory]:
        of_links = work.flat_matrices
        ask_links(work.addresses, problem, parameters.rates, TOTALS, trajectory, of_links)
        totals[trajectory, EVIDENCE] += of_links[0]
        totals[trajectory, DATA] += of_links[1]
        totals[trajectory, JUMPS] = of_links[2]
    return -1, -1


@kernel
def iterate(problem, parameters, moments, chosen, control, outcome, counts, reading, work):
    """Sweep the trajectories listed in ``chosen``, one after the other, until they agree.

    The named tuples are described in ``batch.py``. ``moments`` hold the start, unless ``control``
    asks for a restart from uninformed ones, and receive the solution. With ``counts``, the expected
    statistics of the moments in the end are added to them, and the marginals at the start; no
    sweeps at all do no more than that. ``reading`` asks for what the last sweep's messages say:
    with one sweep and ``damping`` zero that is all that happens.
    """
    problem, work, parameters = bundle(problem), bundle(work), bundle(parameters)
    reading = bundle(reading)
    rates, geometric = parameters.rates, parameters.geometric
    dwell, transitions = counts.dwell, counts.transitions
    totals, integers, history = outcome.totals, outcome.integers, outcome.history
    max_sweeps = history.shape[2]
    tolerance = control.tolerance
    memory = make_history(int(0))
    gram = np.zeros((DEPTH, DEPTH))
    for trajectory in chosen:
        first_moment, last_moment = moments_range(problem, trajectory)
        current = moments[first_moment:last_moment]
        prepare_trajectory(problem, trajectory, work)
        if control.restart:
            start_moments(problem, trajectory, moments)
        first_linked, last_linked = _linked_range(problem, trajectory)
        linked = problem.marginals[first_linked:last_linked]
        linked_before = linked.copy() if reading.kind != NOTHING else linked
        # the first sweep from an uninformed start ignores the children
        with_pull = not control.restart
        damping = control.damping
        plain_sweeps = _PLAIN_SWEEPS
        if current.shape[0] > _MANY_MOMENTS:
            plain_sweeps = _MORE_PLAIN_SWEEPS
        accelerating = False
        n_differences = int(-1)
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
                problem, work, parameters, moments, trajectory, with_pull, damping, totals, reading
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
                    totals[trajectory, DATA]
                    + totals[trajectory, START_TERM]
                    + totals[trajectory, JUMPS]
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
            elif sweep >= plain_sweeps and damping == control.damping and residual > _SLOW * last:
                accelerating = True
                n_differences = int(-1)
                if memory.before.shape[0] != current.shape[0]:
                    memory = make_history(current.shape[0])
                scale_of_moments(problem, geometric, trajectory, memory.scale)
            last = residual
        if dwell.shape[0] > 0:
            add_statistics(
                work.addresses,
                problem,
                work,
                rates,
                geometric,
                moments,
                trajectory,
                dwell,
                transitions,
            )
            if sweep > 0:
                for i in range(counts.starts.shape[0]):
                    counts.starts[i] += work.starts[i]
        if reading.kind != NOTHING:
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
        np.zeros(DEPTH * size, dtype=np.float32).reshape(DEPTH, size),
        np.zeros(DEPTH * size, dtype=np.float32).reshape(DEPTH, size),
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


@view
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


@view
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
