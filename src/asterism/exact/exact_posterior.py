"""The posterior of exact inference: marginals at any time and paths drawn jointly.

Marginals at other times come from one more pass, in which these times are event times without
evidence, so they are as exact as the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from asterism.clusters.problem import known_indicator
from asterism.clusters.regions import joint_probabilities
from asterism.data.trajectories import Trajectories
from asterism.engine.paths import ChainSets, PathCollector, known_nodes
from asterism.engine.rules.clusters import lasting_until
from asterism.exact.forward_backward import (
    SolvedChain,
    event_grid,
    exact_expectations,
    make_chain,
    prepare,
    whole_model,
)
from asterism.exact.groups import JOINT_LIMIT
from asterism.inference.posterior import Posterior, statistics_of
from asterism.model.network import Network
from asterism.numerics.compiled import diagonal_index
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    JointMeasurement,
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
    diagonal = diagonal_index(compiled.graph)
    return Posterior(
        network=network,
        evidence=evidence,
        method="exact",
        log_evidence_by_trajectory=found.log_evidence,
        statistics=partial(statistics_of, network, found.table[diagonal], found.table),
        courses=ExactCourses(network, evidence, joint_limit),
        log_evidence_of=log_evidence_of,
    )


class ExactCourses:
    """Marginals and paths from the joint chain of every group."""

    def __init__(self, network: Network, evidence: Evidence, joint_limit: int) -> None:
        self._network = network
        self._evidence = evidence
        self._n_states = network.compiled.graph.n_states
        self._model = whole_model(network.compiled.graph, evidence, joint_limit)

    def _solved(self, region: int, evidence: Evidence) -> SolvedChain:
        compiled = self._network.compiled
        chain = make_chain(self._model, region, evidence)
        return SolvedChain(chain, compiled.rates, compiled.initial)

    def marginals(self, trajectory: int, times: FloatArray) -> list[FloatArray]:
        """Per node (len(times), S_n) probabilities; see ``inference/posterior.py``."""
        return self._together(trajectory, [[n] for n in range(len(self._n_states))], times)

    def joint_marginals(
        self, trajectory: int, nodes: Sequence[int], times: FloatArray
    ) -> FloatArray:
        """(times, S_1, S_2, …) joint probabilities of any nodes."""
        return self._together(trajectory, [nodes], times)[0]

    def _together(
        self, trajectory: int, wanted: Sequence[Sequence[int]], times: FloatArray
    ) -> list[FloatArray]:
        """Joint probabilities of each of these sets of nodes."""
        if not len(times):
            return [np.zeros((0, *self._n_states[list(nodes)])) for nodes in wanted]
        own = subset(self._evidence, np.array([trajectory]))
        clock = np.maximum(np.asarray(times, dtype=np.float64), own.start[0])
        own = lasting_until(own, float(clock.max()))
        asked = {n for nodes in wanted for n in nodes}
        parts: list[tuple[Sequence[int], FloatArray]] = [
            ((n,), known_indicator(own, 0, n, int(self._n_states[n]), clock))
            for n in asked & own.exogenous
        ]
        for region, members in enumerate(self._model.regions.clusters):
            if not asked.isdisjoint(members):
                flat = self._group_probabilities(region, own, clock)
                parts.append((members, flat.reshape(-1, *self._n_states[list(members)])))
        return [
            joint_probabilities(list(nodes), [p for p in parts if not set(nodes).isdisjoint(p[0])])
            for nodes in wanted
        ]

    def _group_probabilities(self, region: int, own: Evidence, clock: FloatArray) -> FloatArray:
        """(times, joint states): the times become event times at which nothing is learned."""
        node = self._model.regions.clusters[region][0]
        nothing = np.zeros(int(self._n_states[node]))
        asked = tuple(JointMeasurement(0, float(t), (node,), nothing) for t in np.unique(clock))
        solved = self._solved(region, replace(own, joint=own.joint + asked))
        return solved.joint_probabilities(clock)

    def sample(self, n: int, kind: str, rng: np.random.Generator) -> Trajectories:
        """Draw jointly; ``kind`` makes no difference here."""
        evidence, graph = self._evidence, self._network.compiled.graph
        clusters, known = self._model.regions.clusters, sorted(evidence.exogenous)
        solved = [self._solved(region, evidence) for region in range(len(clusters))]
        sets = [ChainSets.of(graph, [members], together=True) for members in clusters]
        given = ChainSets.of(graph, [(node,) for node in known], together=True)
        grid = event_grid(evidence)
        shape = (len(solved) + 1, evidence.n_trajectories, 2)
        keys = rng.integers(2**64, size=shape, dtype=np.uint64)
        collector = PathCollector(self._network, evidence)
        for d in range(evidence.n_trajectories):
            paths = [
                chains.draw(one.along(d), one.chain.evidence, one.chain.grid, d, n, key[d])
                for one, chains, key in zip(solved, sets, keys)
            ]
            if known:
                states = known_nodes(evidence, graph, d, int(np.diff(grid.step_start)[d]))
                paths.append(given.draw(states, evidence, grid, d, n, keys[-1, d]))
            collector.add(d, *paths)
        return collector.trajectories()
