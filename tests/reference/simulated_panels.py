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
    widest = {"rate": (0.0, np.inf), "emission": (0.0, 1.0)}
    every = (-np.inf, np.inf)
    ends = [widest.get(kind, every) for kind in part["kind"]]
    low, high = (pd.Series(end, index=part.index) for end in zip(*ends))
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


# ---- covariates of outcomes, and rates that change ----------------------------------------------

#: what the group adds to the mean of every state, or to log odds
SHIFT = 0.8
HIDDEN_RATES = np.array([[-0.5, 0.5], [0.7, -0.7]])


def outcome_panel(
    kind: str, n_patients: int = 60, n_visits: int = 6, seed: int = 4
) -> pd.DataFrame:
    """Patients with a group (0 or 1) that shifts what is measured in each state."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for patient in range(n_patients):
        group, state, time = patient % 2, int(rng.integers(2)), 0.0
        for _ in range(n_visits):
            shift = SHIFT * group
            if kind == "gaussian":
                value = (-1.0, 2.0)[state] + shift + 0.7 * rng.normal()
            elif kind == "poisson":
                value = rng.poisson((2.0, 9.0)[state] * np.exp(0.5 * shift))
            else:
                odds = np.log((0.15, 0.2)[state] / (1 - (0.15, 0.2)[state])) + shift
                wrong = rng.uniform() < 1 / (1 + np.exp(-odds))
                value = "ab"[state ^ int(wrong)]
            rows.append((patient, time, value, group))
            gap = rng.uniform(0.2, 0.9)
            stay = np.exp(-1.2 * gap)
            time += gap
            to_other = (HIDDEN_RATES[state, 1 - state] / 1.2) * (1 - stay)
            state = 1 - state if rng.uniform() < to_other else state
    return pd.DataFrame(rows, columns=["trajectory", "time", "y", "group"])


def outcome_intervals(seed: int, n_patients: int) -> pd.DataFrame:
    """Effects of the group on the two means, and whether their intervals hold the truth."""
    obs = am.Observations.from_frame(
        outcome_panel("gaussian", n_patients, seed=seed), covariates=["group"]
    )
    fit = am.ParameterLearner(
        {"y": []},
        emission=am.Gaussian((-1.0, 2.0), 0.7, learn=True),
        method="exact",
        states={"y": ["a", "b"]},
        covariates=[am.Effect("group", on="outcome")],
    ).fit(obs)
    table = fit.parameters_.query("kind == 'outcome effect'")
    return table.assign(panel=seed, covered=(table["lower"] <= SHIFT) & (table["upper"] >= SHIFT))


#: rates well > ill, well > dead, ill > dead before and after the change
CHANGE, BEFORE, AFTER = 2.0, (0.4, 0.2, 0.4), (0.8, 0.2, 0.8)


def changing_panel(seed: int, n_patients: int) -> pd.DataFrame:
    """States at eight visits of patients whose rates change, by a fine walk in time."""
    rng = np.random.default_rng(seed)
    state, rows = np.zeros(n_patients, dtype=int), []
    visits = np.cumsum(rng.uniform(0.3, 0.9, size=(n_patients, 8)), axis=1) - 0.3
    step = 0.002
    at = np.zeros(n_patients, dtype=int)
    for k in range(int(np.ceil(visits.max() / step)) + 1):
        due = np.flatnonzero(
            (at < 8) & (visits[np.arange(n_patients), np.minimum(at, 7)] <= k * step)
        )
        rows += [(d, visits[d, at[d]], ("well", "ill", "dead")[state[d]]) for d in due]
        at[due] += 1
        ill, dies, dies_ill = BEFORE if k * step < CHANGE else AFTER
        chance = rng.uniform(size=n_patients) / step
        well = state == 0
        state = np.where(well & (chance < ill), 1, state)
        state = np.where(well & (chance >= ill) & (chance < ill + dies), 2, state)
        state = np.where(~well & (state == 1) & (chance < dies_ill), 2, state)
    return pd.DataFrame(rows, columns=["trajectory", "time", "state"]).sort_values(
        ["trajectory", "time"]
    )


def changing_intervals(seed: int, n_patients: int) -> pd.DataFrame:
    """Rates before a change and their factors after it, and whether intervals hold the truth."""
    moves = ("well>ill", "well>dead", "ill>dead")
    fit = am.ParameterLearner(
        {"state": []},
        method="exact",
        states={"state": ["well", "ill", "dead"]},
        allowed_transitions={"state": ", ".join(moves)},
        change_times=[CHANGE],
    ).fit(am.Observations.from_frame(changing_panel(seed, n_patients)))
    table = fit.parameters_.query("kind != 'start'").reset_index(drop=True)
    truth = [*BEFORE, *np.log(np.array(AFTER) / BEFORE)]
    return table.assign(
        panel=seed,
        kind=["rate before the change"] * 3 + ["log factor after it"] * 3,
        covered=(table["lower"] <= truth) & (truth <= table["upper"]),
    )
