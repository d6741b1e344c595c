"""Courses of the nodes as clusters see them: marginals of nodes and of pairs, forecasts, paths.

Every node is read from the cluster that owns it. Nodes that share a cluster have joint
probabilities. Past the end of a trajectory nothing is known any more; the same messages are then
solved on a longer trajectory, in which the neighbours tell each other their expected rates only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from asterism.clusters.batch_of_clusters import ClusterBatch, ClusterModel, ClusterReader
from asterism.clusters.cluster_paths import draw_from_clusters
from asterism.clusters.refine_clusters import (
    ClusterParameters,
    ClusterSolution,
    Precision,
    solve_on_cluster_grids,
)
from asterism.clusters.region_arrays import region_shape
from asterism.clusters.regions import Regions
from asterism.data.trajectories import Trajectories
from asterism.errors import AsterismError, Setting
from asterism.model.network import Network
from asterism.star.paths_drawn import DrawnPaths, PathCollector
from asterism.timeline.evidence import Evidence, FloatArray, subset
from asterism.timeline.timeline import known_states


class ClusterCourses:
    """Marginals and paths from solved clusters."""

    def __init__(
        self,
        network: Network,
        evidence: Evidence,
        solution: ClusterSolution,
        parameters: ClusterParameters,
        solve_again: Callable[[Evidence], ClusterSolution],
    ) -> None:
        """``solve_again`` solves other evidence in the same way; for forecasts."""
        self._network = network
        self._evidence = evidence
        self._solution = solution
        self._parameters = parameters
        self._solve_again = solve_again

    @property
    def clusters(self) -> tuple[tuple[str, ...], ...]:
        """The nodes of every cluster."""
        names = self._network.nodes
        regions = self._solution.batches[0].model.regions
        return tuple(tuple(names[n] for n in cluster) for cluster in regions.clusters)

    def marginals(self, trajectory: int, times: FloatArray) -> list[FloatArray]:
        """Per node (times, S_n); before the start those at the start, past the end a forecast."""
        batch, index, clock = self._covering(trajectory, times)
        regions = batch.model.regions
        graph = batch.model.graph
        found: dict[int, FloatArray] = {}
        reader = self._reader(batch)
        for c in sorted({owner for owner in regions.owner if owner >= 0}):
            members = regions.clusters[c]
            joint = reader.probabilities(index, c, clock)
            digit = region_shape(graph, members).digit
            for i, n in enumerate(members):
                if regions.owner[n] == c:
                    indicator = digit[:, i : i + 1] == np.arange(int(graph.n_states[n]))
                    found[n] = joint @ indicator.astype(np.float64)
        for n in batch.evidence.exogenous:
            found[n] = self._known(trajectory, n, clock)
        return [_normalised(found[n]) for n in range(graph.n_nodes)]

    def joint_marginals(
        self, trajectory: int, nodes: Sequence[int], times: FloatArray
    ) -> FloatArray:
        """(times, S_1, S_2, …) joint probabilities of nodes that share a cluster."""
        batch, index, clock = self._covering(trajectory, times)
        regions, graph = batch.model.regions, batch.model.graph
        hidden = [n for n in nodes if n not in batch.evidence.exogenous]
        if not hidden:
            return self._known_together(trajectory, nodes, clock)
        cluster = regions.holding(hidden)
        if cluster < 0:
            names = ", ".join(self._network.nodes[n] for n in nodes)
            raise AsterismError(
                f"No cluster holds {names} together, so their joint probabilities are not known: ",
                *("raise ", Setting("cluster_size"), ", or use ", Setting("method", "exact")),
                ". The clusters are in posterior.courses.clusters.",
            )
        members = regions.clusters[cluster]
        joint = self._reader(batch).probabilities(index, cluster, clock)
        digit = region_shape(graph, members).digit
        shape = tuple(int(graph.n_states[n]) for n in nodes)
        result = np.zeros((len(clock), *shape))
        known = {n for n in nodes if n not in hidden}
        for x in range(joint.shape[1]):
            here = tuple(
                slice(None) if n in known else int(digit[x, members.index(n)]) for n in nodes
            )
            result[(slice(None), *here)] += joint[:, x].reshape(-1, *[1] * len(known))
        result *= self._known_together(trajectory, nodes, clock)
        total = result.reshape(len(clock), -1).sum(axis=1)
        return np.asarray(result / total.reshape(-1, *[1] * len(nodes)))

    def sample(self, n: int, kind: str, rng: np.random.Generator) -> Trajectories:
        """``n`` joint paths of every trajectory; ``kind`` makes no difference."""
        collector = PathCollector(self._network)
        parameters = (self._parameters.rates, self._parameters.initial)
        for d, (b, index) in enumerate(self._solution.place):
            batch = self._solution.batches[b]
            labels = batch.evidence.labels
            paths = draw_from_clusters(batch, index, parameters, n, rng)
            collector.add(
                labels[index] if labels else d,
                float(batch.evidence.start[index]),
                float(batch.evidence.end[index]),
                DrawnPaths(*paths),
            )
        return collector.trajectories()

    def _covering(self, trajectory: int, times: FloatArray) -> tuple[ClusterBatch, int, FloatArray]:
        """A solved batch that reaches to the last of the times, and the times from the start on."""
        b, index = self._solution.place[trajectory]
        batch = self._solution.batches[b]
        clock = np.maximum(np.asarray(times, dtype=np.float64), self._evidence.start[trajectory])
        end = float(clock.max(initial=0.0))
        if len(clock) and end > self._evidence.end[trajectory]:
            own = subset(self._evidence, np.array([trajectory]))
            last = own.spans.end == own.end[0]
            held = last & np.isin(own.spans.node, list(own.exogenous))
            spans = replace(own.spans, end=np.where(held, end, own.spans.end))
            solution = self._solve_again(replace(own, end=np.array([end]), spans=spans))
            return solution.batches[0], 0, clock
        return batch, index, clock

    def _reader(self, batch: ClusterBatch) -> ClusterReader:
        return ClusterReader(batch, self._parameters.rates, self._parameters.initial)

    def _known_together(
        self, trajectory: int, nodes: Sequence[int], times: FloatArray
    ) -> FloatArray:
        """(times, …) an indicator of the exogenous nodes' states; 1 along the other axes."""
        result = np.ones((len(times), *[1] * len(nodes)))
        for axis, n in enumerate(nodes):
            if n in self._evidence.exogenous:
                shape = [1] * len(nodes)
                shape[axis] = int(self._network.compiled.graph.n_states[n])
                result = result * self._known(trajectory, n, times).reshape(len(times), *shape)
        return result

    def _known(self, trajectory: int, node: int, times: FloatArray) -> FloatArray:
        size = int(self._network.compiled.graph.n_states[node])
        found = np.zeros((len(times), size))
        states = known_states(self._evidence, trajectory, node, times)
        found[np.arange(len(times)), states] = 1.0
        return found


def exact_courses(network: Network, evidence: Evidence, groups: list[list[int]]) -> ClusterCourses:
    """Courses from one cluster per group of coupled nodes: exact."""
    graph = network.compiled.graph
    owner = [-1] * graph.n_nodes
    for i, group in enumerate(groups):
        for n in group:
            owner[n] = i
    regions = Regions(tuple(tuple(sorted(g)) for g in groups), (), tuple(owner))
    compiled = network.compiled
    parameters = ClusterParameters(compiled.rates, compiled.initial, 0.0)

    def solved(other: Evidence) -> ClusterSolution:
        return solve_on_cluster_grids(
            ClusterModel.of(graph, regions), other, parameters, Precision(1e-3, None, 1, 1)
        )

    return ClusterCourses(network, evidence, solved(evidence), parameters, solved)


def _normalised(probability: FloatArray) -> FloatArray:
    """Rows that sum to one to the last digit."""
    return np.asarray(probability / probability.sum(axis=1, keepdims=True))
