"""``asterism fit``, and the questions that odd panels raise."""

import json

import numpy as np
import pandas as pd
import pytest

import asterism as am
from tests.command_line import assert_refused, invoke

RATES = np.array([[0, 0.4, 0.1], [0.3, 0, 0.4], [0, 0, 0]])


@pytest.fixture(scope="module")
def panel(tmp_path_factory):
    """Well, ill, dead; nothing follows a death."""
    network = am.Network({"s": []}, {"s": RATES}, {"s": [1, 2, 3]}, initial={"s": [1, 0, 0]})
    paths = am.simulate(network, n_trajectories=80, duration=8.0, seed=1)
    frame = am.observe(paths, am.Exact(), n_observations=8, seed=2).to_frame()
    dead = frame["s"] == 3
    frame = frame[~(dead & dead.groupby(frame["trajectory"]).shift(fill_value=False))]
    frame["sex"] = frame["trajectory"].astype(int) % 2
    path = tmp_path_factory.mktemp("panel") / "visits.csv"
    frame.to_csv(path, index=False)
    return path


def test_deaths_that_come_back_are_pointed_out(panel, tmp_path):
    result = invoke("fit", panel, "--ignore", "sex", "-o", tmp_path / "RUN")
    assert result.exit_code == 0
    assert "--absorbing 3" in result.stderr
    told = invoke(
        *("fit", panel, "--ignore", "sex", "-o", tmp_path / "RUN2"),
        *("--absorbing", "3", "--exact-entry", "3"),
    )
    assert "never leaves" not in told.stderr
    rates = pd.read_csv(tmp_path / "RUN2" / "rates.csv")
    assert list(rates.columns[:7]) == [
        "node", "configuration", "from", "to", "rate", "lower", "upper",
    ]  # fmt: skip
    assert 3 not in set(rates["from"])
    assert (
        (tmp_path / "RUN2" / "report.html")
        .read_text(encoding="utf-8")
        .lower()
        .startswith("<!doctype")
    )


