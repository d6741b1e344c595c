"""Nodes that move together without an edge between them are noticed; others are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.learning.search.rate_factors import sentences
from asterism.learning.search.residuals import TOGETHER, MoveTogether
from asterism.learning.search.sample_errors import DRIFT, OddErrors
from asterism.learning.search.sample_errors import TOGETHER as TOGETHER_IN_SAMPLES

NOISE = am.Gaussian((0.0, 1.0), 0.2)


def measured(cause: bool, n_trajectories: int = 20) -> am.Observations:
    """A and B, which follow something that nobody measured if there is a ``cause``, and C."""
    rng = np.random.default_rng(4)
    rows = []
    for d in range(n_trajectories):
        state, hidden = rng.integers(0, 2, 3), rng.integers(0, 2)
        for t in np.arange(0.0, 10.0, 0.1):
            if rng.random() < 0.04:
                hidden = 1 - hidden
            pull = 5.0 ** np.array([2 * hidden - 1, 2 * hidden - 1, 0]) if cause else np.ones(3)
            rate = 0.6 * np.where(state == 0, pull, 1.0 / pull)
            state = np.where(rng.random(3) < 1.0 - np.exp(-0.1 * rate), 1 - state, state)
            if round(10 * t) % 5 == 0:
                rows.append((d, t, *(state + rng.normal(0.0, 0.2, 3))))
    return am.Observations.from_frame(pd.DataFrame(rows, columns=["trajectory", "time", *"ABC"]))


def learned(seen: am.Observations, **more: object) -> am.StructureLearner:
    return am.StructureLearner(
        NOISE,
        1,
        method="sample",
        structure_prior=am.StructurePrior(forbidden=[("A", "B"), ("B", "A")]),
        sampling=am.Sampling(chains=2, max_draws=150),
        n_jobs=1,
        **more,  # type: ignore[arg-type]
    ).fit(seen)


@pytest.mark.parametrize("cause", [True, False])
def test_a_common_cause_is_noticed_where_no_edge_may_stand_for_it(cause: bool) -> None:
    learner = learned(measured(cause))
    pairs = [one for one in learner.checks_ if isinstance(one, MoveTogether)]
    assert [one.node for one in pairs if one.is_likely] == ["A and B"] * cause
    assert [TOGETHER in told.lower() for told in sentences(learner.checks_)] == [True] * cause
    if cause:
        assert pairs[0].way == "high"
        assert pairs[0].correlation > 0.2
    shown = learner.edges_[learner.edges_["in_graph"]]
    assert (shown["caveat"] != "").all() if cause else (shown["caveat"] == "").all()
    assert learner.checks_left_out_ == ""


def test_what_was_not_looked_at_is_said() -> None:
    seen = measured(False)
    star = am.StructureLearner(NOISE, 1, method="star", n_jobs=1).fit(seen)
    assert "no graphs were drawn" in star.checks_left_out_
    assert star.checks_ == []
    own = learned(seen[:9], prior=am.GammaPrior(2.0, 2.0))
    assert "the prior of rates was given" in own.checks_left_out_
    few = learned(seen[:5])
    assert "at least 8 trajectories" in few.checks_left_out_
    assert not any(isinstance(one, MoveTogether) for one in few.checks_)


def two_levels(oddity: str) -> am.Observations:
    """A and B jump between 0 and 1, with noise of .2; ``oddity`` says what A's values also have."""
    rng = np.random.default_rng(8)
    rows = []
    for d in range(16):
        state, shift = rng.integers(0, 2, 2), rng.normal(0.0, 0.5)
        for t in np.arange(0.0, 10.0, 0.5):
            state = np.where(rng.random(2) < 0.2, 1 - state, state)
            noise = rng.normal(0.0, 0.2, 2)
            if oddity == "outliers":
                noise[0] = 0.2 * rng.standard_t(2)
            if oddity == "shifted trajectories":
                noise[0] += shift
            rows.append((d, t, *(state + noise)))
    return am.Observations.from_frame(pd.DataFrame(rows, columns=["trajectory", "time", *"AB"]))


@pytest.mark.parametrize("oddity", ["outliers", "shifted trajectories", ""])
@pytest.mark.parametrize("emission", [NOISE, am.Gaussian(levels=2, learn=True)])
def test_what_a_given_emission_cannot_describe_is_named(oddity: str, emission: am.Gaussian) -> None:
    learner = am.StructureLearner(emission, 1, method="star", n_jobs=1).fit(two_levels(oddity))
    assert [(one.what, one.node) for one in learner.checks_] == ([(oddity, "A")] if oddity else [])
    option = {"outliers": "--emission t", "shifted trajectories": "--offset", "": ""}[oddity]
    assert all(option in told for told in sentences(learner.checks_))
    if oddity:
        assert learner.checks_[0].gain > 3.0


def test_edges_into_shifted_nodes_say_so() -> None:
    required = am.StructurePrior(required=[("B", "A"), ("A", "B")])
    learner = am.StructureLearner(NOISE, 1, method="star", structure_prior=required, n_jobs=1)
    edges = learner.fit(two_levels("shifted trajectories")).edges_.set_index("child")
    assert edges["caveat"].to_dict() == {"A": "could be shifted trajectories", "B": ""}


def test_what_the_evidence_chose_is_not_looked_at_again() -> None:
    for oddity in ("outliers", "shifted trajectories"):
        assert am.StructureLearner(method="star", n_jobs=1).fit(two_levels(oddity)).checks_ == []
    given = am.StudentT((0.0, 1.0), 0.2, df=2.0)
    learner = am.StructureLearner(given, 1, method="star", n_jobs=1).fit(two_levels("outliers"))
    assert learner.checks_ == []


def spoilt(kind: str) -> am.Observations:
    """Two levels, with errors that all nodes of a sample share, or that grow with the time."""
    frame = two_levels("").to_frame()
    rng = np.random.default_rng(1)
    if kind == TOGETHER_IN_SAMPLES:
        frame[["A", "B"]] += rng.normal(0.0, 0.15, (len(frame), 1))
    if kind == DRIFT:
        frame["A"] += 0.025 * frame["time"]
    return am.Observations.from_frame(frame)


@pytest.mark.parametrize("kind", [TOGETHER_IN_SAMPLES, DRIFT, ""])
@pytest.mark.parametrize("emission", [NOISE, "auto"])
def test_errors_that_are_not_independent_are_named(kind: str, emission: am.Gaussian | str) -> None:
    required = am.StructurePrior(required=[("B", "A")])
    learner = am.StructureLearner(
        emission, 1, method="star", structure_prior=required, n_jobs=1
    ).fit(spoilt(kind))
    found = [one for one in learner.checks_ if isinstance(one, OddErrors)]
    nodes = {TOGETHER_IN_SAMPLES: ["A and B"], DRIFT: ["A"], "": []}[kind]
    assert [(one.what, one.node) for one in found] == [(kind, own) for own in nodes]
    told = sentences(found)
    word = {TOGETHER_IN_SAMPLES: "samples differ", DRIFT: "subtract it", "": ""}[kind]
    assert [word in one for one in told] == [True] * len(nodes)
    assert (learner.edges_.set_index("child")["caveat"]["A"] != "") == bool(kind)


def test_levels_that_overlap_say_nothing_about_errors() -> None:
    blurred = am.Gaussian((0.0, 1.0), 0.6)
    learner = am.StructureLearner(blurred, 1, method="star", n_jobs=1).fit(spoilt(DRIFT))
    assert not any(isinstance(one, OddErrors) for one in learner.checks_)
