"""Exact inference against numbers printed elsewhere: msm's heart-transplant fit, tree and ring."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asterism as am
from tests.shared_data import DATA, needs

TREE = {0: [], 1: [0], 2: [0], 3: [1], 4: [1], 5: [2], 6: [2], 7: [3]}
RING = {n: [(n - 1) % 8, (n + 1) % 8] for n in range(8)}


def transplant_table() -> pd.DataFrame:
    table = pd.read_csv(DATA / "msm_cav.csv")[["PTNUM", "years", "state"]]
    return table.set_axis(["trajectory", "time", "condition"], axis=1)


def transplant_network() -> am.Network:
    """The initial rates of msm's manual; state 4 (death) is absorbing."""
    q = np.zeros((4, 4))
    q[0, [1, 3]] = 0.25
    q[1, [0, 2, 3]] = 0.166
    q[2, [1, 3]] = 0.25
    return am.Network({"condition": []}, {"condition": q}, {"condition": [1, 2, 3, 4]})


@needs("msm_cav.csv")
def test_heart_transplants_at_the_manuals_initial_rates() -> None:
    observations = am.Observations.from_frame(transplant_table())
    posterior = am.infer(transplant_network(), observations, am.Exact(), method="exact")
    assert -2 * posterior.log_evidence_given_first == pytest.approx(4833.006406396, abs=1e-6)
    # the start is uniform over four states and known for everyone
    alone = posterior.log_evidence - posterior.log_evidence_given_first
    assert alone == pytest.approx(-622 * np.log(4), abs=1e-9)


@needs("msm_cav.csv")
def test_heart_transplants_with_exact_death_times() -> None:
    """One factor exp(Qh)[x,y] per visit; at death Σ_z exp(Qh)[x,z] Q[z,4]."""
    from scipy.linalg import expm

    table = transplant_table()
    table = table[table["trajectory"].isin(table["trajectory"].unique()[:150])]
    q = transplant_network().rates["condition"]
    expected = 0.0
    for _, one in table.groupby("trajectory"):
        for (t0, x), (t1, y) in zip(
            one[["time", "condition"]].to_numpy()[:-1], one[["time", "condition"]].to_numpy()[1:]
        ):
            p = expm(q * (t1 - t0))
            x, y = int(x) - 1, int(y) - 1
            expected += np.log(p[x, :3] @ q[:3, 3] if y == 3 else p[x, y])
    dead = table["condition"] == 4
    events = table[dead].assign(node="condition", to=4)[["trajectory", "time", "node", "to"]]
    observations = am.Observations.from_frame(table[~dead], events=events)
    posterior = am.infer(transplant_network(), observations, am.Exact(), method="exact")
    assert posterior.log_evidence_given_first == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("parents", "b", "expected"),
    [
        (TREE, 0.0, -11.0904),
        (TREE, 0.6, -9.1703),
        (TREE, 1.0, -8.3154),
        (RING, 0.6, -7.6840),
        (RING, 1.0, -6.8588),
    ],
)
def test_spins_that_start_alternating_and_end_aligned(
    parents: dict[int, list[int]], b: float, expected: float
) -> None:
    network = am.glauber(parents, a=8.0, b=b, align=True)
    low, high = network.states["0"]
    row = {str(n): [low if n % 2 == 0 else high, high] for n in range(8)}
    table = pd.DataFrame({"trajectory": [0, 0], "time": [0.0, 1.0], **row})
    posterior = am.infer(network, am.Observations.from_frame(table), am.Exact(), method="exact")
    assert posterior.log_evidence == pytest.approx(expected, abs=1e-4)
