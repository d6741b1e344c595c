"""States that are never left: death is final unless said otherwise, and exact entries need it."""

import json

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.data.problems import DataWarning
from asterism.results.edge_effects import effect
from tests.command_line import assert_refused, invoke

EXITS = {"well": {"ill": 0.4, "dead": 0.1}, "ill": {"well": 0.3, "dead": 0.4}}
LIMIT = 5.0


@pytest.fixture(scope="module")
def paths():
    """Every transition of 150 patients: id, years, state, sex; death ends a patient's rows."""
    rng = np.random.default_rng(0)
    rows = []
    for patient in range(150):
        time, state, sex = 0.0, "well", "mf"[patient % 2]
        rows.append((patient, time, state, sex))
        while state != "dead":
            exits = EXITS[state]
            time += rng.exponential(1.0 / sum(exits.values()))
            if time > LIMIT:
                rows.append((patient, LIMIT, state, sex))
                break
            state = rng.choice(list(exits), p=np.array([*exits.values()]) / sum(exits.values()))
            rows.append((patient, time, state, sex))
    return pd.DataFrame(rows, columns=["id", "years", "state", "sex"])


@pytest.fixture
def table(paths, tmp_path):
    path = tmp_path / "all.csv"
    paths.to_csv(path, index=False)
    return path


def counted(paths):
    """Transitions and times at risk, by hand."""
    n, spent = {}, {}
    for _, rows in paths.groupby("id"):
        for (t0, x), (t1, y) in zip(
            rows[["years", "state"]].to_numpy()[:-1], rows[["years", "state"]].to_numpy()[1:]
        ):
            spent[x] = spent.get(x, 0.0) + t1 - t0
            if x != y:
                n[x, y] = n.get((x, y), 0) + 1
    return n, spent


def test_exact_entry_of_a_state_that_is_left_is_refused(table, tmp_path):
    flags = [f for s in ("well", "ill", "dead") for f in ("--exact-entry", s)]
    result = invoke("fit", table, "--ignore", "sex", *flags, "-o", tmp_path / "RUN")
    assert_refused(result, 2, "--exact-entry well", "death", "--kind paths")
    allowed = ("--allowed", "well>ill,ill>well,well>dead,ill>dead,dead>well")
    result = invoke(
        *("fit", table, "--ignore", "sex", "--exact-entry", "dead", *allowed),
        *("-o", tmp_path / "RUN"),
    )
    assert_refused(result, 2, "--exact-entry dead", "--allowed", "well")
    codes = {"well": 1, "ill": 2, "dead": 3}
    numbers = pd.read_csv(table).replace({"state": codes})
    numbers.to_csv(tmp_path / "numbers.csv", index=False)
    result = invoke(
        *("fit", tmp_path / "numbers.csv", "--ignore", "sex", "--exact-entry", "2"),
        *("-o", tmp_path / "RUN"),
    )
    assert_refused(result, 2, "--exact-entry 2", "--kind paths")


@pytest.mark.parametrize("form", ["wide", "long"])
def test_complete_paths_are_fitted(paths, table, form, tmp_path):
    if form == "long":
        renamed = paths.rename(columns={"id": "trajectory", "years": "time"}).assign(node="state")
        renamed[["trajectory", "time", "node", "state"]].to_csv(table, index=False)
    named = () if form == "long" else ("--ignore", "sex")
    result = invoke("fit", table, "--kind", "paths", *named, "-o", tmp_path / "RUN")
    assert result.exit_code == 0, result.stderr
    assert "'dead'" in result.stderr
    assert "absorbing" in result.stderr
    rates = pd.read_csv(tmp_path / "RUN" / "rates.csv")
    n, spent = counted(paths)
    assert {*zip(rates["from"], rates["to"])} == set(n)
    for row in rates.to_dict("records"):
        count = n[row["from"], row["to"]]
        rate = count / spent[row["from"]]
        assert row["rate"] == pytest.approx(rate, rel=1e-6)
        assert row["upper"] == pytest.approx(rate * np.exp(1.959964 / np.sqrt(count)), rel=1e-3)
    assert (tmp_path / "RUN" / "report.html").exists()


