"""Clusters: every family as one joint chain, and neighbours that agree on what they share.

The star treats a node and its parents as independent at every time. Here a node stays together
with its parents in a cluster C, whose joint chain is followed exactly. Two clusters that share
nodes are joined by a separator s, and both must see the same process there, at the same rates q:

1. a cluster's chain uses the true rates of the nodes it owns; its other nodes jump at the rates
   that the neighbours tell it through the separators;
2. forward–backward on the cluster gives times T and jumps M; summed onto a separator they say at
   which rates q = M/T the shared nodes move, given everything the cluster knows;
3. the separator has a chain of its own; where its rates differ, the message is corrected;
4. sweeping over the clusters until nothing changes gives

    F = Σ_C ln Z_C − Σ_s ln Z_s ≈ ln P(Y),

every node counted once. F is no bound. One cluster that holds all nodes is exact inference; else a
separator's process is only nearly Markov, which is the whole approximation.

**Where to read on**, in ``clusters/``: ``regions.py`` chooses the clusters, ``_region_chain.py`` is
forward–backward, ``_cluster_messages.py`` the updates, ``_cluster_sweep.py`` the iteration,
``batch.py`` calls it. ``engine/refine.py`` chooses time steps: messages are constant on
a step, so errors fall with the square of its length.

**Marginals.** Every node is read from the cluster that owns it. Nodes that share a cluster have
joint probabilities. Past the end of a trajectory nothing is known any more; the same messages are
then solved on a longer trajectory, in which the neighbours tell each other their expected rates
only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from asterism.clusters import _cluster_layout as layout
from asterism.clusters import _cluster_sweep as _sweep
from asterism.clusters.batch import (
    ClusterBatch,
    ClusterModel,
    ClusterReader,
    make_cluster_batch,
    refused,
    run_clusters,
    select_clusters,
    start_messages,
)
from asterism.clusters.problem import known_indicator
from asterism.clusters.regions import STATE_LIMIT, Regions, find_regions, joint_probabilities
from asterism.engine._outcome import IMPOSSIBLE
from asterism.engine.batch import Outcome
from asterism.engine.grid import Grid, build_even_grid
from asterism.engine.joint_states import joint_states
from asterism.engine.paths import ChainSets, DrawnPaths, Solved, known_nodes
from asterism.engine.refine import SETTLED, Solution, solve_on_grids
from asterism.engine.rule import Precision, Rule
from asterism.engine.solve import MarginalsOverTime, solve_by
from asterism.errors import AsterismError, Sentence, Setting
from asterism.inference.posterior import Posterior
from asterism.model.network import Network
from asterism.numerics.compiled import CompiledNetwork, diagonal_index
from asterism.numerics.resources import require_memory
from asterism.timeline.evidence import Evidence, FloatArray, IntArray, owner_of_values, subset
from asterism.timeline.timeline import timeline_of

_FIRST_STEP = 0.5  # relaxation times, at tolerance 1e-3
_PARTS_PER_STEP = 32.0  # how often a step is cut inside, where nothing else asks for short steps
_FORBIDDEN = 1e-3  # expected jumps at rates of zero from which the data count as impossible


def solve(
    network: Network,
    evidence: Evidence,
    tolerance: float = 1e-3,
    time_step: float | None = None,
    max_sweeps: int = 200,
    n_jobs: int = 1,
    cluster_size: int | None = None,
    state_limit: int = STATE_LIMIT,
) -> Posterior:
    """Posterior by clusters; refuses families of more than ``state_limit`` joint states.

    ``tolerance``: marginals absolutely, evidence and statistics relatively, against the same
    approximation in continuous time. ``cluster_size``: see :func:`find_regions`.
    """
    precision = Precision(tolerance, time_step, max_sweeps, n_jobs)
    precision.check()
    compiled = network.compiled

    def rule(evidence: Evidence) -> ClusterRule:
        regions = find_regions(compiled.graph, evidence, cluster_size, state_limit, network.nodes)
        return ClusterRule(compiled, regions, precision)

    def solved(other: Evidence) -> Solution:
        return solve_on_grids(rule(other), other)

    return solve_by(rule(evidence), network, evidence, solved, ClusterMarginals)


class ClusterRule(Rule):
    """How clusters solve trajectories on a grid."""

    name = "clusters"
    finest = 64
    largest_cut = 2
    group_bytes = 2e8  # of messages; more trajectories are refined group by group
    usual_pace = 2e6  # messages updated in a second: a guess until the first solve is measured
    residual_is = "largest disagreement of two clusters {:.1e} expected jumps"
    remedies = (
        *(", try another ", Setting("cluster_size"), ", or use "),
        *(Setting("method", "exact"), " if the network is small."),
    )

    def __init__(self, network: CompiledNetwork, regions: Regions, precision: Precision) -> None:
        self.rates, self.initial = network.rates, network.initial
        self.model = ClusterModel.of(network.graph, regions)
        self.precision = precision
        self.is_exact_on_any_grid = not len(regions.separators)
        self.relaxation_rate = 0.0 if self.is_exact_on_any_grid else network.relaxation_rate
        self.first_step = _FIRST_STEP * (precision.tolerance / 1e-3) ** 0.5
        self.numbers_per_step = self.model.numbers_per_step

    # ---- grids ------------------------------------------------------------------------------

    def grid(self, evidence: Evidence, factors: IntArray) -> Grid:
        """First steps, cut into ``factors`` parts; without separators any steps will do."""
        if not self.is_exact_on_any_grid or self.precision.time_step is not None:
            return super().grid(evidence, factors)
        fastest = -float(self.rates.min(initial=0.0))
        longest = float((evidence.end - evidence.start).max(initial=0.0))
        step = _PARTS_PER_STEP / fastest if fastest > 0.0 else np.inf
        return build_even_grid(timeline_of(evidence), min(step, max(longest, 1e-300)))

    def make_batch(self, evidence: Evidence, grid: Grid, same: ClusterBatch | None) -> ClusterBatch:
        """Trajectories on a grid, with their first messages."""
        batch = make_cluster_batch(self.model, evidence, grid)
        start_messages(batch, self.rates)
        return batch

    def prolong(
        self, coarse: ClusterBatch, fine: ClusterBatch, of_fine: IntArray, ratios: IntArray
    ) -> None:
        """Start on finer steps from the messages of the coarser ones."""
        for new, c in zip(fine.messages, of_fine.tolist()):
            old = coarse.messages[c]
            # where nothing relaxes, a grid has the same steps however finely it is asked to be cut
            ratio = new.rate.shape[1] // max(1, old.rate.shape[1])
            new.rate[:] = np.repeat(old.rate, ratio, axis=1)
            new.diagonal[:] = np.repeat(old.diagonal, ratio, axis=1)
            new.start[:] = old.start
        fine.halvings[:] = coarse.halvings[of_fine]

    def largest_change(
        self, coarse: ClusterBatch, fine: ClusterBatch, of_fine: IntArray, ratios: IntArray
    ) -> FloatArray:
        """Per trajectory, the largest difference between two grids at a measurement."""
        change = np.zeros(len(of_fine))
        before = coarse.found.points[
            np.isin(owner_of_values(coarse.evidence.points), of_fine, kind="table")
        ]
        moved = np.abs(fine.found.points - before)
        np.maximum.at(change, owner_of_values(fine.evidence.points), moved)
        return change

    # ---- the iteration ----------------------------------------------------------------------

    def run(
        self, batch: ClusterBatch, max_sweeps: int, restart: bool
    ) -> tuple[Outcome, tuple[FloatArray, ...]]:
        """Iterate from the present messages until they settle, and count."""
        settled = SETTLED * self.precision.tolerance
        parameters = (self.rates, self.initial)
        outcome, found = run_clusters(
            batch, *parameters, settled, max_sweeps, self.precision.n_jobs
        )
        require_possible(batch, outcome)
        return outcome, (found.table,)

    def select(
        self, batch: ClusterBatch, index: IntArray
    ) -> tuple[ClusterBatch, tuple[FloatArray, ...]]:
        """Some trajectories of a solved batch, and their statistics."""
        chosen = select_clusters(batch, index)
        return chosen, (chosen.found.table.sum(axis=0),)

    def dwell_and_transitions(self, solution: Solution) -> tuple[FloatArray, FloatArray]:
        """Flat expected dwell times and transitions."""
        (table,) = solution.statistics
        return table[diagonal_index(self.model.graph)], table

    # ---- marginals and paths ----------------------------------------------------------------

    def reader(self, batch: ClusterBatch) -> ClusterReader:
        """Reads single clusters of a solved batch."""
        return ClusterReader(batch, self.rates, self.initial)

    def marginals(self, batch: ClusterBatch, index: int, times: FloatArray) -> list[FloatArray]:
        """Per node (times, S_n), at times between start and end."""
        regions, graph = batch.model.regions, batch.model.graph
        found: dict[int, FloatArray] = {}
        reader = self.reader(batch)
        for c in sorted({owner for owner in regions.owner if owner >= 0}):
            members = regions.clusters[c]
            joint = reader.probabilities(index, c, times)
            digit = joint_states(graph, members).digit
            for i, n in enumerate(members):
                if regions.owner[n] == c:
                    indicator = digit[:, i : i + 1] == np.arange(int(graph.n_states[n]))
                    found[n] = joint @ indicator.astype(np.float64)
        for n in batch.evidence.exogenous:
            found[n] = _known(batch, index, n, times)
        # rows that sum to one to the last digit
        return [found[n] / found[n].sum(axis=1, keepdims=True) for n in range(graph.n_nodes)]

    def longer(
        self,
        batch: ClusterBatch,
        index: int,
        times: FloatArray,
        solve: Callable[[Evidence], Solution],
    ) -> tuple[ClusterBatch, int]:
        """A solved batch that reaches to the last of the times, and the trajectory's place in it.

        Exogenous nodes stay in their last state.
        """
        end = float(times.max(initial=0.0))
        if not len(times) or end <= batch.evidence.end[index]:
            return batch, index
        own = lasting_until(subset(batch.evidence, np.array([index])), end)
        return solve(own).batches[0], 0

    def forecast(
        self,
        batch: ClusterBatch,
        index: int,
        times: FloatArray,
        solve: Callable[[Evidence], Solution],
    ) -> list[FloatArray]:
        """The marginals where some times are past the end."""
        return self.marginals(*self.longer(batch, index, times, solve), times)

    def draw(
        self, batch: ClusterBatch, index: int, n: int, kind: str, rng: np.random.Generator
    ) -> DrawnPaths:
        """``n`` joint paths of one trajectory; ``kind`` makes no difference."""
        model, evidence, reader = self.model, batch.evidence, self.reader(batch)
        n_steps = int(np.diff(batch.grid.step_start)[index])
        require_memory(
            16.0 * n_steps * float((model.arrays.n_joint * model.arrays.per_row).sum()),
            f"the chains of {model.arrays.n_clusters} clusters on {n_steps} steps",
            Sentence("a larger ", Setting("time_step"), " or ", Setting("tolerance")),
        )
        solved = [reader.chain(index, c) for c in range(model.arrays.n_clusters)]
        solved.append(known_nodes(evidence, model.graph, index, n_steps)[:4])
        key = rng.integers(2**64, size=2, dtype=np.uint64)
        together = Solved(*map(np.concatenate, zip(*solved)))
        return self._chains.draw(together, evidence, batch.grid, index, n, key)

    @cached_property
    def _chains(self) -> ChainSets:
        known = [n for n, owner in enumerate(self.model.regions.owner) if owner < 0]
        nodes = [*self.model.regions.clusters, *((n,) for n in known)]
        return ChainSets.of(self.model.graph, nodes, together=True)


class ClusterMarginals(MarginalsOverTime):
    """Adds joint probabilities of nodes that share a cluster."""

    _rule: ClusterRule

    @property
    def clusters(self) -> tuple[tuple[str, ...], ...]:
        """The nodes of every cluster."""
        names = self._network.nodes
        regions = self._rule.model.regions
        return tuple(tuple(names[n] for n in cluster) for cluster in regions.clusters)

    def joint_marginals(
        self, trajectory: int, nodes: Sequence[int], times: FloatArray
    ) -> FloatArray:
        """(times, S_1, S_2, …) joint probabilities of nodes that share a cluster."""
        b, index = self.solution.place[trajectory]
        clock = self._clock(trajectory, times)
        batch, index = self._rule.longer(self.solution.batches[b], index, clock, self._solve)
        regions, graph = batch.model.regions, batch.model.graph
        parts: list[tuple[tuple[int, ...], FloatArray]] = [
            ((n,), _known(batch, index, n, clock)) for n in nodes if n in batch.evidence.exogenous
        ]
        if hidden := [n for n in nodes if n not in batch.evidence.exogenous]:
            cluster = regions.holding(hidden)
            if cluster < 0:
                names = ", ".join(self._network.nodes[n] for n in nodes)
                raise AsterismError(
                    f"No cluster holds {names} together, so their joint probabilities are not "
                    "known: raise ",
                    *(Setting("cluster_size"), ", or use ", Setting("method", "exact")),
                    ". The clusters are in posterior.courses.clusters.",
                )
            members = regions.clusters[cluster]
            joint = self._rule.reader(batch).probabilities(index, cluster, clock)
            parts.append((members, joint.reshape(-1, *graph.n_states[list(members)])))
        return joint_probabilities(list(nodes), parts)


def _known(batch: ClusterBatch, index: int, node: int, times: FloatArray) -> FloatArray:
    """(times, S) an indicator of the state of an exogenous node."""
    size = int(batch.model.graph.n_states[node])
    return known_indicator(batch.evidence, index, node, size, times)


def lasting_until(evidence: Evidence, end: float) -> Evidence:
    """One trajectory's evidence, made longer; exogenous nodes then stay as they are."""
    if end <= evidence.end[0]:
        return evidence
    last = evidence.spans.end == evidence.end[0]
    stays = last & np.isin(evidence.spans.node, list(evidence.exogenous))
    spans = replace(evidence.spans, end=np.where(stays, end, evidence.spans.end))
    return replace(evidence, end=np.array([end]), spans=spans)


def require_possible(batch: ClusterBatch, outcome: Outcome) -> None:
    """Raise, naming the place, where the evidence has no probability."""
    failed = np.flatnonzero(outcome.status == IMPOSSIBLE)
    if len(failed):
        d = int(failed[0])
        step, kind = (int(i) for i in outcome.integers[d, [_sweep.STEP, _sweep.FAILURE]])
        time = batch.grid.times(d)[min(step, len(batch.grid.times(d)) - 1)]
        raise refused(batch.evidence.label(d), f"at about time {time:g}", kind)
    forbidden = np.flatnonzero(outcome.totals[:, _sweep.FORBIDDEN] > _FORBIDDEN)
    if len(forbidden):
        label = batch.evidence.label(int(forbidden[0]))
        raise refused(label, "somewhere between its ends", layout.IMPOSSIBLE)
