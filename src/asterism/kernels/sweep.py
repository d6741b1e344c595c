"""One sweep over the nodes of a trajectory: every node's messages and moments, once, in order."""

from __future__ import annotations

import math

from asterism.kernels._jit import inner
from asterism.kernels.arrays import IS_EXOGENOUS, IS_JUMP, MEMBER_NODE, MEMBERS
from asterism.kernels.links import link_expectation
from asterism.kernels.node_steps import apply_spans, node_generator, store_moments
from asterism.kernels.passes import backward_pass, evaluate_marks, forward_pass
from asterism.kernels.readings import (
    MESSAGES,
    NOTHING,
    keep_first_backward,
    read_known_node,
    read_node,
)

# columns of the totals of a trajectory
EVIDENCE = 0
DATA = 1
START = 2
JUMPS = 3
RESIDUAL = 4
N_TOTALS = 5


@inner
def link_totals(problem, rates, trajectory):
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
    correction, joint, jumps = link_totals(problem, rates, trajectory)
    totals[trajectory, EVIDENCE] = evidence + correction
    totals[trajectory, DATA] = data + joint
    totals[trajectory, START] = start
    totals[trajectory, JUMPS] = jumps
    totals[trajectory, RESIDUAL] = residual
    return -1, -1
