"""Registries in which every transition was seen, against a plain Poisson maximisation.

Given complete paths, the likelihood of each transition is that of Poisson counts d with mean
T exp(a + zβ), where T is the time at risk.
"""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import asterism as am
from asterism.data.counting_tables import CountingColumns, read_counting
from tests.command_line import assert_refused, invoke

EXITS = {
    "listed": {"treated": 0.8, "relapse": 0.1, "dead": 0.1},
    "treated": {"well": 0.9, "relapse": 0.3},
    "well": {"relapse": 0.25, "ill": 0.2},
    "relapse": {"treated": 0.5, "ill": 0.3, "dead": 0.4},
    "ill": {"well": 0.3, "dead": 0.5},
}
SEX, AGE = 0.5, 0.03


@pytest.fixture(scope="module")
def stays():
    """One row per stay of 250 persons in six states: delayed entry, sex and age."""
    rng = np.random.default_rng(5)
    rows = []
    for person in range(250):
        sex, age = "mf"[int(rng.integers(2))], float(rng.choice([25, 40, 55, 70]))
        time, last = float(rng.choice([0.0, rng.uniform(0, 2)])), 8.0
        state = "listed"
        while state != "dead" and time < last:
            factor = np.exp(SEX * (sex == "m") + AGE * (age - 45))
            rates = {y: r * (factor if y == "dead" else 1.0) for y, r in EXITS[state].items()}
            stop = time + rng.exponential(1.0 / sum(rates.values()))
            to = str(rng.choice(list(rates), p=np.array([*rates.values()]) / sum(rates.values())))
            if stop >= last:
                stop, to = last, ""
            rows.append((person, state, to, time, stop, int(to != ""), sex, age))
            time, state = stop, to
            if not to:
                break
    return pd.DataFrame(rows, columns=["id", "from", "to", "start", "stop", "status", "sex", "age"])


def poisson(stays, before, after):
    """Rate at the reference (female, mean age), both effects, and standard errors."""
    own = stays[stays["from"] == before]
    seen = (own["to"] == after).to_numpy(dtype=float)
    spent = (own["stop"] - own["start"]).to_numpy()
    z = np.column_stack(
        [np.ones(len(own)), own["sex"] == "m", own["age"] - _mean_age(stays)]
    ).astype(float)

    def objective(b):
        mean = spent * np.exp(z @ b)
        return mean.sum() - seen @ (z @ b), z.T @ (mean - seen)

    start = np.array([np.log(seen.sum() / spent.sum()), 0.0, 0.0])
    best = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x
    information = z.T @ (z * (spent * np.exp(z @ best))[:, None])
    return best, np.sqrt(np.diag(np.linalg.inv(information)))


def _mean_age(stays):
    return stays["age"].mean()


def stacked(stays):
    """The same as mstate keeps it: a row for every possible transition of a stay."""
    rows = []
    for row in stays.to_dict("records"):
        for after in EXITS[row["from"]]:
            rows.append({**row, "to": after, "status": int(row["to"] == after)})
    names = {"start": "Tstart", "stop": "Tstop"}
    return pd.DataFrame(rows).rename(columns=names)


