"""The sampler's sweep in numbers: long chains of tiny networks against exact inference.

Small enough to run with the compiler off; ``benchmarks/mutants.py`` asks it whether wrong code
would be noticed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.sampling._gibbs import (
    EVERYWHERE,
    KEEP_PRESENT,
    draw_statistics,
    impossible_measurement,
    new_work,
    run_paths,
)
from asterism.sampling.path_chains import path_model, start_chain
from asterism.sampling.path_posterior import solve
from asterism.timeline.evidence import JointMeasurement, Spans
from tests.reference.path_sampler import state_at, statistics_of
from tests.reference.random_evidence import make_evidence

NOISE = am.Gaussian((0.0, 1.0), 0.6)
PAIR = am.Network(
    {"A": ["B"], "B": ["A"]},
    {
        "A": [[[0.0, 0.6], [1.5, 0.0]], [[0.0, 1.8], [0.3, 0.0]]],
        "B": [[[0.0, 0.4], [2.0, 0.0]], [[0.0, 2.5], [0.5, 0.0]]],
    },
    {"A": [0, 1], "B": [0, 1]},
    {"A": [0.7, 0.3], "B": [0.4, 0.6]},
)
THREE = am.Network(
    {"C": []}, {"C": [[0.0, 1.0, 0.3], [0.2, 0.0, 1.4], [0.8, 0.1, 0.0]]}, {"C": [0, 1, 2]}
)


def measured() -> am.Observations:
    rows = pd.DataFrame(
        {"trajectory": 0, "time": [0.3, 0.9, 1.6], "A": [0.1, 0.8, np.nan], "B": [np.nan, 0.9, 0.2]}
    )
    return am.Observations.from_frame(rows, start=0.0, end=2.0)


def known() -> am.Observations:
    """A jump at a known time, and a stretch in which the state was watched."""
    rows = pd.DataFrame({"trajectory": 0, "time": [0.2, 1.7], "C": [0.2, 1.1]})
    events = pd.DataFrame({"trajectory": [0], "time": [0.8], "node": ["C"], "to": [2]})
    spans = {"trajectory": [0], "node": ["C"], "start": [1.2], "end": [1.5], "state": [1]}
    return am.Observations.from_frame(
        rows, start=0.0, end=2.0, events=events, intervals=pd.DataFrame(spans)
    )


def rarely() -> tuple[am.Network, am.Observations]:
    """The first measurement says 1, later ones 0; a jump is less likely than one odd measurement.

    A path with that jump says what each measurement says, and chains begin with one.
    """
    network = am.Network({"A": []}, {"A": [[0.0, 5e-5], [5e-5, 0.0]]}, {"A": [0, 1]})
    rows = pd.DataFrame({"trajectory": 0, "time": [0.3, 0.9, 1.6], "A": [3.4, -1.7, -1.7]})
    return network, am.Observations.from_frame(rows, start=0.0, end=2.0)


CASES: dict[str, tuple[am.Network, Any, Any]] = {
    "three states, a jump and a span": (THREE, known(), am.Gaussian((0.0, 1.0, 2.0), 0.7)),
    "a pair that follows each other": (PAIR, measured(), NOISE),
    "jumps that hardly ever happen": (*rarely(), NOISE),
}
TIMES = np.array([0.0, 0.3, 0.75, 0.85, 1.3, 1.6, 2.0])


@pytest.mark.parametrize("name", CASES)
def test_averages_over_draws_are_those_of_exact_inference(name: str) -> None:
    network, seen, noise = CASES[name]
    options = {"n_chains": 2, "n_draws": 750, "seed": 4, "n_jobs": 1}
    drawn = am.infer(network, seen, noise, method="sample", **options)
    exact = am.infer(network, seen, noise, method="exact")
    size = max(len(network.states[n]) for n in network.nodes)
    for node in network.nodes:
        one, other = (p.marginals(TIMES).sel(node=node).values[0, :, :size] for p in (drawn, exact))
        np.testing.assert_allclose(one, other, atol=0.06)
        for field in ("dwell_times", "transitions"):
            one, other = (np.asarray(getattr(p.statistics, field)[node]) for p in (drawn, exact))
            np.testing.assert_allclose(one, other, atol=0.1, rtol=0.1)
    if name.startswith("three"):
        paths = drawn.sample(50, seed=0)
        at = paths.state_at(np.array([0.8, 1.2, 1.35, 1.499]))[:, :, 0]
        assert (at == [2, 1, 1, 1]).all()


# ---- every kind of evidence at once ------------------------------------------------------------


def table(sizes: list[int], speed: float, shift: float) -> np.ndarray:
    """Rates that are all different, from .3 to 1.7 times ``speed``."""
    places = np.arange(np.prod(sizes)).reshape(sizes)
    return speed * (1.0 + 0.7 * np.sin(shift + 2.3 * places)) * (1.0 - np.eye(sizes[-1]))


def everything(speed: float = 1.0) -> tuple[am.Network, Any]:
    """Zero to three parents, a given node, points, jumps, spans, joint measurements, held nodes."""
    parents = {"A": ["B"], "B": ["A", "E"], "C": ["A", "B", "D"], "D": [], "E": []}
    sizes = dict(zip("ABCDE", (2, 3, 2, 2, 2)))
    rates = {
        n: table([*(sizes[p] for p in above), sizes[n], sizes[n]], speed, float(k))
        for k, (n, above) in enumerate(parents.items())
        if n != "E"
    }
    network = am.Network(
        parents, {**rates, "E": None}, {n: list(range(s)) for n, s in sizes.items()},
        {"A": [0.3, 0.7], "B": [0.2, 0.5, 0.3], "C": [0.6, 0.4], "D": [0.9, 0.1]},
    )  # fmt: skip
    never = -np.inf
    evidence = make_evidence(
        list(sizes.values()), [0.0, 1.0, -1.0], [3.0, 3.5, 0.5],
        points=[
            (0, 0, 0.7, [-0.3, -1.5]), (0, 1, 2.9, [-1.0, -0.2, -2.0]), (0, 2, 0.0, [-2.0, -0.1]),
            (1, 1, 1.0, [never, 0.0, never]), (1, 2, 2.2, [-0.5, -0.9]), (2, 3, 0.5, [-1.2, -0.1]),
        ],
        jumps=[(0, 1, 1.4, 2, 0), (0, 0, 2.0, 1, -1), (1, 1, 2.5, 0, -1)],
        spans=[
            (0, 1, 1.1, 1.4, 0), (0, 1, 1.4, 1.8, 2), (1, 2, 2.6, 3.0, 1),
            (0, 4, 0.0, 1.2, 0), (0, 4, 1.2, 3.0, 1), (1, 4, 1.0, 3.5, 1), (2, 4, -1.0, 0.5, 0),
        ],
        joint=[
            JointMeasurement(0, 1.0, (0, 2), np.array([[-0.2, -1.0], [-2.0, -0.4]])),
            JointMeasurement(2, 0.2, (1, 3), np.array([[-0.2, -1.0], [-0.1, -0.4], [-3.0, -1.0]])),
        ],
        exogenous=(4,),
    )  # fmt: skip
    held = [(0, 3, 0.4, 1.5, 1), (0, 3, 2.1, 3.0, 0), (1, 0, 1.0, 1.6, 0), (1, 0, 1.6, 2.4, 1),
            (2, 2, -0.6, 0.1, 1)]  # fmt: skip
    columns = [np.array(column) for column in zip(*held)]
    return network, replace(evidence, interventions=Spans(*columns))


def drawn_paths(record: Any, draw: int, trajectory: int, n_nodes: int) -> list[Any]:
    """(state at the start, [(time, state entered), …]) of every node."""
    paths = []
    for n in range(n_nodes):
        place = trajectory * n_nodes + n
        own = slice(record.start[draw, place], record.start[draw, place + 1])
        jumps = [(float(t), int(x)) for t, x in zip(record.time[own], record.state[own])]
        paths.append((int(record.initial[draw, place]), jumps))
    return paths


@pytest.mark.parametrize("speed", [1.0, 30.0])
def test_jumps_and_times_of_draws_are_counted_right(speed: float) -> None:
    """Against plain counting. The fast paths outgrow every array they are drawn into."""
    network, evidence = everything(speed)
    n_draws = 4 if speed == 1.0 else 1
    chains = draws_of(network, evidence, n_draws)
    model = path_model(
        network.compiled.graph, network.compiled.rates, network.compiled.initial, evidence
    )
    starts = model.layout.table_start
    for record in chains:
        assert np.all(np.diff(record.start.ravel()[: record.start.shape[1]]) >= 0)
        counted = draw_statistics(model, record, new_work(64, 3, 4, 0))
        for draw in range(len(record.initial)):
            wanted: dict[str, np.ndarray] = {}
            for d in range(3):
                paths = drawn_paths(record, draw, d, 5)
                for name, own in statistics_of(network, evidence, d, paths).items():
                    wanted[name] = wanted.get(name, 0.0) + own
            for n, name in enumerate(network.nodes):
                if name in wanted:
                    own = counted[draw, starts[n] : starts[n + 1]]
                    np.testing.assert_allclose(own, wanted[name].ravel(), atol=1e-10)


def draws_of(network: am.Network, evidence: Any, n_draws: int, n_jobs: int = 1) -> list[Any]:
    options: dict[str, Any] = {"n_chains": 2, "burn_in": 2, "seed": 5, "n_jobs": n_jobs}
    found = solve(network, evidence, n_draws=max(4, n_draws), **options)
    return [joined(blocks) for blocks in found.draws.blocks]


def joined(blocks: list[Any]) -> Any:
    """All kept draws of one chain, however many calls drew them."""
    first = blocks[0]
    starts = np.cumsum([0, *(len(b.time) for b in blocks[:-1])])
    fields = {
        f: np.concatenate([getattr(b, f) for b in blocks]) for f in ("initial", "time", "state")
    }
    start = np.concatenate([b.start + at for b, at in zip(blocks, starts)])
    return first._replace(**fields, start=start)


def summary(record: Any) -> list[float]:
    """Numbers that any other draw would change."""
    weight = np.sin(1.0 + np.arange(len(record.time)))
    return [
        float(len(record.time)), float(record.initial.sum()),
        float(weight @ record.time), float(weight @ record.state),
    ]  # fmt: skip


#: by speed, of both chains
DRAWN = {
    1.0: [
        [123.0, 33.0, 4.5336152422756735, 2.3016427437842983],
        [117.0, 33.0, 12.056742485585813, -4.819345863072481],
    ],
    30.0: [
        [2888.0, 30.0, 4.61367800467296, 16.881441129035455],
        [3138.0, 34.0, 2.3338881654137835, -8.612166391022967],
    ],
}


@pytest.mark.parametrize("speed", DRAWN)
def test_a_seed_gives_the_draws_that_it_always_gave(speed: float) -> None:
    """Whoever changes these on purpose changes what a seed means: say so in the changes."""
    found = draws_of(*everything(speed), 4)
    np.testing.assert_allclose([summary(r) for r in found], DRAWN[speed], rtol=1e-9)


def test_draws_honour_what_is_known() -> None:
    network, evidence = everything()
    for record in draws_of(network, evidence, 6):
        for draw in range(len(record.initial)):
            first, second, third = (drawn_paths(record, draw, d, 5) for d in range(3))
            assert (1.4, 2) in first[1][1]
            assert (2.0, 1) in first[0][1]
            assert second[1][0] == 1
            assert (2.5, 0) in second[1][1]
            assert second[0][0] == 0
            for path, begin, end, state in (
                (first[1], 1.1, 1.4, 0), (first[1], 1.4, 1.8, 2), (second[2], 2.6, 3.0, 1),
                (first[3], 0.4, 1.5, 1), (first[3], 2.1, 3.0, 0), (second[0], 1.6, 2.4, 1),
                (third[2], -0.6, 0.1, 1), (first[4], 0.0, 1.2, 0), (first[4], 1.2, 3.0, 1),
            ):  # fmt: skip
                assert state_at(path, begin) == state
                assert not [t for t, _ in path[1] if begin < t < end]


def test_what_cannot_be_is_named() -> None:
    """A joint measurement that the present paths contradict."""
    network, evidence = everything()
    compiled = network.compiled
    model = path_model(compiled.graph, compiled.rates, compiled.initial, evidence)
    chain = start_chain(model, 5, 0, evidence.labels, network.nodes)
    assert impossible_measurement(model, chain.paths) == -1
    for i, measured in enumerate(evidence.joint):
        record = run_paths(
            1, KEEP_PRESENT, EVERYWHERE, model, chain.paths, chain.work, chain.streams
        )[3]
        paths = drawn_paths(record, 0, measured.trajectory, 5)
        states = tuple(state_at(paths[n], measured.time) for n in measured.nodes)
        tables = [np.array(m.log_likelihood, dtype=float) for m in evidence.joint]
        tables[i][states] = -np.inf
        changed = [replace(m, log_likelihood=t) for m, t in zip(evidence.joint, tables)]
        other = path_model(
            compiled.graph,
            compiled.rates,
            compiled.initial,
            replace(evidence, joint=tuple(changed)),
        )
        assert impossible_measurement(other, chain.paths) == i
