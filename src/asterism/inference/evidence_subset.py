"""The evidence of some of the trajectories, renumbered from zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asterism.inference.evidence import Evidence, IntArray, Jumps, Points, Spans


def subset(evidence: Evidence, trajectories: IntArray) -> Evidence:
    """Evidence of the listed trajectories, which must be ascending."""
    new_number = np.full(evidence.n_trajectories, -1, dtype=np.int64)
    new_number[trajectories] = np.arange(len(trajectories))
    points, jumps, spans = evidence.points, evidence.jumps, evidence.spans
    rows = np.flatnonzero(new_number[points.trajectory] >= 0)
    lengths = np.diff(np.append(points.offset, len(points.log_likelihood)))[rows]
    offset = np.cumsum(lengths) - lengths
    gather = np.repeat(points.offset[rows] - offset, lengths) + np.arange(lengths.sum())
    of_jumps = np.flatnonzero(new_number[jumps.trajectory] >= 0)
    of_spans = np.flatnonzero(new_number[spans.trajectory] >= 0)
    return replace(
        evidence,
        start=evidence.start[trajectories],
        end=evidence.end[trajectories],
        points=Points(
            trajectory=new_number[points.trajectory[rows]],
            node=points.node[rows],
            time=points.time[rows],
            offset=offset.astype(np.int64),
            log_likelihood=points.log_likelihood[gather],
        ),
        jumps=Jumps(
            trajectory=new_number[jumps.trajectory[of_jumps]],
            node=jumps.node[of_jumps],
            time=jumps.time[of_jumps],
            to_state=jumps.to_state[of_jumps],
            from_state=jumps.from_state[of_jumps],
        ),
        spans=Spans(
            trajectory=new_number[spans.trajectory[of_spans]],
            node=spans.node[of_spans],
            start=spans.start[of_spans],
            end=spans.end[of_spans],
            state=spans.state[of_spans],
        ),
        joint=tuple(
            replace(j, trajectory=int(new_number[j.trajectory]))
            for j in evidence.joint
            if new_number[j.trajectory] >= 0
        ),
        labels=tuple(evidence.labels[d] for d in trajectories) if evidence.labels else (),
    )