def test_complete_paths_take_covariates_and_restrictions(paths, table, tmp_path):
    result = invoke(
        *("fit", table, "--kind", "paths", "--covariate", "sex:ill>dead"),
        *("--fix", "well>ill=0.4", "-o", tmp_path / "RUN", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    by_sex = {sex: counted(rows) for sex, rows in paths.groupby("sex")}
    hazard = {sex: n["ill", "dead"] / spent["ill"] for sex, (n, spent) in by_sex.items()}
    assert found["effects"][0]["hazard_ratio"] == pytest.approx(hazard["m"] / hazard["f"], rel=1e-4)
    fixed = [r["rate"] for r in found["rates"] if (r["from"], r["to"]) == ("well", "ill")]
    assert fixed == pytest.approx([0.4])
    ruled_out = invoke(
        *("fit", table, "--kind", "paths", "--ignore", "sex", "--allowed", "well>ill,ill>dead"),
        *("-o", tmp_path / "RUN2"),
    )
    assert_refused(ruled_out, 3, "--allowed", "trajectory")


def test_flags_about_measurements_have_no_meaning_for_paths(table, tmp_path):
    result = invoke(
        *("fit", table, "--kind", "paths", "--ignore", "sex", "--exact-entry", "dead"),
        *("-o", tmp_path / "RUN"),
    )
    assert_refused(result, 2, "--exact-entry", "--kind")


def test_paths_that_end_in_a_state_that_others_leave_need_an_end(paths, table, tmp_path):
    moved = paths.groupby("id")["state"].shift() != paths["state"]
    paths[moved].to_csv(table, index=False)  # without the rows that say how long they were followed
    result = invoke("fit", table, "--kind", "paths", "--ignore", "sex", "-o", tmp_path / "RUN")
    assert_refused(result, 3, "--end")


@pytest.fixture(scope="module")
def lungs(tmp_path_factory):
    """A measured level, and 999 at the date of death."""
    rng = np.random.default_rng(0)
    rows = []
    for patient in range(40):
        death, turn = rng.exponential(6.0), rng.exponential(3.0)
        for t in np.arange(0.0, 8.0):
            if t > death:
                rows.append((patient, death, 999.0))
                break
            rows.append((patient, t, (100.0 if t < turn else 60.0) + rng.normal(0, 5)))
    path = tmp_path_factory.mktemp("lungs") / "fev.csv"
    pd.DataFrame(rows, columns=["patient", "time", "fev"]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["dead", "Exitus", "gone"])
def test_the_dead_do_not_come_back(lungs, name, tmp_path):
    coded = ("fit", lungs, "--state-code", f"999={name}", "--exact-entry", name)
    result = invoke(*coded, "-o", tmp_path / "RUN")
    assert result.exit_code == 0, result.stderr
    assert f"{name!r}" in result.stderr
    assert "absorbing" in result.stderr
    assert name not in set(pd.read_csv(tmp_path / "RUN" / "rates.csv")["from"])
    assert "absorbing" in json.dumps(json.loads((tmp_path / "RUN" / "run.json").read_text()))


def test_rows_that_repeat_a_death_are_fine(paths, tmp_path):
    visits = _visits(paths)
    last = visits.groupby("trajectory").tail(1).query("state == 'dead'")
    again = pd.concat([visits, last.assign(time=last["time"] + 1)])
    again = again.sort_values(["trajectory", "time"])
    found = []
    for name, frame in (("once", visits), ("twice", again)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        flags = ("--exact-entry", "dead", "-o", tmp_path / name)
        assert invoke("fit", tmp_path / f"{name}.csv", *flags).exit_code == 0
        found.append(pd.read_csv(tmp_path / name / "rates.csv")["rate"])
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-9)


def test_a_name_is_enough_and_allowed_overrides_it(paths, tmp_path):
    visits = paths.assign(years=np.ceil(paths["years"])).drop(columns="sex")
    visits = visits.drop_duplicates(["id", "years"], keep="last")
    visits.to_csv(tmp_path / "visits.csv", index=False)
    flags = ("fit", tmp_path / "visits.csv", "-o")
    result = invoke(*flags, tmp_path / "RUN")
    assert result.exit_code == 0, result.stderr
    assert "--absorbing dead" not in result.stderr  # no hint about what is settled
    assert "dead" not in set(pd.read_csv(tmp_path / "RUN" / "rates.csv")["from"])
    every = ",".join(f"{a}>{b}" for a in (*EXITS, "dead") for b in (*EXITS, "dead") if a != b)
    invoke(*flags, tmp_path / "RUN2", "--allowed", every)
    assert "dead" in set(pd.read_csv(tmp_path / "RUN2" / "rates.csv")["from"])


def _visits(paths):
    table = paths.rename(columns={"id": "trajectory", "years": "time"}).drop(columns="sex")
    table["time"] = np.ceil(table["time"])
    return table.drop_duplicates(["trajectory", "time"], keep="last")


def test_both_learners_know_that_death_is_final(paths):
    obs = am.Observations.from_frame(_visits(paths))
    with pytest.warns(DataWarning, match="absorbing"):
        fit = am.ParameterLearner({"state": []}).fit(obs)
    dead = fit.network_.states["state"].index("dead")
    assert (np.asarray(fit.network_.rates["state"])[dead] == 0).all()
    with pytest.warns(DataWarning, match="absorbing"):
        learner = am.StructureLearner(method="star", n_jobs=1).fit(obs)
    assert (np.asarray(learner.network_.rates["state"])[dead] == 0).all()
    everything = {"state": ~np.eye(3, dtype=bool)}
    told = am.ParameterLearner({"state": []}, allowed_transitions=everything).fit(obs)
    assert "dead" in set(told.rate_intervals_["from"])


def test_a_dead_state_that_is_left_is_an_ordinary_state(paths):
    table = _visits(paths)
    last = table.groupby("trajectory").tail(1).query("state == 'dead'").head(1)
    back = pd.concat([table, last.assign(time=last["time"] + 1, state="ill")])
    back = back.sort_values(["trajectory", "time"])
    fit = am.ParameterLearner({"state": []}).fit(am.Observations.from_frame(back))
    assert "dead" in set(fit.rate_intervals_["from"])


def test_learn_takes_death_as_final(paths, tmp_path):
    table = _visits(paths).assign(sex=lambda t: t["trajectory"] % 2)
    table.to_csv(tmp_path / "visits.csv", index=False)
    result = invoke(
        *("learn", tmp_path / "visits.csv", "--nodes", "state,sex", "--exogenous", "sex"),
        *("-o", tmp_path / "RUN", "--max-parents", "1", "--method", "star"),
    )
    assert result.exit_code in (0, 4), result.stderr
    assert "absorbing" in result.stderr
    network = am.load(tmp_path / "RUN").network
    dead = [str(s) for s in network.states["state"]].index("dead")
    assert (np.asarray(network.rates["state"]).reshape(-1, 3, 3)[:, dead] == 0).all()


def test_a_parent_of_a_final_state_raises_it():
    """In the long run everybody falls ill; the parent says how soon."""
    rates = np.zeros((2, 2, 2))
    rates[:, 0, 1] = [0.1, 0.4]
    network = am.Network(
        {"diabetes": [], "kidney": ["diabetes"]},
        {"diabetes": [[0, 0.1], [0, 0]], "kidney": rates},
        {"diabetes": ["no", "yes"], "kidney": ["no", "yes"]},
    )
    assert effect(network, "kidney", "diabetes") == "raises"
    slower = am.Network(network.parents, {**network.rates, "kidney": rates[::-1]}, network.states)
    assert effect(slower, "kidney", "diabetes") == "lowers"


def test_forecasts_leave_the_dead_where_they_are(paths):
    visits = _visits(paths)
    fit = am.ParameterLearner({"state": []}).fit(am.Observations.from_frame(visits))
    obs = am.Observations.from_frame(visits)
    table = fit.forecast(obs, [1.0, 20.0])
    dead = visits.groupby("trajectory")["state"].last().eq("dead")
    rows = table[(table["state"] == "dead") & table["trajectory"].map(dead)]
    assert len(rows)
    np.testing.assert_allclose(rows["probability"], 1.0)
    sojourn = fit.sojourn_times().set_index("state")
    assert not np.isfinite(sojourn.loc["dead", "mean"])
