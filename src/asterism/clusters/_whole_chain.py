"""A region without separators along all trajectories: exact passes, compiled.

No message ever changes its rates, so one pass over a trajectory gives everything. Rates stand in
one column per kind of step (see ``RegionWork``).
"""

from __future__ import annotations

import numpy as np

from asterism.clusters._cluster_messages import start_vector
from asterism.clusters._region_chain import (
    backward_pass,
    delete_held_jumps,
    fill_base,
    find_ending,
    forward_pass,
)
from asterism.clusters._region_evidence import (
    count_columns,
    count_points,
    count_starts,
    find_alive,
    sort_evidence,
)
from asterism.numerics._bundle import bundle
from asterism.numerics._jit import inner, kernel
from asterism.numerics._step import multiply

_EXACT = 0.0  # the precision that lets series go on until every entry has converged


@kernel
def fill_columns(regions, r, problem, is_held, table, work):
    """Rates of every kind of step."""
    n_columns = len(work.step)
    region, room = bundle(regions), bundle(work)
    find_alive(region, r, n_columns, room)
    fill_base(region, r, bundle(problem), n_columns, is_held, table, room)
    delete_held_jumps(region, r, n_columns, room)


@inner
def _open(regions, r, problem, d, column, initial, work):
    """Columns, start and evidence of trajectory d; the logarithms taken out of likelihoods."""
    first = problem.step_start[d]
    for k in range(problem.step_start[d + 1] - first):
        work.column[k] = column[first + k]
    start_vector(regions, r, initial, work.start)
    return sort_evidence(regions, r, problem, d, work)


@kernel
def pass_trajectories(
    regions, r, problem, column, which, parameters, is_held, is_wanted, work, log_evidence, found
):
    """Forward–backward of the trajectories from ``which[0]`` to before ``which[1]``.

    ``parameters``: rates and start probabilities. ``found``: a table for recorded jumps, the
    expected starts, probabilities at measurements. Returns the trajectory whose evidence is
    impossible (``work.failure`` says where), or −1.
    """
    regions, problem, work = bundle(regions), bundle(problem), bundle(work)
    table, initial = parameters
    counted, starts, points = found
    for d in range(which[0], which[1]):
        taken_out = _open(regions, r, problem, d, column, initial, work)
        if not backward_pass(work.addresses, regions, r, problem, d, table, _EXACT, is_held, work):
            return d
        log_evidence[d] = taken_out + forward_pass(
            work.addresses, regions, r, problem, d, table, _EXACT, is_held, is_wanted, counted, work
        )
        if log_evidence[d] == -np.inf:
            return d
        count_starts(regions, r, work, starts)
        for slot in range(regions.node_start[r + 1] - regions.node_start[r]):
            count_points(regions, r, problem, d, work, slot, points)
    return -1


@kernel
def count_all(regions, r, problem, is_held, is_zero, work, table):
    """Add the expected times and jumps of all columns to a table like the network's rates."""
    n_columns = len(work.step)
    count_columns(
        bundle(regions), r, bundle(problem), n_columns, is_held, is_zero, bundle(work), table
    )


@kernel
def fill_endings(regions, r, problem, d, column, parameters, is_held, work, ending):
    """Backward vectors of trajectory d at the ends of its steps (states, steps).

    ``work.first_time`` receives what is proportional to the probabilities at the start.
    """
    regions, problem, work = bundle(regions), bundle(problem), bundle(work)
    table, initial = parameters
    _open(regions, r, problem, d, column, initial, work)
    backward_pass(work.addresses, regions, r, problem, d, table, _EXACT, is_held, work)
    multiply(work.first_time, work.start)
    vector = work.vector[4]
    for k in range(ending.shape[1]):
        find_ending(regions, r, problem, d, table, is_held, work, k, vector)
        for x in range(ending.shape[0]):
            ending[x, k] = vector[x]
