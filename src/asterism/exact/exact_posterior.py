"""The posterior of exact inference: marginals at any time and paths drawn jointly.

Marginals at other times come from one more pass, in which these times are instants without
evidence, so they are as exact as the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from asterism.data.statistics import Statistics
from asterism.data.trajectories import Trajectories
from asterism.engine.rules.clusters import exact_courses
from asterism.exact._joint_chain import Chain
from asterism.exact._joint_paths import draw_paths
from asterism.exact.forward_backward import current_generators, exact_expectations, prepare
from asterism.exact.joint_layout import JOINT_LIMIT, check_size, components
from asterism.inference.posterior import Posterior
from asterism.model.compiled import diagonal_index
from asterism.model.network import Network
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    IntArray,
    known_state,
    one_trajectory,
    refuse_interventions,
    subset,
)


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
        self._joint_limit = joint_limit

    def marginals(self, trajectory: int, times: FloatArray) -> list[FloatArray]:
        """Per node (len(times), S_n) probabilities; see ``inference/posterior.py``."""
        compiled = self._network.compiled
        graph = compiled.graph
        own = one_trajectory(self._evidence, trajectory)
        clock = np.maximum(np.asarray(times, dtype=np.float64), own.start[0])
        queries = (np.zeros(len(clock), dtype=np.int64), clock)
        prepared = prepare(graph, own, self._joint_limit, queries)
        found = exact_expectations(
            prepared, compiled.rates, compiled.initial, statistics=False
        ).query_marginals
        result = []
        for n in range(graph.n_nodes):
            p = found[:, graph.state_start[n] : graph.state_start[n + 1]]
            if n in own.exogenous:
                p = np.zeros_like(p)
                p[np.arange(len(clock)), [known_state(own, 0, n, t) for t in clock]] = 1.0
            result.append(p)
        return result

    def joint_marginals(
        self, trajectory: int, nodes: Sequence[int], times: FloatArray
    ) -> FloatArray:
        """(times, S_1, S_2, …): from one cluster per group of coupled nodes, which is exact."""
        compiled = self._network.compiled
        own = subset(self._evidence, np.array([trajectory]))
        groups = components(compiled.graph, own)
        check_size(compiled.graph, groups, self._joint_limit)
        courses = exact_courses(self._network, own, groups)
        clock = np.maximum(np.asarray(times, dtype=np.float64), own.start[0])
        result = np.ones((len(clock), *[1] * len(nodes)))
        for group in [*groups, *([n] for n in sorted(own.exogenous))]:
            inside = [n for n in nodes if n in group]
            if inside:
                part = courses.joint_marginals(0, inside, clock)
                shape = [int(compiled.graph.n_states[n]) if n in inside else 1 for n in nodes]
                result = result * part.reshape(len(clock), *shape)
        return result

    def sample(self, n: int, kind: str, rng: np.random.Generator) -> Trajectories:
        """Draw jointly; ``kind`` makes no difference here."""
        refuse_interventions(self._evidence, "Drawing paths")
        compiled, evidence = self._network.compiled, self._evidence
        prepared = prepare(compiled.graph, evidence, self._joint_limit)
        n_paths = evidence.n_trajectories * n
        initial = np.zeros((n_paths, compiled.graph.n_nodes), dtype=np.int64)
        jumps: list[tuple[IntArray, FloatArray, IntArray, IntArray]] = []
        for component in prepared.components:
            rates = compiled.rates[component.table_index]
            generators = current_generators(component, rates)
            keys = rng.integers(2**64, size=(evidence.n_trajectories, 2), dtype=np.uint64)
            for d in range(evidence.n_trajectories):
                first, draw, time, node, state = draw_paths(
                    Chain(
                        component.pattern,
                        component.schedule,
                        generators,
                        rates,
                        compiled.initial[component.initial_index],
                        evidence.points.log_likelihood,
                        component.diameter,
                    ),
                    component.time,
                    d,
                    n,
                    keys[d],
                )
                initial[d * n : (d + 1) * n, component.nodes] = component.pattern.state_of[first]
                jumps.append((d * n + draw, time, component.nodes[node], state))
        jumps += self._known_jumps(n, initial)
        path = np.concatenate([j[0] for j in jumps])
        time = np.concatenate([j[1] for j in jumps])
        order = np.lexsort((time, path))
        labels = evidence.labels or tuple(range(evidence.n_trajectories))
        return Trajectories(
            nodes=self._network.nodes,
            states={node: tuple(self._network.states[node]) for node in self._network.nodes},
            labels=tuple((label, draw) for label in labels for draw in range(n)),
            start=np.repeat(evidence.start, n),
            end=np.repeat(evidence.end, n),
            initial=initial,
            jump_offset=np.searchsorted(path[order], np.arange(n_paths + 1)),
            jump_time=time[order],
            jump_node=np.concatenate([j[2] for j in jumps])[order],
            jump_state=np.concatenate([j[3] for j in jumps])[order],
        )

    def _known_jumps(
        self, n: int, initial: IntArray
    ) -> list[tuple[IntArray, FloatArray, IntArray, IntArray]]:
        """Paths of the known inputs, the same in every draw."""
        evidence = self._evidence
        spans = evidence.spans
        found = []
        for node in sorted(evidence.exogenous):
            mine = np.flatnonzero(spans.node == node)
            d, state = spans.trajectory[mine], spans.state[mine]
            for path in range(len(initial)):
                initial[path, node] = known_state(
                    evidence, path // n, node, float(evidence.start[path // n])
                )
            moved = np.flatnonzero((np.diff(d) == 0) & (np.diff(state) != 0)) + 1
            moved = moved[spans.start[mine[moved]] > evidence.start[d[moved]]]
            for draw in range(n):
                found.append(
                    (
                        d[moved] * n + draw,
                        spans.start[mine[moved]],
                        np.full(len(moved), node, dtype=np.int64),
                        state[moved],
                    )
                )
        return found