def test_a_counting_table_agrees_with_poisson_regression(stays, tmp_path):
    stacked(stays).to_csv(tmp_path / "registry.csv", index=False)
    possible = {(a, b) for a, exits in EXITS.items() for b in exits}
    result = invoke(
        *("fit", tmp_path / "registry.csv", "--covariate", "sex", "--covariate", "age"),
        *("-o", tmp_path / "RUN", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    pairs = {(r["from"], r["to"]): r for r in found["rates"]}
    assert set(pairs) == possible
    effects = {(e["transitions"], e["covariate"]): e for e in found["effects"]}
    for before, after in possible:
        best, error = poisson(stays, before, after)
        rate = pairs[before, after]
        assert rate["rate"] == pytest.approx(np.exp(best[0]), rel=1e-3)
        assert rate["se"] == pytest.approx(rate["rate"] * error[0], rel=1e-3)
        for k, name in ((1, "sex=m"), (2, "age")):
            effect = effects[f"{before}>{after}", name]
            assert effect["effect"] == pytest.approx(best[k], rel=1e-3, abs=1e-4)
            assert effect["se"] == pytest.approx(error[k], rel=1e-3)


def test_every_way_to_write_the_stays_gives_the_same_paths(stays):
    tables = [
        stays,
        stacked(stays),
        stays.rename(columns={"start": "Entry", "stop": "Exit"}).drop(columns="status"),
        stays.assign(to=stays["to"].replace("", "well"), status=stays["status"].astype(bool)),
    ]
    half = 0.5 * (stays["start"] + stays["stop"])  # every stay in two rows, as time-varying
    first = stays.assign(stop=half, to="", status=0)
    tables.append(pd.concat([first, stays.assign(start=half)]).sort_index(kind="stable"))
    read = [
        read_counting(t.reset_index(drop=True), "id", CountingColumns.of(list(t.columns)))
        for t in tables
    ]
    for other in read[1:]:
        pd.testing.assert_frame_equal(other.paths.to_frame(), read[0].paths.to_frame())
        np.testing.assert_allclose(other.paths.end, read[0].paths.end)
    assert [table.is_stacked for table in read][:2] == [False, True]
    possible = {(a, b) for a, exits in EXITS.items() for b in exits}
    assert set(read[1].transitions) == possible
    assert all(set(table.transitions) <= possible for table in read)  # those that happen
    assert read[0].paths.start.max() > 0.0  # delayed entry


def test_trajectories_take_covariates(stays):
    """The same in Python, without the command line."""
    first = stays.drop_duplicates("id")
    moved = stays[stays["to"] != ""]
    table = pd.DataFrame(
        {
            "trajectory": [*first["id"], *moved["id"]],
            "time": [*first["start"], *moved["stop"]],
            "node": "state",
            "state": [*first["from"], *moved["to"]],
        }
    )
    end = stays.groupby("id")["stop"].last().to_dict()
    paths = am.Trajectories.from_frame(table, end=end, sort=True)
    paths = paths.with_covariates(
        stays.rename(columns={"id": "trajectory", "start": "time"})[
            ["trajectory", "time", "sex", "age"]
        ]
    )
    allowed = ", ".join(f"{a}>{b}" for a, exits in EXITS.items() for b in exits)
    fit = am.ParameterLearner(
        {"state": []}, covariates=["sex", "age"], allowed_transitions={"state": allowed}
    ).fit(paths)
    effects = fit.effects_.set_index(["transitions", "covariate"])
    best, error = poisson(stays, "relapse", "dead")
    row = effects.loc[("relapse>dead", "sex=m")]
    assert row["effect"] == pytest.approx(best[1], rel=1e-3)
    assert row["se"] == pytest.approx(error[1], rel=1e-3)
    some = paths.select(list(paths.labels[:50]))
    assert some.covariates is not None
    assert len(np.unique(some.covariates.trajectory)) == 50


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"start": 0.1}, "gap"),
        ({"start": -0.1}, "overlaps"),
        ({"from": "well"}, "led to"),
        ({"stop": None}, "missing"),
        ({"status": 2}, "status"),
    ],
)
def test_stays_that_do_not_join_are_named_with_their_row(stays, change, said, tmp_path):
    table = stays.copy()
    person = table["id"].value_counts().idxmax()
    k = table.index[table["id"] == person][1]
    for name, value in change.items():
        if name == "start":
            table.loc[k, name] += value
        else:
            table[name] = table[name].astype(object)
            table.loc[k, name] = value if value is not None else ""
    if "from" in change and stays.loc[k, "from"] == "well":
        table.loc[k, "from"] = "ill"
    table.to_csv(tmp_path / "registry.csv", index=False)
    result = invoke(
        *("fit", tmp_path / "registry.csv", "--ignore", "sex", "--ignore", "age"),
        *("-o", tmp_path / "RUN"),
    )
    assert_refused(result, 3, said, f"row {k + 2}")
