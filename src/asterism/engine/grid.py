"""Time grids: where the steps of each trajectory lie.

Every time at which something is known (start, end, measurements, jumps, ends of spans) is a
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

from asterism.engine._grid_steps import LEAST_STEPS, SHARP_DENSITY, lay_out
from asterism.numerics.arrays import offsets
from asterism.numerics.resources import require_memory
from asterism.timeline.evidence import Evidence, FloatArray, IntArray
from asterism.timeline.timeline import Timeline

_LONGEST_SMOOTH = 2.0  # relaxation times; the posterior is not smooth on longer steps


@dataclass(frozen=True)
class Grid:
    """Steps of all trajectories, one after the other."""

    step_start: IntArray
    """(D+1,) first step of each trajectory."""
    width: FloatArray
    point_time: FloatArray
    """Times of the grid points; trajectory d's begin at ``step_start[d] + d``."""
    point_of_event: IntArray
    """Grid point, counted within its trajectory, of each event time."""
    event_trajectory: IntArray
    longest_smooth: float
    """Up to this length steps may be corrected to fourth order; zero: none are."""

    def select(self, trajectories: IntArray) -> Grid:
        """The steps of some of the trajectories (ascending)."""
        steps = np.diff(self.step_start)[trajectories]
        step_start = offsets(steps)
        take = np.repeat(self.step_start[trajectories] - step_start[:-1], steps)
        n_points = steps + 1
        point_start = np.cumsum(n_points) - n_points
        take_points = np.repeat(
            self.step_start[trajectories] + trajectories - point_start, n_points
        )
        mine = np.isin(self.event_trajectory, trajectories)
        return Grid(
            step_start,
            self.width[take + np.arange(len(take))],
            self.point_time[take_points + np.arange(len(take_points))],
            self.point_of_event[mine],
            np.searchsorted(trajectories, self.event_trajectory[mine]),
            self.longest_smooth,
        )

    def is_event_time(self, trajectory: int) -> NDArray[np.bool_]:
        """At which grid points of one trajectory something is known."""
        found = np.zeros(int(np.diff(self.step_start)[trajectory]) + 1, dtype=np.bool_)
        found[self.point_of_event[self.event_trajectory == trajectory]] = True
        return found

    def locate(self, trajectory: int, times: FloatArray) -> tuple[IntArray, FloatArray]:
        """The step of each time (at the end: their number), and the time since its beginning."""
        points = self.times(trajectory)
        width = self.width[self.step_start[trajectory] : self.step_start[trajectory + 1]]
        step = np.searchsorted(points, times, side="right") - 1
        inside = np.zeros(len(times))
        within = step < len(width)
        inside[within] = np.clip(times[within] - points[step[within]], 0.0, width[step[within]])
        return step.astype(np.int64), inside

    def times(self, trajectory: int) -> FloatArray:
        """Grid points of one trajectory."""
        first = int(self.step_start[trajectory]) + trajectory
        last = int(self.step_start[trajectory + 1]) + trajectory
        return self.point_time[first : last + 1]


def most_steps(
    evidence: Evidence, relaxation_rate: float, step: float, time_step: float | None
) -> float:
    """Upper bound on the number of grid steps. Cheap, often far too high."""
    duration = float((evidence.end - evidence.start).sum())
    n_moments = 2 * evidence.n_trajectories + len(evidence.points.time) + len(evidence.joint)
    n_moments += len(evidence.jumps.time) + 2 * len(evidence.spans.start)
    n_moments += 2 * len(evidence.interventions.start)
    n_moments *= LEAST_STEPS
    if time_step is not None:
        return duration / time_step + n_moments
    # next to decisive evidence on both sides the density is higher, for a relaxation time
    in_relaxation_times = duration * relaxation_rate + 2.0 * SHARP_DENSITY * n_moments
    return in_relaxation_times / step + n_moments


def make_grid(
    timeline: Timeline,
    relaxation_rate: float,
    step: float,
    factors: IntArray | int = 1,
    time_step: float | None = None,
    *,
    is_corrected: bool = False,
) -> Grid:
    """Equal steps where ``time_step`` says so, else those of :func:`build_grid`."""
    if time_step is not None:
        return build_even_grid(timeline, time_step, relaxation_rate if is_corrected else 0.0)
    return build_grid(timeline, relaxation_rate, step, factors, is_corrected=is_corrected)


def build_grid(
    timeline: Timeline,
    relaxation_rate: float,
    step: float,
    refinement: IntArray | int = 1,
    *,
    is_corrected: bool = False,
) -> Grid:
    """Cut the gaps. ``step`` is in relaxation times, before each step is cut ``refinement`` times.

    ``relaxation_rate`` zero means that nothing couples: one step per gap is exact then. With
    ``is_corrected`` smooth steps are of fourth order (see ``star/_stretches.py``).
    """
    factors = np.empty(timeline.n_trajectories, dtype=np.int64)
    factors[:] = refinement
    return _lay_out(timeline, factors, relaxation_rate, step, is_corrected, is_even=False)


def build_even_grid(
    timeline: Timeline,
    time_step: float,
    relaxation_rate: float = 0.0,
) -> Grid:
    """Equal steps of at most ``time_step`` (in the user's unit) in every gap.

    If ``relaxation_rate`` is given, smooth steps are of fourth order.
    """
    last, first = timeline.time[1:], timeline.time[:-1]
    lasting = float((last - first)[timeline.trajectory[1:] == timeline.trajectory[:-1]].sum())
    require_memory(
        24.0 * lasting / time_step, f"{lasting / time_step:.2g} time steps", "a larger time_step"
    )
    factors = np.ones(timeline.n_trajectories, dtype=np.int64)
    return _lay_out(timeline, factors, relaxation_rate, time_step, True, is_even=True)


def _lay_out(
    timeline: Timeline,
    factors: IntArray,
    rate: float,
    step: float,
    is_corrected: bool,
    *,
    is_even: bool,
) -> Grid:
    is_corrected = is_corrected and rate > 0.0
    trajectory = timeline.trajectory
    step_start, width, point_time, point = lay_out(
        trajectory,
        timeline.time,
        timeline.sharpness,
        factors,
        float(rate),
        float(step),
        is_even,
        LEAST_STEPS if is_corrected else 1,
    )
    longest_smooth = _LONGEST_SMOOTH / rate if is_corrected else 0.0
    return Grid(step_start, width, point_time, point, trajectory, longest_smooth)
