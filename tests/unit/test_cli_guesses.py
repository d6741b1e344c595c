"""What the commands guess about a table: columns, emissions, and whether there is enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.commands.console import duration
from asterism.commands.emissions import choose_emissions, parse_emission
from asterism.commands.exits import Refused
from asterism.commands.input_table import TableOptions, guess_columns, read_table
from asterism.commands.learnable import Changes, make_learnable, summarise
from asterism.errors import DataError
from asterism.report.bundled_data import demo_files


def observations(**columns: Any) -> am.Observations:
    n = len(next(iter(columns.values())))
    return am.Observations.from_frame(pd.DataFrame({"time": np.arange(n) * 1.0, **columns}))


def test_nothing_is_asked_of_inputs_given_from_outside() -> None:
    rng = np.random.default_rng(0)
    data = observations(input=rng.integers(0, 2, 6), gene=np.repeat([0.0, 1.0], 3))
    assert "'input'" in summarise(data, 1)["warnings"][0]
    assert not any("'input'" in w for w in summarise(data, 1, exogenous=["input"])["warnings"])


# ---- columns --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "time", "trajectory", "kind"),
    [
        (["trajectory", "time", "A", "B"], "time", "trajectory", "wide"),
        (["Replicate", "Time (h)", "SWI5"], "Time (h)", "Replicate", "wide"),
        (["hours", "A"], "hours", None, "wide"),
        (["Patient ID", "age", "state"], "age", "Patient ID", "wide"),
        (["cell", "t", "gene", "value"], "t", "cell", "long"),
        (["trajectory", "time", "node", "p_0", "p_1"], "time", "trajectory", "long"),
        (["trajectory", "time", "node", "state"], "time", "trajectory", "paths"),
        (["time", "node", "state", "C"], "time", None, "wide"),
    ],
)
def test_columns_are_guessed(
    header: list[str], time: str, trajectory: str | None, kind: str
) -> None:
    found = guess_columns(header)
    assert (found.time, found.trajectory, found.kind) == (time, trajectory, kind)


def test_flags_overrule_the_guess() -> None:
    header = ["trajectory", "time", "t", "run"]
    assert guess_columns(header, time="t").time == "t"
    assert guess_columns(header, trajectory="run").trajectory == "run"
    # a node may be called like a column of another meaning
    assert guess_columns(header, nodes=["trajectory"]).trajectory == "run"
    with pytest.raises(DataError, match="names 'clock', which is not a column"):
        guess_columns(header, time="clock")
    with pytest.raises(DataError, match="looks like the time"):
        guess_columns(["A", "B"])


# ---- emissions ------------------------------------------------------------------------------


def test_emissions_are_guessed_from_the_values() -> None:
    rng = np.random.default_rng(0)
    data = observations(
        text=["on", "off"] * 30,
        coded=[0, 1, 2] * 20,
        level=rng.normal(size=60),
        constant=[1.0] * 60,
        notes=[f"note {i}" for i in range(60)],
    )
    choice = choose_emissions(data)
    assert {n: type(e).__name__ for n, e in choice.emission.items()} == {
        "text": "Exact",
        "coded": "Exact",
        "level": "Gaussian",
    }
    assert choice.emission["level"].learn
    assert choice.states == {"level": ["low", "high"]}
    said = "\n".join(choice.decisions)
    assert "never changes: 'constant'" in said
    assert "different texts: 'notes'" in said


def test_emissions_can_be_asked_for() -> None:
    data = observations(a=[0, 1] * 20, b=np.linspace(0, 1, 40))
    choice = choose_emissions(data, ["gaussian:-1,1:0.5", "a=categorical"])
    assert choice.emission["b"] == am.Gaussian((-1, 1), 0.5)
    assert isinstance(choice.emission["a"], am.Categorical)
    assert choice.emission["a"].learn
    three = choose_emissions(data, ["gaussian"], n_states=3)
    assert three.states["b"] == ["low", "mid", "high"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gaussian:-1,1:0.2", am.Gaussian((-1, 1), 0.2)),
        ("Gaussian:-1,1:0.2:learn", am.Gaussian((-1, 1), 0.2, learn=True)),
        ("gaussian:0,1,2:0.1,0.2,0.3", am.Gaussian((0, 1, 2), (0.1, 0.2, 0.3))),
        ("poisson:1,10", am.Poisson((1, 10))),
        ("categorical:0.2", am.Categorical([[0.8, 0.2], [0.2, 0.8]])),
        ("threshold", am.Threshold()),
        ("threshold:3:0.5", am.Threshold(3.0, 0.5)),
        ("exact", am.Exact()),
        ("likelihood", am.Likelihood()),
    ],
)
def test_emissions_in_words(text: str, expected: Any) -> None:
    assert parse_emission(text, 2) == expected


@pytest.mark.parametrize("text", ["gauss", "gaussian:x:1", "exact:1", "categorical:2", ""])
def test_unknown_emissions_are_refused(text: str) -> None:
    with pytest.raises(Refused, match="--emission"):
        parse_emission(text, 2)


def test_emission_for_an_unknown_node_is_refused() -> None:
    with pytest.raises(Refused, match=r"'z'.*the nodes are 'a'"):
        choose_emissions(observations(a=[0.1, 0.5, 0.9]), ["z=exact"])
    with pytest.raises(Refused, match="holds text"):
        choose_emissions(observations(a=["u", "v", "u"]), ["gaussian"])


def test_values_that_are_states_of_the_network_are_states() -> None:
    data = observations(a=[-1.0, 1.0, 1.0], b=[0.3, 0.1, 0.9])
    choice = choose_emissions(data, known_states={"a": (-1, 1), "b": (-1, 1)})
    assert isinstance(choice.emission["a"], am.Exact)
    # for inference the open parameters are filled in, from the values
    means = choice.emission["b"].means
    assert len(means) == 2
    assert 0.1 <= means[0] < means[1] <= 0.9


# ---- what is said about data ----------------------------------------------------------------


def test_expected_transitions_per_gap() -> None:
    """Of a symmetric two-state chain, ½(1 − e^(−2rg)) of the gaps have different ends."""
    for rate in (0.01, 0.5, 1.2):
        share = 0.5 * (1.0 - np.exp(-2.0 * rate))
        found = Changes(1_000_000, round(share * 1_000_000), 2).per_gap
        assert found == pytest.approx(rate, rel=1e-3)
    assert Changes(10, 5, 2).per_gap == np.inf
    assert Changes(10, 0, 3).per_gap == 0.0


def test_fast_changes_and_few_points_are_warned_of() -> None:
    rng = np.random.default_rng(1)
    slow = np.repeat([0.0, 1.0, 0.0, 1.0], 25) + rng.normal(0, 0.05, 100)
    fast = rng.integers(0, 2, 100) + rng.normal(0, 0.05, 100)
    warned = summarise(observations(slow=slow, fast=fast), 2)["warnings"]
    assert any("The values of 'fast' look almost random" in text for text in warned)
    assert not any("'slow'" in text for text in warned)
    few = summarise(observations(a=slow[:20], b=slow[:20], c=slow[:20]), 2)["warnings"]
    assert any("few measurements for 2 parents: 'a' has 20" in text for text in few)
    # two nodes have one other each, whatever is allowed
    assert not any(
        "few measurements" in t
        for t in summarise(observations(a=slow[:20], b=slow[:20]), 2)["warnings"]
    )
    assert not any(
        "few measurements" in t for t in summarise(observations(a=slow, b=slow), 2)["warnings"]
    )
    # three states of a node and four of its only parent: 3 · 2 · 4 rates
    known = summarise(observations(a=slow, b=slow), 2, n_states={"a": 3, "b": 4})["warnings"]
    assert any("'b' has 100, and with that many parents 36 rates" in text for text in known)


def test_summary_of_the_demonstration() -> None:
    with demo_files() as files:
        table = read_table(TableOptions(files.data))
        truth = pd.read_csv(files.truth)
    assert isinstance(table.data, am.Observations)
    summary = summarise(table.data, 2)
    assert summary["n_nodes"] == 8
    assert summary["n_trajectories"] == 12
    share = np.mean([node["missing"] for node in summary["nodes"]])
    assert 0.15 < share < 0.25
    assert set(truth["parent"]) | set(truth["child"]) == set(table.data.nodes)


def test_durations_are_short() -> None:
    assert [duration(s) for s in (3.2, 89, 150, 7500)] == ["3 s", "89 s", "2 min", "2 h 5 min"]


def test_counts_get_the_noise_that_fits_them() -> None:
    """Two levels, not one more for the wider noise of the upper one."""
    rng = np.random.default_rng(1)
    upper = np.repeat(rng.random(60) < 0.5, 4)
    frame = pd.DataFrame(
        {
            "trajectory": np.repeat(np.arange(12), 20),
            "time": np.tile(np.arange(20.0), 12),
            "reads": rng.poisson(np.where(upper, 40.0, 4.0)),
            "rounded": np.round(100.0 + 60.0 * upper + rng.normal(0.0, 3.0, 240)),
        }
    )
    choice = choose_emissions(am.Observations.from_frame(frame))
    assert isinstance(choice.emission["reads"], am.Poisson)
    assert isinstance(choice.emission["rounded"], am.Gaussian)
    assert [choice.levels[n]["levels"] for n in ("reads", "rounded")] == [2, 2]
    assert any(line.startswith("Counts are read as noisy levels") for line in choice.decisions)
    asked = choose_emissions(am.Observations.from_frame(frame), ["reads=gaussian"])
    assert isinstance(asked.emission["reads"], am.Gaussian)


def test_a_node_that_trajectories_keep_is_learned_where_asked(tmp_path: Path) -> None:
    rows = [
        (patient, visit, ["1995-1998", "1999-2002"][patient % 2], int(visit > patient % 4))
        for patient in range(8)
        for visit in range(6)
    ]
    frame = pd.DataFrame(rows, columns=["patient", "time", "year", "pain"])
    frame.to_csv(tmp_path / "year.csv", index=False)
    table = read_table(TableOptions(data=tmp_path / "year.csv"))
    found = make_learnable(table)
    assert found.outside == ["year"]
    (said,) = (text for text in found.decisions if "'year'" in text and "outside" in text)
    assert "--emission NODE=exact" in said  # the flag that undoes it, which is tried here
    assert make_learnable(table, ("year=exact",)).outside == []
