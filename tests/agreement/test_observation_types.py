"""Rows that are visits, exact transitions or exact entries, against scipy's maximum."""

import json

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import DataError
from tests.command_line import assert_refused, invoke
from tests.reference import panel_likelihood

RATES = np.array([[-0.6, 0.5, 0.1], [0.3, -0.7, 0.4], [0.0, 0.0, 0.0]])
PAIRS = [(0, 1), (0, 2), (1, 0), (1, 2)]
NAMES = ["well", "ill", "dead"]
ALLOWED = "well>ill, well>dead, ill>well, ill>dead"


@pytest.fixture(scope="module")
def table():
    """Patients with even numbers are seen at visits, the others at every transition."""
    rng = np.random.default_rng(3)
    rows = []
    for patient in range(60):
        time, state = float(rng.uniform(0, 1)), 0
        jumps = [(time, state)]
        while state != 2 and time < 7.0:
            time += rng.exponential(-1.0 / RATES[state, state])
            state = int(rng.choice(3, p=np.maximum(RATES[state], 0) / -RATES[state, state]))
            jumps.append((time, state))
        jumps = [(t, x) for t, x in jumps if t < 7.0]
        dies = jumps[-1][1] == 2
        if patient % 2:
            rows += [(patient, t, x, 2) for t, x in jumps]
            if not dies:
                rows.append((patient, 7.0, jumps[-1][1], 2))
            continue
        visits = np.arange(jumps[0][0], jumps[-1][0] if dies else 7.0, 1.3)
        for t in visits:
            rows.append((patient, t, [x for s, x in jumps if s <= t][-1], 1))
        if dies:
            rows.append((patient, jumps[-1][0], 2, 3))
    frame = pd.DataFrame(rows, columns=["patient", "years", "state", "seen"])
    return frame.assign(state=[NAMES[x] for x in frame["state"]])


@pytest.fixture(scope="module")
def maximum(table):
    visits = [
        (
            rows["years"].to_numpy(),
            [NAMES.index(s) for s in rows["state"]],
            rows["seen"].to_numpy(),
        )
        for _, rows in table.groupby("patient")
    ]

    def value(logs):
        return panel_likelihood.typed_log_likelihood(
            visits, panel_likelihood.generator(logs, np.zeros((4, 1)), np.zeros(1), PAIRS, 3)
        )

    best, at = panel_likelihood.maximum(value, np.full(4, -1.0))
    return best, np.exp(at), np.exp(at) * panel_likelihood.standard_errors(value, at)


def test_mixed_rows_give_the_maximum_of_scipy(table, maximum):
    best, rates, errors = maximum
    obs = am.Observations.from_frame(
        table[["patient", "years", "state"]], trajectory="patient", time="years"
    ).with_observation_types("state", table, "seen", trajectory="patient", time="years")
    fit = am.ParameterLearner(
        {"state": []}, allowed_transitions={"state": ALLOWED}, states={"state": NAMES}
    ).fit(obs)
    assert fit.log_evidence_given_first_ == pytest.approx(best, abs=1e-4)
    found = fit.rate_intervals_
    np.testing.assert_allclose(found["rate"], rates, rtol=2e-3)
    np.testing.assert_allclose(found["se"], errors, rtol=0.01)


def test_the_command_line_reads_the_column(table, maximum, tmp_path):
    table.to_csv(tmp_path / "seen.csv", index=False)
    result = invoke(
        *("fit", tmp_path / "seen.csv", "--obstype", "seen", "--allowed", ALLOWED),
        *("-o", tmp_path / "RUN", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["log_likelihood_given_first"] == pytest.approx(maximum[0], abs=1e-4)
    assert "(--obstype)" in result.stderr
    wrong = table.assign(seen=table["seen"].replace(3, 4))
    wrong.to_csv(tmp_path / "wrong.csv", index=False)
    row = int(np.flatnonzero(wrong["seen"] == 4)[0]) + 2
    result = invoke(
        *("fit", tmp_path / "wrong.csv", "--obstype", "seen", "-o", tmp_path / "RUN2"),
    )
    assert_refused(result, 3, f"Row {row}", "observation type")


def test_type_two_needs_a_state_before_it(table):
    obs = am.Observations.from_frame(
        table[["patient", "years", "state"]], trajectory="patient", time="years"
    ).with_state_sets("state", {"well": ["well", "ill"]})
    with pytest.raises(DataError, match="type 2"):
        obs.with_observation_types("state", table, "seen", trajectory="patient", time="years")
