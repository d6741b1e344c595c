"""Owns the update of rates from expected statistics, and the prior's part in it.

    maximum likelihood   R = M / T
    posterior mean       R = (M + α) / (T + β)
    mode (map)           R = (M + α − 1) / (T + β)

All three maximise  Σ (M + a) ln R − (T + b) R  with (a, b) = (0, 0), (α, β) and (α − 1, β), which
is what lets one objective, ln P(Y) + Σ a ln R − b R, watch over all of them. Sums run over allowed
transitions only, so a state that cannot be left gets no imagined exits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asterism.errors import ModelError
from asterism.evidence.arrays import Evidence, FloatArray, IntArray
from asterism.model.compiled import CompiledGraph
from asterism.model.priors import GammaPrior

BoolArray = NDArray[np.bool_]

FASTEST = 100.0
"""No rate is followed beyond this many jumps in the shortest gap of the data."""


@dataclass(frozen=True)
class RateUpdate:
    """Which rates are learned, and what is added to their statistics."""

    graph: CompiledGraph
    index: IntArray
    """Places of the learned rates in the flat table."""
    dwell_index: IntArray
    """Place of each one's dwell time in the flat dwell times."""
    added_transitions: float
    added_time: float
    ceiling: float

    def totals(self, transitions: FloatArray, dwell: FloatArray) -> tuple[FloatArray, FloatArray]:
        """M + a and T + b of the learned rates."""
        return (
            transitions[self.index] + self.added_transitions,
            dwell[self.dwell_index] + self.added_time,
        )

    def rates(self, transitions: FloatArray, dwell: FloatArray, current: FloatArray) -> FloatArray:
        """The best flat rates; where no time was spent the current ones stay."""
        m, t = self.totals(transitions, dwell)
        known = t > 0.0
        free = np.where(known, m / np.where(known, t, 1.0), current[self.index])
        return self.with_rates(current, np.minimum(free, self.ceiling))

    def with_rates(self, flat: FloatArray, free: FloatArray) -> FloatArray:
        """Flat tables with these learned rates, their diagonals completed."""
        result = flat.copy()
        result[self.index] = free
        complete_diagonals(result, self.graph)
        return result

    def penalty(self, rates: FloatArray) -> float:
        """Σ a ln R − b R: the prior's part of the objective."""
        if self.added_transitions == 0.0 and self.added_time == 0.0:
            return 0.0
        free = rates[self.index]
        logs = np.log(np.maximum(free, 1e-300))
        return float(np.sum(self.added_transitions * logs - self.added_time * free))

    def pooled_where_unseen(
        self, transitions: FloatArray, dwell: FloatArray, current: FloatArray
    ) -> FloatArray:
        """Maximum likelihood leaves rates without any time open: take those of all configurations.

        A state that is never visited under any configuration gets no exits.
        """
        result = current.copy()
        unseen = dwell[self.dwell_index] + self.added_time <= 0.0
        for n in np.unique(self._node(self.index[unseen])):
            size = int(self.graph.n_states[n])
            inside = slice(int(self.graph.table_start[n]), int(self.graph.table_start[n + 1]))
            moves = transitions[inside].reshape(-1, size, size).sum(axis=0)
            first = int(_dwell_start(self.graph)[n])
            n_values = int(self.graph.n_configurations[n]) * size
            time = dwell[first : first + n_values].reshape(-1, size).sum(axis=0)
            pooled = np.where(
                time[:, None] > 0.0, moves / np.where(time > 0, time, 1.0)[:, None], 0
            )
            mine = self.index[unseen & (self._node(self.index) == n)]
            result[mine] = pooled.ravel()[(mine - inside.start) % (size * size)]
        complete_diagonals(result, self.graph)
        return result

    def _node(self, index: IntArray) -> IntArray:
        return np.searchsorted(self.graph.table_start, index, side="right") - 1


def rate_update(
    graph: CompiledGraph,
    allowed: BoolArray,
    prior: GammaPrior | None,
    use_mode: bool,
    ceiling: float,
) -> RateUpdate:
    """The update for a (resolved) prior; None is maximum likelihood."""
    index = np.flatnonzero(allowed)
    node = np.searchsorted(graph.table_start, index, side="right") - 1
    size = graph.n_states[node]
    row = (index - graph.table_start[node]) // size
    a, b = 0.0, 0.0
    if prior is not None:
        a, b = prior.shape, prior.rate_value
        if use_mode:
            if prior.shape < 1.0:
                raise ModelError(
                    f"A Gamma prior of shape {prior.shape:g} < 1 has its mode at rate zero, where "
                    "its density is infinite; use a shape of at least 1, or map=False."
                )
            a -= 1.0
    return RateUpdate(graph, index, _dwell_start(graph)[node] + row, a, b, ceiling)


def fastest_rate(evidence: Evidence) -> float:
    """A rate that the data cannot tell from a larger one: many jumps in the shortest gap."""
    points, jumps, spans = evidence.points, evidence.jumps, evidence.spans
    trajectory = np.concatenate(
        [np.arange(evidence.n_trajectories)] * 2
        + [points.trajectory, jumps.trajectory, spans.trajectory, spans.trajectory]
    )
    time = np.concatenate(
        [evidence.start, evidence.end, points.time, jumps.time, spans.start, spans.end]
    )
    order = np.lexsort((time, trajectory))
    gap = np.diff(time[order])[np.diff(trajectory[order]) == 0]
    gap = gap[gap > 0.0]
    return FASTEST / float(gap.min()) if len(gap) else np.inf


def automatic_prior_rate(
    shape: float, update: RateUpdate, transitions: FloatArray, dwell: FloatArray
) -> float:
    """β = α ΣT/ΣM over the lone nodes; ΣM counts at least one transition.

    Only states that can be left count, each once however many exits it has.
    """
    time = float(dwell[np.unique(update.dwell_index)].sum())
    jumps = max(float(transitions[update.index].sum()), 1.0)
    if not time > 0.0:
        raise ModelError('prior rate "auto" needs trajectories that last some time.')
    return shape * time / jumps


def complete_diagonals(rates: FloatArray, graph: CompiledGraph) -> None:
    """Make every row of every block sum to zero, in place."""
    for n in range(graph.n_nodes):
        size = int(graph.n_states[n])
        block = rates[graph.table_start[n] : graph.table_start[n + 1]].reshape(-1, size, size)
        x = np.arange(size)
        block[:, x, x] = 0.0
        block[:, x, x] = -block.sum(axis=2)


def _dwell_start(graph: CompiledGraph) -> IntArray:
    start = np.zeros(graph.n_nodes + 1, dtype=np.int64)
    np.cumsum(graph.n_configurations * graph.n_states, out=start[1:])
    return start