def test_an_order_that_is_never_reversed_is_pointed_out(tmp_path):
    rows = [(d, t, min(3, 1 + (t + d % 3) // 2)) for d in range(20) for t in range(5)]
    path = tmp_path / "stages.csv"
    pd.DataFrame(rows, columns=["patient", "time", "stage"]).to_csv(path, index=False)
    result = invoke("fit", path, "-o", tmp_path / "RUN")
    assert "--progressive" in result.stderr
    told = invoke("fit", path, "--progressive", "-o", tmp_path / "RUN2")
    assert "only ever moves forward" not in told.stderr
    rates = pd.read_csv(tmp_path / "RUN2" / "rates.csv")
    assert (rates["from"] < rates["to"]).all()


def test_a_code_is_asked_about(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for d in range(40):
        death, turn = rng.exponential(6.0), rng.exponential(3.0)
        for t in np.arange(0.0, 8.0):
            if t > death:
                rows.append((d, death, 999.0))
                break
            rows.append((d, t, (100.0 if t < turn else 60.0) + rng.normal(0, 5)))
    path = tmp_path / "lungs.csv"
    pd.DataFrame(rows, columns=["patient", "time", "fev"]).to_csv(path, index=False)
    result = invoke("fit", path, "-o", tmp_path / "RUN")
    assert "--state-code 999=STATE" in result.stderr
    told = invoke(
        *("fit", path, "-o", tmp_path / "RUN2", "--state-code", "999=dead"),
        *("--exact-entry", "dead", "--absorbing", "dead", "--json"),
    )
    assert told.exit_code == 0, told.stderr
    assert "999 in" not in told.stderr
    assert {r["to"] for r in json.loads(told.stdout)["rates"]} == {"low", "high", "dead"}


def test_covariates_and_constraints(panel, tmp_path):
    result = invoke(
        *("fit", panel, "--covariate", "sex", "--equal-effects", "sex", "--absorbing", "3"),
        *("--fix", "1>3=0.1", "-o", tmp_path / "RUN", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert len(summary["effects"]) == 1
    fixed = [r for r in summary["rates"] if (r["from"], r["to"]) == (1, 3)]
    assert fixed[0]["rate"] == pytest.approx(0.1)
    run = am.load(tmp_path / "RUN")
    assert run.tables["effects"]["covariate"].tolist() == ["sex"]


def test_patients_without_a_covariate_are_left_out_and_counted(panel, tmp_path):
    """Blank cells and codes for unknown, as in any clinical table; msm leaves such rows out too."""
    frame = pd.read_csv(panel)
    frame["age"] = 40.0 + frame["trajectory"] % 17
    frame["dose"] = frame["age"].where(frame["trajectory"] % 20 != 3, 999)
    frame.loc[frame["trajectory"] == 5, "age"] = np.nan
    later = frame["trajectory"].duplicated() & (frame["trajectory"] == 7)
    frame.loc[later, "age"] = np.nan  # known at the first visit, which counts on
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    complete = frame[~frame["trajectory"].isin([3, 23, 43, 63, 5])].ffill()
    complete.to_csv(tmp_path / "complete.csv", index=False)
    found = []
    for name in ("gaps", "complete"):
        result = invoke(
            *("fit", tmp_path / f"{name}.csv", "--ignore", "sex", "--absorbing", "3"),
            *("--covariate", "age", "--covariate", "dose", "--equal-effects", "age,dose"),
            *("--missing", "999", "-o", tmp_path / name, "--json"),
        )
        assert result.exit_code == 0, result.stderr
        found.append(json.loads(result.stdout))
    assert found[0]["log_likelihood"] == pytest.approx(found[1]["log_likelihood"], abs=1e-6)
    assert found[1]["warnings"] == []
    told = " ".join(found[0]["warnings"])
    assert "'age' has no value in 1 trajectory of 80 ('5')" in told
    assert "'dose' has no value in 4 trajectories of 80 ('3', '23', '43', '63')" in told
    empty = invoke("fit", tmp_path / "gaps.csv", "--covariate", "nothing", "-o", tmp_path / "A")
    assert_refused(empty, 3, "nothing")


@pytest.mark.smoke
def test_a_graph_is_fitted(tmp_path):
    network = am.random_network(n_nodes=3, n_states=2, max_parents=1, seed=0)
    paths = am.simulate(network, n_trajectories=20, duration=5.0, seed=0)
    am.observe(paths, am.Exact(), n_observations=10, seed=0).to_csv(tmp_path / "data.csv")
    edges = [(p, c) for c, above in network.parents.items() for p in above]
    pd.DataFrame(edges, columns=["parent", "child"]).to_csv(tmp_path / "edges.csv", index=False)
    result = invoke(
        "fit", tmp_path / "data.csv", "--edges", tmp_path / "edges.csv", "-o", tmp_path / "RUN"
    )
    assert result.exit_code in (0, 4), result.stderr
    rates = pd.read_csv(tmp_path / "RUN" / "rates.csv")
    ratios = pd.read_csv(tmp_path / "RUN" / "edge_ratios.csv", dtype=str)
    assert set(zip(ratios["parent"], ratios["child"])) == set(edges)
    assert "Hazard ratios of edges" in (tmp_path / "RUN" / "report.html").read_text("utf-8")
    named = rates["configuration"].dropna()
    assert named.str.contains("=").all()


def test_a_covariate_acts_on_one_node_of_a_graph(tmp_path):
    network = am.glauber({"A": [], "B": ["A"]}, a=1.0, b=0.5)
    paths = am.simulate(network, n_trajectories=20, duration=5.0, seed=0)
    frame = am.observe(paths, am.Exact(), n_observations=10, seed=0).to_frame()
    frame["drug"] = frame["trajectory"].astype(int) % 2
    frame.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "edges.csv").write_text("parent,child\nA,B\n")
    common = ("fit", tmp_path / "data.csv", "--edges", tmp_path / "edges.csv", "-o")
    result = invoke(*common, tmp_path / "RUN", "--covariate", "drug:B", "--equal-effects", "drug")
    assert result.exit_code in (0, 4), result.stderr
    effects = pd.read_csv(tmp_path / "RUN" / "effects.csv")
    assert list(effects["node"]) == ["B"]
    assert "Hazard ratio of drug on B -1>1, 1>-1" in result.stderr
    vague = invoke(*common, tmp_path / "RUN2", "--covariate", "drug:-1>1")
    assert vague.exit_code == 2
    assert "needs the name of a node" in vague.stderr


def test_what_fit_refuses(panel, tmp_path):
    assert_refused(invoke("fit", panel, "-o", tmp_path / "A"), 2, "--nodes", "--covariate")
    assert_refused(
        invoke("fit", panel, "--nodes", "s", "--covariate", "age", "-o", tmp_path / "A"), 3, "age"
    )
    assert_refused(
        invoke("fit", panel, "--nodes", "s", "--allowed", "1>9", "-q", "-o", tmp_path / "A"),
        3,
        "'9'",
    )
    assert_refused(
        invoke("fit", panel, "--nodes", "s", "--censored", "99", "-o", tmp_path / "A"),
        2,
        "99=1,2,3",
    )


def test_learn_takes_the_restrictions(panel, tmp_path):
    result = invoke(
        *("learn", panel, "--nodes", "s,sex", "--exogenous", "sex", "--absorbing", "s:3"),
        *("-o", tmp_path / "RUN", "--max-parents", "1", "--method", "star"),
    )
    assert result.exit_code in (0, 4), result.stderr
    table = am.load(tmp_path / "RUN").network.rates["s"]
    assert (np.asarray(table).reshape(-1, 3, 3)[:, 2] == 0).all()


def test_data_that_contradict_the_restrictions_are_named(panel, tmp_path):
    result = invoke("fit", panel, "--ignore", "sex", "--progressive", "-o", tmp_path / "RUN")
    assert_refused(result, 3, "goes from 2 to 1 in trajectory")
    assert "--progressive rules out (the order is 1 → 2 → 3; --order" in result.stderr
    learned = invoke(
        *("learn", panel, "--nodes", "s", "-o", tmp_path / "RUN", "--allowed", "1>2,2>3")
    )
    assert_refused(learned, 3, "which --allowed rules out")


def test_states_have_the_order_that_was_given(tmp_path):
    names = ["mild", "severe", "dead"]
    rows = [(d, t, names[min(2, (t + d % 3) // 2)]) for d in range(20) for t in range(5)]
    path = tmp_path / "stages.csv"
    pd.DataFrame(rows, columns=["patient", "time", "stage"]).to_csv(path, index=False)
    alphabetical = invoke("fit", path, "--progressive", "-o", tmp_path / "RUN")
    assert_refused(alphabetical, 3, "the order is dead → mild → severe")
    flags = ("--progressive", "--order", "mild,severe,dead")
    told = invoke("fit", path, *flags, "-o", tmp_path / "RUN")
    assert "in the order mild → severe → dead" in told.stderr
    rates = pd.read_csv(tmp_path / "RUN" / "rates.csv")
    assert list(rates["from"] + rates["to"]) == ["mildsevere", "milddead", "severedead"]
    short = invoke("fit", path, "--order", "mild,dead", "-o", tmp_path / "RUN2")
    assert_refused(short, 2, "must name every state of 'stage' once")


def test_check_asks_what_fit_and_learn_ask(panel):
    result = invoke("check", panel, "--nodes", "s")
    assert "--absorbing 3 keeps it there" in result.stdout


def test_a_rate_at_zero_is_said_as_zero(panel, tmp_path):
    result = invoke("fit", panel, "--ignore", "sex", "-o", tmp_path / "RUN", "--fix", "1>2=0.4")
    assert "s 1 → 2: 0.4 per unit of time; fixed." in result.stderr
    rates = [line for line in result.stderr.splitlines() if " → " in line]
    assert rates
    assert not any("e-" in line for line in rates), rates


def test_a_time_limit_ends_a_fit_with_the_best_so_far(panel, tmp_path):
    result = invoke(
        *("fit", panel, "--ignore", "sex", "--absorbing", "3", "-o", tmp_path / "RUN"),
        *("--minutes", "0.00004"),
    )
    assert result.exit_code == 4, result.output
    assert "time limit" in result.stderr
    assert (tmp_path / "RUN" / "rates.csv").exists()
