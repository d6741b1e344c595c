"""Panels with a known truth, and whether 95 % intervals of a fit hold it.

Patients with two living states and death. Visits are regular, their states misreported, deaths
timed exactly; one covariate changes all rates. With visits every half year a misreport can be told
from a quick move there and back; with yearly visits hardly, and maximum likelihood then often finds
no misreports at all. Shared by the statistical test and by the benchmark that writes the table in
the documents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import asterism as am

EFFECTS = {"1>2": 0.5, "2>1": -0.3, "1>3": 0.4, "2>3": 0.2}
RATES = {"1>2": 0.5, "2>1": 0.3, "1>3": 0.1, "2>3": 0.3}
CONFUSION = np.array([[0.9, 0.1], [0.15, 0.85]])
_YEARS = 7.0
#: years between two visits, by the name of the design
GAPS = {"half-yearly": 0.5, "yearly": 1.0}


def simulated(seed: int, n_patients: int, visits: str = "half-yearly") -> am.Observations:
    """One panel: half of the patients in each group."""
    gap = GAPS[visits]
    n_visits = 1 + round(_YEARS / gap)
    rng = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for group in (0, 1):
        table = np.zeros((3, 3))
        for name, rate in RATES.items():
            table[int(name[0]) - 1, int(name[2]) - 1] = rate * np.exp(EFFECTS[name] * group)
        network = am.Network(
            {"s": []}, {"s": table}, {"s": [1, 2, 3]}, initial={"s": [0.7, 0.3, 0]}
        )
        seeds = rng.integers(2**31, size=2)
        paths = am.simulate(network, n_trajectories=n_patients // 2, duration=_YEARS, seed=seeds[0])
        for d, path in paths.to_frame().groupby("trajectory"):
            death = path[path["state"] == 3]["time"]
            end = float(death.iloc[0]) if len(death) else np.inf
            number = np.arange(n_visits)
            times = gap * (number + rng.uniform(0, 0.5, n_visits) * (number > 0))
            times = times[times < min(end, _YEARS)]
            clock = path["time"].to_numpy()
            true = path["state"].to_numpy()[np.searchsorted(clock, times, side="right") - 1]
            seen = np.where(rng.random(len(true)) < CONFUSION[true - 1, 0], 1, 2)
            rows += [(f"{group}-{d}", t, x, group) for t, x in zip(times, seen)]
            if np.isfinite(end):
                rows.append((f"{group}-{d}", end, 3, group))
    frame = pd.DataFrame(rows, columns=["trajectory", "time", "s", "group"])
    obs = am.Observations.from_frame(frame, labels=["s"], covariates=["group"])
    return obs.with_exact_entries("s", 3)


def fitted(seed: int, n_patients: int, visits: str = "half-yearly") -> am.ParameterLearner:
    """The model that made the data, fitted exactly."""
    emission = am.SilentStates(am.Categorical([[0.8, 0.2], [0.2, 0.8]], learn=True), [3])
    return am.ParameterLearner(
        {"s": []},
        emission={"s": emission},
        method="exact",
        states={"s": [1, 2, 3]},
        allowed_transitions={"s": am.Transitions(absorbing=[3])},
        covariates=["group"],
    ).fit(simulated(seed, n_patients, visits))


def intervals(seed: int, n_patients: int, visits: str = "half-yearly") -> pd.DataFrame:
    """One row per rate, effect and misreport: truth, estimate, interval, note, covered."""
    learner = fitted(seed, n_patients, visits)
    table = learner.parameters_
    table = table[table["kind"] != "start"].reset_index(drop=True)
    table = table[~_mirrored(table)].reset_index(drop=True)
    truth = np.array([_truth(kind, name) for kind, name in zip(table["kind"], table["parameter"])])
    return table.assign(
        panel=seed,
        truth=truth,
        covered=(table["lower"] <= truth) & (truth <= table["upper"]),
        converged=learner.converged_,
    )


def coverage(table: pd.DataFrame) -> pd.DataFrame:
    """Per kind: how often intervals hold the truth, with those that carry a note apart."""
    rows = []
    for kind, part in table.groupby("kind", sort=False):
        plain = part[part["note"] == ""]
        noted = part[part["note"] != ""]
        rows.append(
            {
                "kind": kind,
                "panels": part["panel"].nunique(),
                "intervals": len(part),
                "covered": part["covered"].mean(),
                "noted": len(noted),
                "noted_covered": noted["covered"].mean() if len(noted) else None,
                "plain_covered": plain["covered"].mean(),
                "open": int(_is_open(part).sum()),
            }
        )
    return pd.DataFrame(rows)


def _is_open(part: pd.DataFrame) -> pd.Series:
    """Intervals that exclude nothing."""
    widest = {"rate": (0.0, np.inf), "effect": (-np.inf, np.inf), "emission": (0.0, 1.0)}
    low, high = (part["kind"].map({k: v[i] for k, v in widest.items()}) for i in (0, 1))
    return (part["lower"] <= low) & (part["upper"] >= high)


def _mirrored(table: pd.DataFrame) -> pd.Series:
    """Of "1 reported as 1" and "1 reported as 2" one is one minus the other: count one."""
    same = [p[3] == p[-1] for p in table["parameter"]]
    return (table["kind"] == "emission") & pd.Series(same, index=table.index)


def _truth(kind: str, name: str) -> float:
    if kind == "rate":
        return RATES[name.split(": ")[1]]
    if kind == "effect":
        return EFFECTS[name.split(": ")[1].split(" ")[0]]
    return float(CONFUSION[int(name[3]) - 1, int(name[-1]) - 1])
