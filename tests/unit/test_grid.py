"""Time grids: every known moment is a point, the unit of time does not matter, refining nests."""

from __future__ import annotations

import numpy as np
import pytest

from asterism.engine.grid import Grid, build_even_grid, build_grid
from asterism.errors import TooLargeError
from asterism.timeline.evidence import Evidence
from asterism.timeline.timeline import timeline_of
from tests.reference.random_evidence import make_evidence, random_evidence, random_network


def some_evidence() -> Evidence:
    rng = np.random.default_rng(1)
    return random_evidence(rng, random_network(rng, [2, 3, 2]), n_trajectories=4)


def known_moments(evidence: Evidence, d: int) -> set[float]:
    e = evidence
    times = {float(e.start[d]), float(e.end[d])}
    times |= set(e.points.time[e.points.trajectory == d].tolist())
    times |= set(e.jumps.time[e.jumps.trajectory == d].tolist())
    times |= set(e.spans.start[e.spans.trajectory == d].tolist())
    times |= set(e.spans.end[e.spans.trajectory == d].tolist())
    return times | {m.time for m in e.joint if m.trajectory == d}


def grids(evidence: Evidence) -> list[Grid]:
    places = timeline_of(evidence)
    return [build_grid(places, 2.0, 0.3), build_even_grid(places, 0.11)]


def test_every_known_moment_is_a_grid_point() -> None:
    evidence = some_evidence()
    places = timeline_of(evidence)
    for grid in grids(evidence):
        for d in range(evidence.n_trajectories):
            times = grid.times(d)
            assert known_moments(evidence, d) <= set(times.tolist())
            assert np.all(np.diff(times) > 0)
            first, last = grid.step_start[d], grid.step_start[d + 1]
            np.testing.assert_allclose(grid.width[first:last], np.diff(times), atol=1e-12)
            np.testing.assert_allclose(grid.width[first:last].sum(), times[-1] - times[0])
            mine = places.trajectory == d
            np.testing.assert_array_equal(times[grid.point_of_event[mine]], places.time[mine])


def test_equal_steps_are_no_longer_than_asked() -> None:
    evidence = make_evidence([2], [0.0], [1.0], [(0, 0, 0.3, [0.0, -1.0])])
    grid = build_even_grid(timeline_of(evidence), 0.1)
    np.testing.assert_allclose(grid.width, 0.1)  # 0.3/0.1 and 0.7/0.1 must not round up
    assert len(build_even_grid(timeline_of(evidence), 5.0).width) == 2


@pytest.mark.parametrize("unit", [1e-6, 1 / 60, 3600.0, 1e9])
def test_the_unit_of_time_does_not_matter(unit: float) -> None:
    def build(c: float) -> Grid:
        points = [(0, 0, 0.3 * c, [0.0, -1.0]), (0, 0, 70.0 * c, [0.0, -np.inf])]
        places = timeline_of(make_evidence([2], [0.0], [80.0 * c], points))
        return build_grid(places, 2.0 / c, 0.8)

    one, other = build(1.0), build(unit)
    np.testing.assert_allclose(other.width / unit, one.width, rtol=1e-9)


def test_refining_cuts_every_step_into_as_many() -> None:
    evidence = some_evidence()
    places = timeline_of(evidence)
    coarse = build_grid(places, 2.0, 0.8)
    factors = np.array([1, 2, 4, 8])
    fine = build_grid(places, 2.0, 0.8, factors)
    for d, factor in enumerate(factors):
        np.testing.assert_allclose(fine.times(d)[::factor], coarse.times(d), atol=1e-12)


def test_steps_are_denser_next_to_noiseless_evidence() -> None:
    noiseless = make_evidence([2], [0.0], [6.0], [(0, 0, 0.0, [0.0, -np.inf])])
    widths = build_grid(timeline_of(noiseless), 1.0, 0.4).width
    assert widths[0] < 0.5 * widths[-1]
    assert np.all(np.diff(widths) > 0)


def test_a_very_long_gap_costs_few_steps() -> None:
    evidence = make_evidence([2], [0.0], [1e7], [(0, 0, 0.0, [0.0, -1.0])])
    grid = build_grid(timeline_of(evidence), 1.0, 0.8)
    assert len(grid.width) < 200
    assert grid.width.sum() == pytest.approx(1e7, rel=1e-12)
    assert grid.width[0] < 1.0


def test_nothing_coupled_needs_one_step_per_gap() -> None:
    points = [(0, 0, t, [0.0, -1.0]) for t in (0.5, 2.0)]
    places = timeline_of(make_evidence([2], [0.0], [3.0], points))
    np.testing.assert_allclose(build_grid(places, 0.0, 0.8, 4).width, [0.5, 1.5, 1.0])


def test_selecting_trajectories_keeps_their_steps() -> None:
    evidence = some_evidence()
    grid = grids(evidence)[0]
    part = grid.select(np.array([1, 3]))
    for new, old in enumerate([1, 3]):
        np.testing.assert_array_equal(part.times(new), grid.times(old))
        mine = part.point_of_event[part.event_trajectory == new]
        theirs = grid.point_of_event[grid.event_trajectory == old]
        np.testing.assert_array_equal(mine, theirs)


def test_start_equal_to_end_has_no_steps() -> None:
    evidence = make_evidence([2], [1.0, 0.0], [1.0, 2.0], [(0, 0, 1.0, [0.0, -1.0])])
    grid = build_grid(timeline_of(evidence), 1.0, 0.8)
    assert grid.step_start[1] == 0
    assert grid.times(0).tolist() == [1.0]
    assert grid.times(1)[-1] == 2.0


def test_absurdly_many_steps_are_refused_with_their_number() -> None:
    places = timeline_of(make_evidence([2], [0.0], [80.0], []))
    with pytest.raises(TooLargeError, match=r"8e\+13 time steps .* a larger time_step"):
        build_even_grid(places, 1e-12)
