"""How long fits of panels take, after compiling: few patients, and many with three covariates.

Writes panel_speed.csv (seconds of processor time on one thread):
python benchmarks/panel_speed.py -o benchmarks/results
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from common import option_parser, write_table
from scipy.linalg import expm

import asterism as am

RATES = np.array(
    [[-0.25, 0.15, 0.05, 0.05], [0.1, -0.35, 0.15, 0.1], [0.0, 0.1, -0.3, 0.2], [0.0] * 4]
)
ALLOWED = "1>2, 1>3, 1>4, 2>1, 2>3, 2>4, 3>2, 3>4"
COVARIATES = ["age", "sex", "drug"]


def panel(n_patients: int, n_visits: int = 10) -> am.Observations:
    """Four states, the last one death; three covariates that change all rates."""
    rng = np.random.default_rng(0)
    age = rng.normal(50.0, 10.0, n_patients).round()
    sex, drug = rng.integers(0, 2, (2, n_patients))
    state, clock, rows = np.zeros(n_patients, dtype=int), np.zeros(n_patients), []
    factor = np.exp(0.02 * (age - 50.0) + 0.3 * sex - 0.4 * drug)
    for _ in range(n_visits):
        seen = {"trajectory": np.arange(n_patients), "time": clock, "state": state + 1}
        rows.append(pd.DataFrame({**seen, "age": age, "sex": sex, "drug": drug}))
        gap = rng.uniform(0.5, 1.5, n_patients).round(2)
        p = expm(RATES * (gap * factor)[:, None, None])[np.arange(n_patients), state]
        state = np.minimum((rng.uniform(size=(n_patients, 1)) > np.cumsum(p, 1)).sum(1), 3)
        clock = (clock + gap).round(2)
    table = pd.concat(rows).sort_values(["trajectory", "time"])
    dead = table["state"] == 4
    table = table[~(dead & dead.groupby(table["trajectory"]).shift(fill_value=False))]
    return am.Observations.from_frame(table, labels=["state"], covariates=COVARIATES)


def measured(n_patients: int, covariates: list[str] | None) -> dict[str, object]:
    obs = panel(n_patients)
    begin = time.process_time()
    fit = am.ParameterLearner(
        {"state": []}, allowed_transitions={"state": ALLOWED}, covariates=covariates, n_jobs=1
    ).fit(obs)
    middle = time.process_time()
    _ = fit.parameters_
    return {
        "patients": n_patients,
        "visits": obs.n_measurements,
        "covariates": len(covariates or ()),
        "fit_seconds": middle - begin,
        "interval_seconds": time.process_time() - middle,
        "converged": fit.converged_,
    }


def main() -> None:
    options = option_parser(__doc__, "benchmarks/results").parse_args()
    measured(50, COVARIATES)  # compiles
    cases = [(200, None), (200, COVARIATES), (10_000, COVARIATES)]
    table = pd.DataFrame([measured(n, covariates) for n, covariates in cases])
    print(table.to_string())
    write_table(table, options.output / "panel_speed.csv", digits=3)


if __name__ == "__main__":
    main()
