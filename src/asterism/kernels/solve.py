"""Sweeps over all nodes until the messages of a trajectory agree, with acceleration.

Plain Gauss–Seidel sweeps come first: at weak and moderate coupling they are done in a few. If
they are not, Anderson mixing extrapolates from the last differences of the sweep map. When the
residual stops falling, the history is dropped and the updates are damped. Whatever is mixed is
projected back to what moments can be: non-negative, diagonals summing to the step. Differences are
kept in single precision: only the way to the fixed point depends on them.

Few functions contain the whole sweep, on purpose: numba optimises a kernel together with
everything it calls, so each further level would cost its compilation again.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.kernels._jit import inner, kernel
from asterism.kernels.arrays import (
    FIRST,
    IS_EXOGENOUS,
    IS_JUMP,
    LAST,
    MARGINAL,
    MEMBER_NODE,
    MEMBERS,
    SPAN,
    SQUARES,
    STATE,
    STATES,
)
from asterism.kernels.averages import moments_begin
from asterism.kernels.links import link_expectation
from asterism.kernels.messages import (
    apply_spans,
    backward_pass,
    evaluate_marks,
    forward_pass,
    make_work,
    node_generator,
    prepare_trajectory,
    store_moments,
)
from asterism.kernels.readings import (
    MESSAGES,
    NOTHING,
    keep_first_backward,
    read_known_node,
    read_node,
)
from asterism.kernels.statistics import add_statistics

# how an iteration ended
CONVERGED = 0
SWEEP_LIMIT = 1
IMPOSSIBLE = 2
GUARD = 3
NOT_FINITE = 4

# columns of the totals and integers that iterations fill per trajectory
EVIDENCE = 0
DATA = 1
START = 2
JUMPS = 3
RESIDUAL = 4
N_TOTALS = 5
SWEEPS = 0
STATUS = 1
BAD_NODE = 2
BAD_POINT = 3
N_INTEGERS = 4

_PLAIN_SWEEPS = 5
# mixing needs eight more copies of the moments: where they are many it is the last resort
_MANY_MOMENTS = 4_000_000
_MORE_PLAIN_SWEEPS = 20
_DEPTH = 4
_REORDER = {"contract", "reassoc", "nsz"}


@inner
def start_moments(problem, trajectory, moments):
    """Uninformed moments: uniform marginals; known states where they are known throughout."""
    n_nodes = problem.node.shape[0] - 1
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    for node in range(n_nodes):
        size = problem.node[node, STATES]
        begin = moments_begin(problem, trajectory, node)
        for row in range(size * size):
            for k in range(steps):
                moments[begin + row * steps + k] = problem.width[first_step + k] / size
        pair = trajectory * n_nodes + node
        for i in range(problem.pair[pair, SPAN], problem.pair[pair + 1, SPAN]):
            state = problem.span[i, STATE]
            for k in range(problem.span[i, FIRST], problem.span[i, LAST]):
                for row in range(size * size):
                    moments[begin + row * steps + k] = 0.0
                known = begin + (state * size + state) * steps
                moments[known + k] = problem.width[first_step + k]


@inner
def project_moments(problem, trajectory, moments):
    """Make mixed moments legal: no negative entry, each step's diagonal sums to its width."""
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    for node in range(problem.node.shape[0] - 1):
        size = problem.node[node, STATES]
        begin = moments_begin(problem, trajectory, node)
        for i in range(begin, begin + size * size * steps):
            moments[i] = max(moments[i], 0.0)
        for k in range(steps):
            total = 0.0
            for x in range(size):
                total += moments[begin + (x * size + x) * steps + k]
            width = problem.width[first_step + k]
            for x in range(size):
                diagonal = begin + (x * size + x) * steps + k
                if total > 0.0:
                    moments[diagonal] *= width / total
                else:
                    moments[diagonal] = width / size


