"""Evidence that ties nodes together (exactly timed jumps, joint measurements), as arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from asterism.inference.evidence import Evidence, FloatArray, IntArray
from asterism.inference.grid import Breakpoints
from asterism.model.compiled import CompiledGraph


class SoftMarks(NamedTuple):
    """Factors that the marginals of other nodes determine, one entry per node that gets one."""

    link: IntArray
    member: IntArray
    """Which member of the link the node is."""
    node: IntArray
    trajectory: IntArray
    breakpoint: IntArray


def _soft_marks(
    soft: list[tuple[int, int, int, int]], evidence: Evidence, breakpoints: Breakpoints
) -> SoftMarks:
    """``soft``: link, member, node, and the joint measurement, or −1 − the jump, it comes from."""
    table = np.array(soft, dtype=np.int64).reshape(-1, 4)
    origin = table[:, 3]
    trajectory = np.empty(len(origin), dtype=np.int64)
    place = np.empty(len(origin), dtype=np.int64)
    joint_trajectory = np.array([j.trajectory for j in evidence.joint], dtype=np.int64)
    of_joint = origin >= 0
    trajectory[of_joint] = joint_trajectory[origin[of_joint]]
    place[of_joint] = breakpoints.of_joint[origin[of_joint]]
    jump = -1 - origin[~of_joint]
    trajectory[~of_joint] = evidence.jumps.trajectory[jump]
    place[~of_joint] = breakpoints.of_jumps[jump]
    return SoftMarks(table[:, 0], table[:, 1], table[:, 2], trajectory, place)


def _state_at(evidence: Evidence, trajectory: int, node: int, time: float) -> int:
    """State of a continuously known node just before ``time`` (at the start: from there on)."""
    spans = evidence.spans
    mine = (spans.trajectory == trajectory) & (spans.node == node)
    before = mine & (spans.start < time) & (spans.end >= time)
    if not before.any():
        before = mine & (spans.start <= time) & (spans.end >= time)
    return int(spans.state[np.flatnonzero(before)[-1]])


def link_arrays(
    evidence: Evidence, graph: CompiledGraph, breakpoints: Breakpoints
) -> tuple[dict[str, Any], IntArray, SoftMarks]:
    """Link fields of the problem; the link of each jump; the soft marks."""
    if not len(evidence.jumps.time) and not evidence.joint:
        none = np.zeros(0, dtype=np.int64)
        return _no_links(evidence.n_trajectories), none, SoftMarks(none, none, none, none, none)
    jumps = evidence.jumps
    specs: list[tuple[int, int, int]] = []  # trajectory, jump or −1, joint or −1
    specs += [(int(d), i, -1) for i, d in enumerate(jumps.trajectory)]
    specs += [(j.trajectory, -1, i) for i, j in enumerate(evidence.joint)]
    specs.sort(key=lambda s: s[0])
    link_of_jump = np.full(len(jumps.time), -1, dtype=np.int64)
    member_start, member_node, member_offset = [0], [], []
    marginals: list[FloatArray] = []
    tables: list[FloatArray] = []
    table_start = [0]
    soft: list[tuple[int, int, int, int]] = []
    n_marginals = 0
    for link, (trajectory, jump, joint) in enumerate(specs):
        if jump >= 0:
            node = int(jumps.node[jump])
            link_of_jump[jump] = link
            parents = graph.parents[graph.parent_start[node] : graph.parent_start[node + 1]]
            members = [node, *(int(p) for p in parents)]
            time = float(jumps.time[jump])
            tables.append(np.zeros(0))
        else:
            measurement = evidence.joint[joint]
            members = list(measurement.nodes)
            time = measurement.time
            tables.append(np.ascontiguousarray(measurement.log_likelihood).ravel())
        for slot, member in enumerate(members):
            size = int(graph.n_states[member])
            marginal = np.full(size, 1.0 / size)
            if member in evidence.exogenous:
                marginal[:] = 0.0
                marginal[_state_at(evidence, trajectory, member, time)] = 1.0
            elif jump >= 0 and slot == 0:
                marginal = _departed(size, int(jumps.to_state[jump]), int(jumps.from_state[jump]))
            else:
                soft.append((link, slot, member, joint if joint >= 0 else -1 - jump))
            member_node.append(member)
            member_offset.append(n_marginals)
            marginals.append(marginal)
            n_marginals += size
        member_start.append(len(member_node))
        table_start.append(table_start[-1] + len(tables[-1]))
    n_links = np.bincount([s[0] for s in specs], minlength=evidence.n_trajectories)
    to_state = [int(jumps.to_state[s[1]]) if s[1] >= 0 else -1 for s in specs]
    from_state = [int(jumps.from_state[s[1]]) if s[1] >= 0 else -1 for s in specs]
    rows = [[int(s[1] >= 0) for s in specs], to_state, from_state]
    closed = [np.array([*row, 0], dtype=np.int64) for row in rows]
    fields = {
        "link_start": np.concatenate([[0], np.cumsum(n_links)]).astype(np.int64),
        "link": np.ascontiguousarray(
            np.column_stack([*closed, np.array(member_start), np.array(table_start)])
        ).astype(np.int64),
        "member": np.array([member_node, member_offset], dtype=np.int64).T.copy().reshape(-1, 2),
        "marginals": np.concatenate([*marginals, np.zeros(0)]),
        "log_table": np.concatenate([*tables, np.zeros(0)]),
    }
    return fields, link_of_jump, _soft_marks(soft, evidence, breakpoints)


def _no_links(n_trajectories: int) -> dict[str, Any]:
    return {
        "link_start": np.zeros(n_trajectories + 1, dtype=np.int64),
        "link": np.zeros((1, 5), dtype=np.int64),
        "member": np.zeros((0, 2), dtype=np.int64),
        "marginals": np.zeros(0),
        "log_table": np.zeros(0),
    }


def _departed(size: int, to_state: int, from_state: int) -> FloatArray:
    """First guess of the state that a jump left."""
    marginal = np.zeros(size)
    if from_state >= 0:
        marginal[from_state] = 1.0
    else:
        marginal[:] = 1.0 / (size - 1)
        marginal[to_state] = 0.0
    return marginal
