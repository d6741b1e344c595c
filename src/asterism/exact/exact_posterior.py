"""The posterior of exact inference: marginals at any time and paths drawn jointly.

Marginals at other times come from one more pass, in which these times are event times without
evidence, so they are as exact as the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from asterism.clusters._whole_chain import draw_paths
from asterism.clusters.cluster_paths import known_jumps
from asterism.clusters.region_arrays import region_shape
from asterism.data.statistics import Statistics
from asterism.data.trajectories import Trajectories
from asterism.engine.solve import DrawnPaths, PathCollector
from asterism.exact.forward_backward import (
    SolvedChain,
    exact_expectations,
    make_chain,
    prepare,
)
from asterism.exact.groups import JOINT_LIMIT, Group, check_size, components, make_group
from asterism.inference.posterior import Posterior
from asterism.model.compiled import diagonal_index
from asterism.model.network import Network
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    JointMeasurement,
    subset,
)
from asterism.timeline.timeline import known_states


def solve(
    network: Network,
    evidence: Evidence,
    joint_limit: int = JOINT_LIMIT,
    n_jobs: int = 1,
) -> Posterior:
    """Exact posterior; refuses components with more than ``joint_limit`` joint states."""
    compiled = network.compiled

    def log_evidence_of(other: Evidence) -> FloatArray:
        prepared = prepare(compiled.graph, other, joint_limit)
        return exact_expectations(
            prepared, compiled.rates, compiled.initial, n_jobs=n_jobs, statistics=False
        ).log_evidence

    found = exact_expectations(
        prepare(compiled.graph, evidence, joint_limit),
        compiled.rates,
        compiled.initial,
        n_jobs=n_jobs,
    )
    return Posterior(
        network=network,
        evidence=evidence,
        method="exact",
        log_evidence_by_trajectory=found.log_evidence,
        statistics=partial(statistics_of, network, found.table),
        courses=ExactCourses(network, evidence, joint_limit),
        log_evidence_of=log_evidence_of,
    )


def statistics_of(network: Network, table: FloatArray) -> Statistics:
    """Dwell times from the diagonal of a flat table, transitions from the rest."""
    graph = network.compiled.graph
    diagonal = diagonal_index(graph)
    return Statistics.from_flat(
        network.nodes, network.parents, graph, table[diagonal], table, network.states
    )


class ExactCourses:
    """Marginals and paths from the joint chain."""

    def __init__(self, network: Network, evidence: Evidence, joint_limit: int) -> None:
        self._network = network
        self._evidence = evidence
        self._graph = network.compiled.graph
        members = components(self._graph, evidence)
        check_size(self._graph, members, joint_limit)
        self._members = members
        self._known_groups: list[Group] | None = None

    @property
    def _groups(self) -> list[Group]:
        if self._known_groups is None:
            self._known_groups = [make_group(self._graph, self._evidence, m) for m in self._members]
        return self._known_groups

    def marginals(self, trajectory: int, times: FloatArray) -> list[FloatArray]:
        """Per node (len(times), S_n) probabilities; see ``inference/posterior.py``."""
        return self._together(trajectory, [[n] for n in range(self._graph.n_nodes)], times)

    def joint_marginals(
        self, trajectory: int, nodes: Sequence[int], times: FloatArray
    ) -> FloatArray:
        """(times, S_1, S_2, …) joint probabilities of any nodes."""
        return self._together(trajectory, [nodes], times)[0]

    def _together(
        self, trajectory: int, wanted: Sequence[Sequence[int]], times: FloatArray
    ) -> list[FloatArray]:
        """Joint probabilities of each of these sets of nodes."""
        own = subset(self._evidence, np.array([trajectory]))
        clock = np.maximum(np.asarray(times, dtype=np.float64), own.start[0])
        own = lasting_until(own, float(clock.max(initial=own.end[0])))
        n_states = self._graph.n_states
        result = [np.ones((len(clock), *[1] * len(nodes))) for nodes in wanted]

        def multiply(axis_nodes: list[int], probability: FloatArray) -> None:
            """Multiply with probabilities (times, states of these ascending nodes)."""
            for i, nodes in enumerate(wanted):
                inside = [n for n in nodes if n in axis_nodes]
                if inside:
                    others = tuple(1 + k for k, n in enumerate(axis_nodes) if n not in inside)
                    part = probability.sum(axis=others)
                    ascending = sorted(inside)
                    part = part.transpose(0, *(1 + ascending.index(n) for n in inside))
                    shape = [int(n_states[n]) if n in inside else 1 for n in nodes]
                    result[i] = result[i] * part.reshape(len(clock), *shape)

        for group in self._groups if len(clock) else []:
            members = group.nodes[group.members].tolist()
            if any(n in members for nodes in wanted for n in nodes):
                flat = self._group_probabilities(group, own, clock)
                multiply(members, flat.reshape(len(clock), *group.shape))
        for n in sorted(own.exogenous):
            indicator = np.zeros((len(clock), int(n_states[n])))
            indicator[np.arange(len(clock)), known_states(own, 0, n, clock)] = 1.0
            multiply([n], indicator)
        return [part / part.sum(axis=tuple(range(1, part.ndim)), keepdims=True) for part in result]

    def _group_probabilities(self, group: Group, own: Evidence, clock: FloatArray) -> FloatArray:
        """(times, joint states): the times become event times at which nothing is learned."""
        compiled = self._network.compiled
        node = int(group.nodes[group.members[0]])
        nothing = np.zeros(int(self._graph.n_states[node]))
        asked = tuple(JointMeasurement(0, float(t), (node,), nothing) for t in np.unique(clock))
        chain = make_chain(group, replace(own, joint=own.joint + asked))
        return SolvedChain(chain, compiled.rates, compiled.initial).joint_probabilities(clock)

    def sample(self, n: int, kind: str, rng: np.random.Generator) -> Trajectories:
        """Draw jointly; ``kind`` makes no difference here."""
        compiled, evidence = self._network.compiled, self._evidence
        solved = [
            SolvedChain(make_chain(group, evidence), compiled.rates, compiled.initial)
            for group in self._groups
        ]
        keys = rng.integers(2**64, size=(len(solved), evidence.n_trajectories, 2), dtype=np.uint64)
        collector = PathCollector(self._network)
        rooms = [one.room_for_paths() for one in solved]
        for d in range(evidence.n_trajectories):
            start = np.zeros((n, self._graph.n_nodes), dtype=np.int64)
            for node in evidence.exogenous:
                start[:, node] = known_states(evidence, d, node, evidence.start[d])
            pieces = known_jumps(evidence, d, n)
            for one, key, work in zip(solved, keys, rooms):
                chain, group = one.chain, one.chain.group
                first, who, when, slot, entered = draw_paths(
                    *(group.arrays, chain.problem, d, chain.column, chain.grid.times(d)),
                    *(one.parameters, chain.is_held, n, key[d], work),
                )
                members = group.nodes[group.members]
                digit = region_shape(group.graph, group.regions.clusters[0]).digit
                start[:, members] = digit[first]
                pieces.append((who, when, members[slot], entered))
            record = np.column_stack(
                [
                    np.concatenate([np.asarray(p[i], dtype=np.int64) for p in pieces])
                    for i in (0, 2, 3)
                ]
            )
            label = evidence.labels[d] if evidence.labels else d
            time = np.concatenate([p[1] for p in pieces])
            collector.add(
                label,
                float(evidence.start[d]),
                float(evidence.end[d]),
                DrawnPaths(start, time, record),
            )
        return collector.trajectories()


def lasting_until(evidence: Evidence, end: float) -> Evidence:
    """One trajectory's evidence, made longer; exogenous nodes then stay as they are."""
    if end <= evidence.end[0]:
        return evidence
    last = evidence.spans.end == evidence.end[0]
    stays = last & np.isin(evidence.spans.node, list(evidence.exogenous))
    spans = replace(evidence.spans, end=np.where(stays, end, evidence.spans.end))
    return replace(evidence, end=np.array([end]), spans=spans)
