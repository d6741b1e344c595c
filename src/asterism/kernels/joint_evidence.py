"""What evidence at one moment does to the vectors of the joint chain.

First recorded jumps, then likelihoods, as paths are right-continuous.
"""

from __future__ import annotations

import numpy as np

from asterism.kernels._jit import kernel
from asterism.kernels.vectors import copy, fill, largest, multiply, scale


@kernel
def has_likelihood(schedule, k):
    return (
        schedule.hold_start[k] < schedule.hold_start[k + 1]
        or schedule.point_start[k] < schedule.point_start[k + 1]
        or schedule.joint_start[k] < schedule.joint_start[k + 1]
    )


@kernel
def joint_likelihood(pattern, schedule, log_likelihood, k, out):
    """Likelihood of every joint state at moment k, scaled to a largest value of 1.

    Returns the log of the scale; −inf where nothing is possible.
    """
    n_joint = pattern.state_of.shape[0]
    fill(out, 0.0)
    for r in range(schedule.point_start[k], schedule.point_start[k + 1]):
        i = schedule.point_node[r]
        at = schedule.point_offset[r]
        for x in range(n_joint):
            out[x] += log_likelihood[at + pattern.state_of[x, i]]
    for r in range(schedule.joint_start[k], schedule.joint_start[k + 1]):
        index = schedule.joint_index[schedule.joint_map[r]]
        at = schedule.joint_offset[r]
        for x in range(n_joint):
            out[x] += schedule.joint_log[at + index[x]]
    for r in range(schedule.hold_start[k], schedule.hold_start[k + 1]):
        i = schedule.hold_node[r]
        for x in range(n_joint):
            if pattern.state_of[x, i] != schedule.hold_state[r]:
                out[x] = -np.inf
    top = largest(out)
    if top == -np.inf:
        fill(out, 0.0)
        return top
    for x in range(n_joint):
        out[x] = np.exp(out[x] - top)
    return top


@kernel
def jump_rate(pattern, schedule, shift, rates, r, x):
    """Rate of recorded jump r out of joint state x; zero where x cannot be the state before."""
    i = schedule.jump_node[r]
    own = pattern.state_of[x, i]
    to = schedule.jump_to[r]
    if own == to or (schedule.jump_from[r] >= 0 and schedule.jump_from[r] != own):
        return 0.0
    return rates[pattern.exit_table[x, i] + to - own + shift[i] * pattern.block[i]]


@kernel
def jump_target(pattern, schedule, r, x):
    i = schedule.jump_node[r]
    return x + (schedule.jump_to[r] - pattern.state_of[x, i]) * pattern.stride[i]


@kernel
def jump_forward(pattern, schedule, shift, rates, r, vector, work):
    """α⁺ = α J."""
    fill(work, 0.0)
    for x in range(len(vector)):
        if vector[x] > 0.0:
            work[jump_target(pattern, schedule, r, x)] += vector[x] * jump_rate(
                pattern, schedule, shift, rates, r, x
            )
    copy(work, vector)


@kernel
def jump_backward(pattern, schedule, shift, rates, r, vector, work):
    """β⁻ = J β⁺."""
    for x in range(len(vector)):
        rate = jump_rate(pattern, schedule, shift, rates, r, x)
        work[x] = rate * vector[jump_target(pattern, schedule, r, x)] if rate > 0.0 else 0.0
    copy(work, vector)


@kernel
def rescale(vector):
    """Divide by the largest entry; the log of it, −inf where the vector vanishes."""
    top = largest(vector)
    if not top > 0.0:
        return -np.inf
    scale(vector, 1.0 / top)
    return np.log(top)


@kernel
def evidence_forward(pattern, schedule, shift, rates, log_likelihood, k, vector, work):
    """Carry a forward vector through moment k; log of the factor taken out."""
    taken_out = 0.0
    for r in range(schedule.jump_start[k], schedule.jump_start[k + 1]):
        jump_forward(pattern, schedule, shift, rates, r, vector, work)
    if has_likelihood(schedule, k):
        taken_out += joint_likelihood(pattern, schedule, log_likelihood, k, work)
        multiply(vector, work)
    return taken_out + rescale(vector)


@kernel
def evidence_backward(pattern, schedule, shift, rates, log_likelihood, k, vector, work):
    """Carry a backward vector through moment k, dropping its scale."""
    if has_likelihood(schedule, k):
        joint_likelihood(pattern, schedule, log_likelihood, k, work)
        multiply(vector, work)
    for r in range(schedule.jump_start[k + 1] - 1, schedule.jump_start[k] - 1, -1):
        jump_backward(pattern, schedule, shift, rates, r, vector, work)
    rescale(vector)


@kernel
def count_recorded_jumps(
    pattern, schedule, shift, rates, log_likelihood, k, before, after, table, work, later
):
    """Add the recorded jumps at moment k to the expected transitions in ``table``.

    ``before`` is the forward vector just before the moment, ``after`` the backward one just after.
    """
    first = schedule.jump_start[k]
    last = schedule.jump_start[k + 1]
    if first == last:
        return
    earlier = before.copy()
    for r in range(first, last):
        copy(after, later)
        if has_likelihood(schedule, k):
            joint_likelihood(pattern, schedule, log_likelihood, k, work)
            multiply(later, work)
        for s in range(last - 1, r, -1):
            jump_backward(pattern, schedule, shift, rates, s, later, work)
        i = schedule.jump_node[r]
        total = 0.0
        for x in range(len(later)):
            work[x] = earlier[x] * jump_rate(pattern, schedule, shift, rates, r, x)
            if work[x] > 0.0:
                work[x] *= later[jump_target(pattern, schedule, r, x)]
            total += work[x]
        for x in range(len(later)):
            if work[x] > 0.0 and total > 0.0:
                step = schedule.jump_to[r] - pattern.state_of[x, i]
                at = pattern.exit_table[x, i] + step + shift[i] * pattern.block[i]
                table[at] += work[x] / total
        jump_forward(pattern, schedule, shift, rates, r, earlier, work)
        rescale(earlier)


@kernel
def node_marginals(pattern, forward, backward, out):
    """Marginals of every node from the two vectors just after a moment; their joint norm."""
    n_joint, n_nodes = pattern.state_of.shape
    fill(out, 0.0)
    total = 0.0
    for x in range(n_joint):
        p = forward[x] * backward[x]
        total += p
        for i in range(n_nodes):
            out[pattern.marginal_start[i] + pattern.state_of[x, i]] += p
    for i in range(n_nodes):  # each node by its own sum: exact to the last digit
        first = pattern.marginal_start[i]
        last = pattern.marginal_start[i + 1]
        norm = 0.0
        for s in range(first, last):
            norm += out[s]
        if norm > 0.0:
            for s in range(first, last):
                out[s] /= norm
    return total


@kernel
def pass_moment(
    pattern,
    schedule,
    shift,
    rates,
    log_likelihood,
    k,
    forward,
    after,
    marginals,
    table,
    room,
):
    """Carry the forward vector through moment k; what it gains in ln P, and the joint norm there.

    Marginals at the moment and jumps recorded at it are taken down; ``after`` is the backward
    vector just after it, ``room`` three more vectors.
    """
    before = room[0]
    copy(forward, before)
    gained = evidence_forward(pattern, schedule, shift, rates, log_likelihood, k, forward, room[1])
    norm = node_marginals(pattern, forward, after, marginals)
    if gained > -np.inf:
        count_recorded_jumps(
            pattern,
            schedule,
            shift,
            rates,
            log_likelihood,
            k,
            before,
            after,
            table,
            room[1],
            room[2],
        )
    return gained, norm