@inner(fastmath=_REORDER)
def _dot(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


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
def _anderson_step(current, residual_steps, image_steps, residual, depth):
    """current −= image_steps γ, with γ the least-squares fit of the residual by its differences."""
    gram = np.empty((depth, depth))
    gamma = np.empty(depth)
    trace = 0.0
    for i in range(depth):
        gamma[i] = _dot(residual_steps[i], residual)
        for j in range(i + 1):
            gram[i, j] = _dot(residual_steps[i], residual_steps[j])
            gram[j, i] = gram[i, j]
        trace += gram[i, i]
    if not trace > 0.0:
        return
    for i in range(depth):
        gram[i, i] += 1e-12 * trace
    solve_small(gram, gamma, depth)
    for i in range(depth):
        column = image_steps[i]
        for k in range(current.shape[0]):
            current[k] -= gamma[i] * column[k]


@inner
def _make_dimensionless(problem, trajectory, change):
    """Divide the diagonal rows of a change of moments by the width of their steps.

    Mean field keeps times on the diagonal and numbers of transitions off it: without this the
    least-squares fit would weigh them by the unit of time.
    """
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    for node in range(problem.node.shape[0] - 1):
        size = problem.node[node, STATES]
        for x in range(size):
            begin = (problem.node[node, SQUARES] + x * size + x) * steps
            for k in range(steps):
                change[begin + k] /= problem.width[first_step + k]


@inner
def _link_totals(problem, rates, trajectory):
    """(correction of F, E[ln L] of joint measurements, Σ G_e of jumps) of one trajectory."""
    correction = 0.0
    joint = 0.0
    jumps = 0.0
    for link in range(problem.link_start[trajectory], problem.link_start[trajectory + 1]):
        expectation = link_expectation(problem, rates, link)
        # every member beyond the first that received a factor counted the evidence once more
        for member in range(problem.link[link, MEMBERS] + 1, problem.link[link + 1, MEMBERS]):
            if problem.node[problem.member[member, MEMBER_NODE], IS_EXOGENOUS] == 0:
                correction -= expectation
        if problem.link[link, IS_JUMP] == 1:
            jumps += expectation
        else:
            joint += expectation
    return correction, joint, jumps


@inner(inline="always")
def sweep_trajectory(
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
):
    """Update every node of one trajectory once, in order (Gauss–Seidel).

    ``totals[trajectory]`` receives F by the fixed-point identity Σ_n (ln Z_n − ∫ Σ m ψ), with the
    corrections of linked evidence, its data and initial terms and the residual. ``reading`` says
    what goes to ``messages`` or ``at_points``; with ``damping`` zero the moments stay as they are.
    Returns node and grid point of impossible evidence, or −1 and −1.
    """
    evidence = 0.0
    data = 0.0
    start = 0.0
    residual = 0.0
    for node in range(problem.node.shape[0] - 1):
        if problem.node[node, IS_EXOGENOUS] == 1:
            read_known_node(problem, trajectory, node, reading, messages, at_points)
            continue
        node_generator(problem, moments, table, geometric, with_pull, trajectory, node, work)
        clamped = apply_spans(problem, trajectory, node, work)
        evaluate_marks(problem, rates, trajectory, node, work)
        log_z, bad_point = backward_pass(problem, initial, trajectory, node, work)
        if bad_point >= 0:
            totals[trajectory, EVIDENCE] = -math.inf
            return node, bad_point
        if reading == MESSAGES:
            keep_first_backward(problem, node, messages, work)
        node_data, node_start = forward_pass(problem, initial, trajectory, node, work)
        if reading != NOTHING and not read_node(
            problem, trajectory, node, clamped, reading, messages, at_points, work
        ):
            totals[trajectory, EVIDENCE] = -math.inf
            return node, 0
        change, pull_mass = store_moments(
            problem, moments, geometric, damping, clamped, trajectory, node, work
        )
        evidence += log_z - pull_mass
        data += node_data
        start += node_start
        residual = max(residual, change)
    correction, joint, jumps = _link_totals(problem, rates, trajectory)
    totals[trajectory, EVIDENCE] = evidence + correction
    totals[trajectory, DATA] = data + joint
    totals[trajectory, START] = start
    totals[trajectory, JUMPS] = jumps
    totals[trajectory, RESIDUAL] = residual
    return -1, -1


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
    n_nodes = problem.node.shape[0] - 1
    squares = problem.node[n_nodes, SQUARES]
    longest = 1
    for trajectory in chosen:
        steps = problem.step_start[trajectory + 1] - problem.step_start[trajectory]
        longest = max(longest, steps)
    work = make_work(problem, longest)
    before = np.empty(0)
    residual_now = np.empty(0)
    residual_last = np.empty(0)
    image_last = np.empty(0)
    residual_steps = np.empty((0, 0), dtype=np.float32)
    image_steps = np.empty((0, 0), dtype=np.float32)
    for trajectory in chosen:
        current = moments[
            problem.step_start[trajectory] * squares : problem.step_start[trajectory + 1] * squares
        ]
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
        n_kept = 0
        has_last = False
        best = math.inf
        stalled = 0
        previous = math.inf
        status = SWEEP_LIMIT
        bad_node = -1
        bad_point = -1
        sweep = 0
        while sweep < max_sweeps and status == SWEEP_LIMIT:
            accelerate = sweep >= plain_sweeps and damping == 1.0
            if accelerate:
                if before.shape[0] != current.shape[0]:
                    before = np.empty(current.shape[0])
                    residual_now = np.empty(current.shape[0])
                    residual_last = np.empty(current.shape[0])
                    image_last = np.empty(current.shape[0])
                    residual_steps = np.empty((_DEPTH, current.shape[0]), dtype=np.float32)
                    image_steps = np.empty((_DEPTH, current.shape[0]), dtype=np.float32)
                for i in range(current.shape[0]):
                    before[i] = current[i]
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
            if residual <= tolerance and moved <= tolerance * max(1.0, abs(evidence)):
                bound = (
                    totals[trajectory, DATA] + totals[trajectory, START] + totals[trajectory, JUMPS]
                )
                status = CONVERGED
                if evidence > bound + 1e-6 * max(1.0, abs(bound)):
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
                n_kept = 0
                has_last = False
                continue
            if not accelerate or sweep >= max_sweeps:
                continue
            for i in range(current.shape[0]):
                residual_now[i] = current[i] - before[i]
            if geometric:
                _make_dimensionless(problem, trajectory, residual_now)
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
