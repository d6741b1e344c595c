"""Sweeps over all nodes until the messages of a trajectory agree, with acceleration.

Plain Gauss–Seidel sweeps come first: at weak and moderate coupling they are done in a few. Where
each sweep removes too little of the residual, Anderson mixing extrapolates from the last
differences of the sweep map. When the residual stops falling, the history is dropped and the
updates are damped. Whatever is mixed is projected back to what moments can be: non-negative,
diagonals summing to the step.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.kernels._jit import inner, kernel
from asterism.kernels.anderson import DEPTH, begin_sweep, make_history, mix_alone
from asterism.kernels.arrays import MARGINAL, MEMBERS
from asterism.kernels.buffers import is_corrected, make_work, prepare_trajectory
from asterism.kernels.moments import (
    moments_range,
    project_moments,
    scale_of_moments,
    start_moments,
)
from asterism.kernels.readings import NOTHING
from asterism.kernels.statistics import add_statistics
from asterism.kernels.sweep import DATA, EVIDENCE, JUMPS, RESIDUAL, START, sweep_trajectory

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
    longest = 1
    for trajectory in chosen:
        steps = problem.step_start[trajectory + 1] - problem.step_start[trajectory]
        longest = max(longest, steps)
    work = make_work(problem, longest)
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
            if residual <= tolerance and moved <= tolerance * max(1.0, abs(evidence)):
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
