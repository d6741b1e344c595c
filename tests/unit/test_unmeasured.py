"""Edges that one unmeasured cause explains as well carry a caveat; true loops do not."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.learning.unmeasured import tied_groups
from tests.command_line import invoke

NOISE = am.Gaussian((0.0, 1.0), 0.25)


def driven(parents: dict[str, list[str]], seen: str, seed: int) -> am.Observations:
    """Each node follows the mean of its parents, strongly."""
    rates = {}
    for node, above in parents.items():
        table = np.zeros((*(2,) * len(above), 2, 2))
        for place in np.ndindex(*(2,) * len(above)):
            pull = 6.0 ** (2.0 * np.mean(place) - 1.0) if above else 1.0
            up, down = 0.5 * pull, 0.5 / pull
            table[place] = [[-up, up], [down, -down]]
        rates[node] = table
    paths = am.simulate(am.Network(parents, rates), 24, duration=10.0, seed=seed)
    return am.observe(paths, NOISE, 16, seed=seed + 50).select(nodes=list(seen))


def learned(seen: am.Observations) -> am.StructureLearner:
    return am.StructureLearner(NOISE, 2, method="star").fit(seen)


def test_groups_are_components_dense_parts_and_pairs() -> None:
    small = networkx.DiGraph([("A", "B"), ("B", "C"), ("E", "F"), ("F", "E"), ("G", "H")])
    assert tied_groups(small) == [("A", "B", "C"), ("E", "F")]
    long = networkx.DiGraph([(a, b) for a, b in zip("ABCDEFG", "BCDEFGH")] + [("C", "A")])
    groups = tied_groups(long)
    assert ("A", "B", "C") in groups
    assert all(2 < len(group) <= 5 for group in groups)


def test_a_hidden_cause_is_named_and_changes_no_probability(tmp_path: Path) -> None:
    seen = driven({"H": [], "A": ["H"], "B": ["H"], "C": ["H"], "D": ["H"]}, "ABCD", 0)
    learner = learned(seen)
    before = learner.edges_["probability"].copy()
    causes = learner.unmeasured_causes(seen)
    assert [cause.nodes for cause in causes] == [("A", "B", "C", "D")]
    assert causes[0].gain > 3.0
    edges = learner.edges_
    assert (edges.loc[edges["in_graph"], "caveat"] == "could be one unmeasured cause").all()
    assert (edges.loc[~edges["in_graph"], "caveat"] == "").all()
    pd.testing.assert_series_equal(edges["probability"], before)
    seen.to_frame().to_csv(tmp_path / "data.csv", index=False)
    flags = ("--method", "star", "--emission", "gaussian:0,1:0.25", "-o", tmp_path / "RUN")
    result = invoke("learn", tmp_path / "data.csv", *flags)
    assert "ne unmeasured cause explains A, B, C, D better" in result.output
    assert "unmeasured cause" in (tmp_path / "RUN" / "edges.csv").read_text()
    assert "unmeasured cause" in (tmp_path / "RUN" / "report.html").read_text()


@pytest.mark.parametrize(
    "parents",
    [
        {"A": ["C"], "B": ["A"], "C": ["B"]},
        {"A": [], "B": ["A"], "C": ["B"], "D": ["C"]},
    ],
    ids=["loop", "chain"],
)
def test_true_loops_and_chains_carry_no_caveat(parents: dict[str, list[str]]) -> None:
    seen = driven(parents, "".join(parents), 2)
    learner = learned(seen)
    causes = learner.unmeasured_causes(seen)
    assert causes
    assert all(cause.gain < -3.0 for cause in causes)
    assert (learner.edges_["caveat"] == "").all()


def test_labels_seen_without_error_are_compared_too() -> None:
    parents: dict[str, list[str]] = {"A": [], "B": ["A"], "C": ["B"]}
    paths = am.simulate(am.glauber(parents, b=1.5), 40, duration=10.0, seed=3)
    seen = am.observe(paths, am.Exact(), 12, seed=4)
    learner = am.StructureLearner({n: am.Exact() for n in parents}, 1, method="star").fit(seen)
    assert [cause.nodes for cause in learner.unmeasured_causes(seen)] == [("A", "B", "C")]
