"""Time grids: where the steps of each trajectory lie.

Every moment at which something is known (start, end, measurements, jumps, ends of spans) is a
grid point; each gap between two of them is cut into steps. Steps are laid out in units of the
system's own relaxation time, so the unit of time does not matter, and more densely where the
posterior moves fastest: within a relaxation time of decisive evidence, and near the ends rather
than in the middle of very long gaps. Refining a grid cuts every step into equal parts of the
same layout, so that solutions on two levels can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asterism.inference.evidence import Evidence, FloatArray, IntArray
from asterism.kernels.placing import place_steps

_LONG_GAP = 30.0  # relaxation times after which the middle of a gap is at rest
_SHARP_DENSITY = 2.0  # extra density of steps next to decisive evidence
_DECISIVE = 6.0  # difference in log-likelihood that as good as excludes a state


@dataclass(frozen=True)
class Breakpoints:
    """The distinct moments of each trajectory at which something is known."""

    trajectory: IntArray
    time: FloatArray
    sharpness: FloatArray
    """From 0 (nothing is learned there) to 1 (some node's state is as good as known there)."""
    of_points: IntArray
    of_jumps: IntArray
    of_span_starts: IntArray
    of_span_ends: IntArray
    of_joint: IntArray
    """Which breakpoint each piece of evidence falls on."""


@dataclass(frozen=True)
class Grid:
    """Steps of all trajectories, one after the other."""

    step_start: IntArray
    """(D+1,) first step of each trajectory."""
    width: FloatArray
    point_time: FloatArray
    """Times of the grid points; trajectory d's begin at ``step_start[d] + d``."""
    point_of_breakpoint: IntArray
    """Grid point, counted within its trajectory, of each breakpoint."""
    breakpoint_trajectory: IntArray

    def select(self, trajectories: IntArray) -> Grid:
        """The steps of some of the trajectories (ascending)."""
        steps = np.diff(self.step_start)[trajectories]
        step_start = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
        take = np.repeat(self.step_start[trajectories] - step_start[:-1], steps)
        n_points = steps + 1
        point_start = np.cumsum(n_points) - n_points
        take_points = np.repeat(
            self.step_start[trajectories] + trajectories - point_start, n_points
        )
        mine = np.isin(self.breakpoint_trajectory, trajectories)
        return Grid(
            step_start,
            self.width[take + np.arange(len(take))],
            self.point_time[take_points + np.arange(len(take_points))],
            self.point_of_breakpoint[mine],
            np.searchsorted(trajectories, self.breakpoint_trajectory[mine]),
        )

    def is_breakpoint(self, trajectory: int) -> NDArray[np.bool_]:
        """At which grid points of one trajectory something is known."""
        found = np.zeros(int(np.diff(self.step_start)[trajectory]) + 1, dtype=np.bool_)
        found[self.point_of_breakpoint[self.breakpoint_trajectory == trajectory]] = True
        return found

    def times(self, trajectory: int) -> FloatArray:
        """Grid points of one trajectory."""
        first = int(self.step_start[trajectory]) + trajectory
        last = int(self.step_start[trajectory + 1]) + trajectory
        return self.point_time[first : last + 1]


def find_breakpoints(evidence: Evidence) -> Breakpoints:
    """Collect and merge the moments at which something is known."""
    everyone = np.arange(evidence.n_trajectories, dtype=np.int64)
    points, jumps, spans = evidence.points, evidence.jumps, evidence.spans
    joint_trajectory = np.array([j.trajectory for j in evidence.joint], dtype=np.int64)
    joint_time = np.array([j.time for j in evidence.joint], dtype=np.float64)
    pieces = [
        (everyone, evidence.start),
        (everyone, evidence.end),
        (points.trajectory, points.time),
        (jumps.trajectory, jumps.time),
        (spans.trajectory, spans.start),
        (spans.trajectory, spans.end),
        (joint_trajectory, joint_time),
    ]
    trajectory = np.concatenate([p[0] for p in pieces])
    time = np.concatenate([p[1] for p in pieces])
    order = np.lexsort((time, trajectory))
    t_sorted, d_sorted = time[order], trajectory[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (d_sorted[1:] != d_sorted[:-1]) | (t_sorted[1:] != t_sorted[:-1])
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.cumsum(is_new) - 1
    bounds = np.cumsum([0, *(len(p[0]) for p in pieces)])
    of = [position[bounds[i] : bounds[i + 1]] for i in range(len(pieces))]
    sharpness = np.zeros(int(is_new.sum()))
    if len(points.time):
        highest = np.maximum.reduceat(points.log_likelihood, points.offset)
        lowest = np.minimum.reduceat(points.log_likelihood, points.offset)
        of_point = np.minimum(1.0, (highest - lowest) / _DECISIVE)
        np.maximum.at(sharpness, of[2], of_point)
    for known in (of[3], of[4], of[5]):
        sharpness[known] = 1.0
    return Breakpoints(
        trajectory=d_sorted[is_new],
        time=t_sorted[is_new],
        sharpness=sharpness,
        of_points=of[2],
        of_jumps=of[3],
        of_span_starts=of[4],
        of_span_ends=of[5],
        of_joint=of[6],
    )


def most_steps(
    evidence: Evidence, relaxation_rate: float, step: float, time_step: float | None
) -> float:
    """At most so many steps will a grid have; cheap, and often far too many."""
    duration = float((evidence.end - evidence.start).sum())
    n_moments = 2 * evidence.n_trajectories + len(evidence.points.time) + len(evidence.joint)
    n_moments += len(evidence.jumps.time) + 2 * len(evidence.spans.start)
    if time_step is not None:
        return duration / time_step + n_moments
    # next to decisive evidence on both sides the density is higher, for a relaxation time
    in_relaxation_times = duration * relaxation_rate + 2.0 * _SHARP_DENSITY * n_moments
    return in_relaxation_times / step + n_moments


def _density_profile(
    length: FloatArray, left: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Base density, decay length and the densities added at both ends of each gap.

    ``length`` is in relaxation times; ``left`` and ``right`` are the sharpness at the ends.
    """
    is_long = length > _LONG_GAP
    base = np.where(is_long, _LONG_GAP / np.maximum(length, _LONG_GAP), 1.0)
    decay = np.where(is_long, 8.0, 1.0)
    at_rest = np.where(is_long, 1.0 - base, 0.0)
    return base, decay, at_rest + _SHARP_DENSITY * left, at_rest + _SHARP_DENSITY * right


def _cumulative(
    tau: FloatArray,
    length: FloatArray,
    base: FloatArray,
    decay: FloatArray,
    left: FloatArray,
    right: FloatArray,
) -> FloatArray:
    """Integral of the step density from the start of the gap to ``tau``."""
    from_left = left * decay * -np.expm1(-tau / decay)
    from_right = right * decay * (np.exp((tau - length) / decay) - np.exp(-length / decay))
    return np.asarray(base * tau + from_left + from_right, dtype=np.float64)


def build_grid(
    breakpoints: Breakpoints,
    n_trajectories: int,
    relaxation_rate: float,
    step: float,
    refinement: IntArray | int = 1,
) -> Grid:
    """Cut the gaps. ``step`` is in relaxation times, before each step is cut ``refinement`` times.

    ``relaxation_rate`` zero means that nothing couples: one step per gap is exact then.
    """
    same = breakpoints.trajectory[1:] == breakpoints.trajectory[:-1]
    gap_start = breakpoints.time[:-1][same]
    gap_width = np.diff(breakpoints.time)[same]
    gap_trajectory = breakpoints.trajectory[:-1][same]
    left = breakpoints.sharpness[:-1][same]
    right = breakpoints.sharpness[1:][same]
    length = gap_width * relaxation_rate
    base, decay, at_left, at_right = _density_profile(length, left, right)
    total = _cumulative(length, length, base, decay, at_left, at_right)
    n_steps = np.maximum(1, np.ceil(total / step - 1e-9)).astype(np.int64)
    factor = np.broadcast_to(np.asarray(refinement, dtype=np.int64), (n_trajectories,))
    if relaxation_rate > 0.0:
        n_steps = n_steps * factor[gap_trajectory]
    return _lay_out(
        breakpoints,
        n_trajectories,
        gap_start,
        gap_width,
        n_steps,
        (length, base, decay, at_left, at_right, total),
    )


def build_even_grid(breakpoints: Breakpoints, n_trajectories: int, time_step: float) -> Grid:
    """Equal steps of at most ``time_step`` (in the user's unit) in every gap."""
    same = breakpoints.trajectory[1:] == breakpoints.trajectory[:-1]
    gap_width = np.diff(breakpoints.time)[same]
    n_steps = np.maximum(1, np.ceil(gap_width / time_step - 1e-9)).astype(np.int64)
    return _lay_out(
        breakpoints, n_trajectories, breakpoints.time[:-1][same], gap_width, n_steps, None
    )


def _lay_out(
    breakpoints: Breakpoints,
    n_trajectories: int,
    gap_start: FloatArray,
    gap_width: FloatArray,
    n_steps: IntArray,
    profile: tuple[FloatArray, ...] | None,
) -> Grid:
    n_gaps = len(n_steps)
    gap = np.repeat(np.arange(n_gaps), n_steps)
    index = np.arange(len(gap)) - np.repeat(np.cumsum(n_steps) - n_steps, n_steps)
    share = index / n_steps[gap]  # where each step begins, as a share of the gap's steps
    if profile is not None:
        share = _invert(share, gap, n_steps, profile)
    begin = gap_start[gap] + share * gap_width[gap]
    end = np.append(begin[1:], 0.0)
    last_of_gap = np.cumsum(n_steps) - 1
    end[last_of_gap] = gap_start + gap_width
    # widths from shares, so that tiny steps at late times do not suffer from cancellation
    next_share = np.append(share[1:], 0.0)
    next_share[last_of_gap] = 1.0
    width = (next_share - share) * gap_width[gap]

    is_first = np.ones(len(breakpoints.trajectory), dtype=bool)
    is_first[1:] = breakpoints.trajectory[1:] != breakpoints.trajectory[:-1]
    steps_before = np.zeros(len(is_first), dtype=np.int64)
    steps_before[1:][~is_first[1:]] = n_steps
    running = np.cumsum(steps_before)
    first_of = running[is_first]
    point = running - np.repeat(
        first_of, np.diff(np.append(np.flatnonzero(is_first), len(running)))
    )
    step_start = np.zeros(n_trajectories + 1, dtype=np.int64)
    gap_trajectory = breakpoints.trajectory[~is_first]
    np.cumsum(
        np.bincount(gap_trajectory, weights=n_steps, minlength=n_trajectories).astype(np.int64),
        out=step_start[1:],
    )
    step_trajectory = gap_trajectory[gap]
    point_time = np.empty(len(gap) + n_trajectories)
    point_time[np.arange(len(gap)) + step_trajectory] = begin
    point_time[step_start[1:] + np.arange(n_trajectories)] = breakpoints.time[
        np.append(np.flatnonzero(is_first)[1:], len(is_first)) - 1
    ]
    return Grid(step_start, width, point_time, point, breakpoints.trajectory)


def _invert(
    share: FloatArray, gap: IntArray, n_steps: IntArray, profile: tuple[FloatArray, ...]
) -> FloatArray:
    """Places within each gap at which the cumulative density reaches the given shares."""
    length, base, decay, at_left, at_right, total = profile
    uneven = (at_left > 0) | (at_right > 0)
    chosen = np.flatnonzero(uneven[gap] & (share > 0))
    if not len(chosen):
        return share
    g = gap[chosen]
    args = (length[g], base[g], decay[g], at_left[g], at_right[g])
    placed = share.copy()
    placed[chosen] = place_steps(share[chosen] * total[g], *args) / length[g]
    return placed
