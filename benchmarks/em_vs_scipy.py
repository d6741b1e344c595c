"""Time to fit the heart-transplant model (622 patients): EM here, against scipy.optimize.

The comparison is the plain way to do it: the likelihood with one matrix exponential per gap,
handed to scipy.optimize.minimize in ln R, from the same crude start. Both must reach the same top.
Prints and writes em_vs_scipy.csv: python benchmarks/em_vs_scipy.py [path to msm_cav.csv] -o out/
"""

from pathlib import Path

import numpy as np
import pandas as pd
from common import Row, option_parser, show_and_write, timed
from scipy.linalg import expm
from scipy.optimize import minimize

import asterism as am

ALLOWED = np.array([[0, 1, 0, 1], [1, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]], dtype=bool)


def read(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path)
    return table.rename(columns={"PTNUM": "trajectory", "years": "time", "state": "disease"})[
        ["trajectory", "time", "disease"]
    ]


def gaps(table: pd.DataFrame) -> list[tuple[float, int, int]]:
    """Length, state before and state after of every gap between two visits of a patient."""
    found = []
    for _, visits in table.groupby("trajectory"):
        time_, state = visits.time.to_numpy(), visits.disease.to_numpy() - 1
        found += list(zip(np.diff(time_), state[:-1], state[1:]))
    return found


def minus_two_log(log_rates: np.ndarray, seen: list[tuple[float, int, int]]) -> float:
    generator = np.zeros((4, 4))
    generator[ALLOWED] = np.exp(log_rates)
    np.fill_diagonal(generator, -generator.sum(axis=1))
    return -2.0 * sum(np.log(expm(generator * h)[x, y]) for h, x, y in seen)


def crude_rates(seen: list[tuple[float, int, int]]) -> np.ndarray:
    count, spent = np.full((4, 4), 0.5), np.full(4, 1e-9)
    for h, x, y in seen:
        count[x, y] += 1.0
        spent[x] += h
    return np.log((count / spent[:, None])[ALLOWED])


def by_em(obs: am.Observations) -> am.ParameterLearner:
    return am.ParameterLearner(
        {"disease": []},
        emission=am.Exact(),
        method="exact",
        allowed_transitions={"disease": ALLOWED},
    ).fit(obs)


def compare(table: pd.DataFrame) -> list[Row]:
    """Both ways, one after the other."""
    obs = am.Observations.from_frame(table, labels=["disease"])
    by_em(obs.select(obs.trajectories[:20]))  # compiles, or reads the cache: not timed
    learner, em_time = timed(lambda: by_em(obs))
    seen = gaps(table)
    result, scipy_time = timed(
        lambda: minimize(minus_two_log, crude_rates(seen), args=(seen,), method="L-BFGS-B")
    )
    return [
        ("patients", obs.n_trajectories, ""),
        ("asterism, seconds", em_time, ""),
        ("asterism, E-steps", learner.n_iter_, ""),
        ("asterism, -2 ln P", -2.0 * learner.log_evidence_given_first_, ""),
        ("scipy, seconds", scipy_time, ""),
        ("scipy, evaluations", result.nfev, ""),
        ("scipy, -2 ln P", float(result.fun), ""),
        ("time of asterism / time of scipy", em_time / scipy_time, "below 0.1"),
    ]


def main() -> None:
    default = Path(__file__).resolve().parents[2] / "shared" / "data" / "msm_cav.csv"
    parser = option_parser(__doc__, "benchmark-em-vs-scipy")
    parser.add_argument("data", type=Path, nargs="?", default=default)
    arguments = parser.parse_args()
    rows = compare(read(arguments.data))
    show_and_write(rows, arguments.output / "em_vs_scipy.csv", digits=7)


if __name__ == "__main__":
    main()
