"""Parts of the evidence: one trajectory of it, or only what each trajectory shows first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from asterism.inference.evidence import Evidence, FloatArray, IntArray, Jumps, Points, Spans


def one_trajectory(evidence: Evidence, trajectory: int) -> Evidence:
    """The evidence of one trajectory, renumbered to 0; likelihood offsets stay as they are."""

    def rows(of_trajectory: IntArray) -> slice:
        return slice(
            int(np.searchsorted(of_trajectory, trajectory, side="left")),
            int(np.searchsorted(of_trajectory, trajectory, side="right")),
        )

    p, j, s = evidence.points, evidence.jumps, evidence.spans
    rp, rj, rs = rows(p.trajectory), rows(j.trajectory), rows(s.trajectory)
    return replace(
        evidence,
        start=evidence.start[trajectory : trajectory + 1],
        end=evidence.end[trajectory : trajectory + 1],
        points=Points(
            np.zeros_like(p.trajectory[rp]), p.node[rp], p.time[rp], p.offset[rp], p.log_likelihood
        ),
        jumps=Jumps(
            np.zeros_like(j.trajectory[rj]),
            j.node[rj],
            j.time[rj],
            j.to_state[rj],
            j.from_state[rj],
        ),
        spans=Spans(
            np.zeros_like(s.trajectory[rs]), s.node[rs], s.start[rs], s.end[rs], s.state[rs]
        ),
        joint=tuple(replace(m, trajectory=0) for m in evidence.joint if m.trajectory == trajectory),
        labels=evidence.labels[trajectory : trajectory + 1],
    )


def first_times(evidence: Evidence) -> FloatArray:
    """(D,) when each trajectory is measured for the first time; +inf if never.

    The beginning of a continuous observation counts as a measurement; known inputs do not.
    """
    first = np.full(evidence.n_trajectories, np.inf)
    points, spans = evidence.points, evidence.spans
    np.minimum.at(first, points.trajectory, points.time)
    own = ~_is_exogenous(evidence, spans.node)
    np.minimum.at(first, spans.trajectory[own], spans.start[own])
    for measurement in evidence.joint:
        first[measurement.trajectory] = min(first[measurement.trajectory], measurement.time)
    clipped: FloatArray = np.maximum(first, evidence.start)
    return clipped


def first_measurements(evidence: Evidence, n_states: IntArray) -> Evidence:
    """Only the measurements at each trajectory's first measurement time, which also ends it.

    A node that is seen continuously from then on enters with its state at that moment.
    """
    first = first_times(evidence)
    points, spans = evidence.points, evidence.spans
    keep = points.time <= first[points.trajectory]
    exogenous = _is_exogenous(evidence, spans.node)
    seen = ~exogenous & (spans.start <= first[spans.trajectory]) & has_length(evidence)
    indicators = [
        np.where(np.arange(n_states[n]) == x, 0.0, -np.inf)
        for n, x in zip(spans.node[seen], spans.state[seen])
    ]
    sizes = np.array([len(i) for i in indicators], dtype=np.int64)
    offsets = len(points.log_likelihood) + np.cumsum(sizes) - sizes
    trajectory = np.concatenate([points.trajectory[keep], spans.trajectory[seen]])
    node = np.concatenate([points.node[keep], spans.node[seen]])
    order = np.lexsort((node, trajectory))
    end = np.where(np.isfinite(first), first, evidence.start)
    empty = np.zeros(0, dtype=np.int64)
    return replace(
        evidence,
        end=end,
        points=Points(
            trajectory=trajectory[order],
            node=node[order],
            time=end[trajectory[order]],
            offset=np.concatenate([points.offset[keep], offsets])[order],
            log_likelihood=np.concatenate([points.log_likelihood, *indicators]),
        ),
        jumps=Jumps(empty, empty, np.zeros(0), empty, empty),
        spans=_clipped(spans, exogenous, end),
        joint=tuple(m for m in evidence.joint if m.time <= first[m.trajectory]),
    )


def has_length(evidence: Evidence) -> NDArray[np.bool_]:
    """Spans that say something: not empty, unless the whole trajectory is a single moment."""
    spans = evidence.spans
    begin, end = evidence.start[spans.trajectory], evidence.end[spans.trajectory]
    found: NDArray[np.bool_] = (spans.end > spans.start) & (spans.end > begin) | (begin == end)
    return found


def start_log_evidence(
    evidence: Evidence, initial: FloatArray, state_start: IntArray
) -> FloatArray:
    """(D,) Σ_n ln Σ_x p0_n(x) L_n(x) of measurements made at the start of every trajectory."""
    points = evidence.points
    total = np.zeros(evidence.n_trajectories)
    for node in np.unique(points.node):
        rows = np.flatnonzero(points.node == node)
        prior = initial[state_start[node] : state_start[node + 1]]
        logs = np.zeros((evidence.n_trajectories, len(prior)))
        values = points.log_likelihood[points.offset[rows][:, None] + np.arange(len(prior))]
        np.add.at(logs, points.trajectory[rows], values)
        top = np.max(logs, axis=1, keepdims=True)
        top[~np.isfinite(top)] = 0.0
        with np.errstate(divide="ignore"):
            total += np.log(np.exp(logs - top) @ prior) + top[:, 0]
    return total


def _clipped(spans: Spans, keep: NDArray[np.bool_], end: FloatArray) -> Spans:
    keep = keep & (spans.start <= end[spans.trajectory])
    return Spans(
        spans.trajectory[keep],
        spans.node[keep],
        spans.start[keep],
        np.minimum(spans.end[keep], end[spans.trajectory[keep]]),
        spans.state[keep],
    )


def _is_exogenous(evidence: Evidence, node: IntArray) -> NDArray[np.bool_]:
    return np.isin(node, list(evidence.exogenous))
