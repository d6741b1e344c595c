"""Time to fit the heart-transplant model (622 patients): EM here, against scipy.optimize.

The comparison is the plain way to do it: the likelihood with one matrix exponential per gap,
handed to scipy.optimize.minimize in ln R, from the same crude start. Both must reach the same top.
Usage: python benchmarks/em_vs_scipy.py [path to msm_cav.csv]
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
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


def main() -> None:
    default = Path(__file__).resolve().parents[2] / "shared" / "data" / "msm_cav.csv"
    table = read(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
    obs = am.Observations.from_frame(table, labels=["disease"])
    began = time.perf_counter()
    by_em(obs.select(obs.trajectories[:20]))
    print(f"first use (compiles, or reads the cache): {time.perf_counter() - began:.2f} s")

    began = time.perf_counter()
    learner = by_em(obs)
    em_time = time.perf_counter() - began
    print(
        f"asterism: {em_time:.3f} s, {learner.n_iter_} E-steps, "
        f"-2 ln P = {-2 * learner.log_evidence_given_first_:.6f}"
    )
    seen = gaps(table)
    began = time.perf_counter()
    result = minimize(minus_two_log, crude_rates(seen), args=(seen,), method="L-BFGS-B")
    scipy_time = time.perf_counter() - began
    print(
        f"scipy:    {scipy_time:.3f} s, {result.nfev} evaluations, -2 ln P = {result.fun:.6f} "
        f"({result.message})"
    )
    print(f"ratio asterism / scipy: {em_time / scipy_time:.4f} (wanted: below 0.1)")


if __name__ == "__main__":
    main()
