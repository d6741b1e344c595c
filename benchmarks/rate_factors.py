"""How far trajectories differ: does the interval of the spread hold, and are there false alarms?

Four nodes with two states and no edges, 24 trajectories of 30 noisy measurements. In the first sets
the rates of three nodes have a common factor per trajectory, Gamma distributed with a shape between
1 and 3 (one standard deviation of its logarithm is a factor of 3.6 to 1.9); in the others nothing
differs. Two chains of 400 draws. Pairs that seem to move together are false alarms in both kinds of
sets. The same sets are learned without factors too: what do factors cost, and which false edges do
they spare? Seeds from 1,000 on; choices were made on others.

Written after every data set: ``rate_factors.csv`` and ``rate_factors_summary.csv``.

    python benchmarks/rate_factors.py [--sets 50] [--clean 40] [--first 1000]
"""

from __future__ import annotations

import time
import warnings
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from common import option_parser
from scipy.special import polygamma

import asterism as am

N_NODES, N_DIFFERENT, N_TRAJECTORIES, N_POINTS, END = 4, 3, 24, 30, 10.0
NOISE = 0.25
SHAPES = 1.0, 3.0


def data_set(seed: int, differ: bool) -> tuple[am.Observations, float]:
    """Measurements, and the true spread."""
    rng = np.random.default_rng([340, seed, int(differ)])
    shape = float(np.exp(rng.uniform(*np.log(SHAPES))))
    rates = np.exp(rng.uniform(*np.log([0.3, 1.5]), size=(N_NODES, 2)))
    rows = []
    for d in range(N_TRAJECTORIES):
        factor = np.ones(N_NODES)
        if differ:
            factor[:N_DIFFERENT] = rng.gamma(shape) / shape
        when = np.sort(rng.uniform(0.0, END, N_POINTS))
        seen = []
        for n in range(N_NODES):
            state, at, times, states = int(rng.integers(2)), 0.0, [0.0], []
            states.append(state)
            while (at := at + rng.exponential(1.0 / (factor[n] * rates[n, state]))) < END:
                state = 1 - state
                times.append(at)
                states.append(state)
            seen.append(np.array(states)[np.searchsorted(times, when, side="right") - 1])
        noisy = np.array(seen) + rng.normal(0.0, NOISE, (N_NODES, N_POINTS))
        rows += [(d, t, *v) for t, v in zip(when, noisy.T)]
    names = [f"N{n}" for n in range(N_NODES)]
    frame = pd.DataFrame(rows, columns=["trajectory", "time", *names])
    obs = am.Observations.from_frame(frame, start=0.0, end=END)
    return obs, float(np.exp(np.sqrt(polygamma(1, shape))))


def measure(seed: int, differ: bool, factors: bool) -> dict[str, Any]:
    """Figures of one data set; those of a spread are of the first node."""
    obs, spread = data_set(seed, differ)
    begin = time.process_time()
    emission = am.Gaussian((0.0, 1.0), NOISE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = am.StructureLearner(
            emission, random_state=seed, n_jobs=1, sampling=am.Sampling(chains=2, max_draws=400)
        )
        if factors:
            learner.fit(obs)
        else:
            with mock.patch("asterism.sampling.model_setup.factor_prior", return_value=None):
                learner.fit(obs)
    seconds = time.process_time() - begin
    common = {
        "seed": seed, "differ": differ, "factors": factors,
        "edges": int((learner.edges_["probability"] >= 0.5).sum()),
        "processor_seconds": seconds,
    }  # fmt: skip
    if not factors:
        return common
    found = {(c.what, c.node): c for c in learner.checks_}
    own = found["trajectories differ", "N0"]
    alarms = [
        c for c in learner.checks_ if c.is_likely and c.what in ("trajectories differ", "trend")
    ]
    true = {f"N{n}" for n in range(N_DIFFERENT)} if differ else set()
    false = [c for c in alarms if "differ" not in c.what or c.node not in true]
    return {
        **common, "spread": spread if differ else 1.0,
        "probability": own.probability, "found": own.spread, "lower": own.lower,
        "upper": own.upper, "covers": own.lower <= spread <= own.upper if differ else None,
        "trajectories_alarms": len({c.node for c in false if "differ" in c.what}),
        "trend_alarms": len({c.node for c in false if "differ" not in c.what}),
        "pair_alarms": sum(c.is_likely for c in learner.checks_ if c.what == "nodes move together"),
    }  # fmt: skip


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Per kind of data."""
    rows = []
    for (differ, factors), own in frame.groupby(["differ", "factors"], sort=False):
        row = {"trajectories_differ": differ, "factors": factors, "sets": len(own)}
        if factors and differ:
            told = own[own["probability"] >= 0.5]
            row |= {"told": len(told), "covers": own["covers"].astype(float).mean()}
            row |= {"covers_told": told["covers"].astype(float).mean()}
        if factors:
            alarms = [f"{kind}_alarms" for kind in ("trajectories", "trend", "pair")]
            row |= {name: int((own[name] > 0).sum()) for name in alarms}
        row |= {"false_edges": own["edges"].mean()}
        rows.append(row | {"processor_seconds": own["processor_seconds"].median()})
    return pd.DataFrame(rows)


def main() -> None:
    """Measure and write."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--clean", type=int, default=40)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    cases = [(i, True) for i in range(options.sets)] + [(i, False) for i in range(options.clean)]
    for i, differ, factors in [(*case, on) for case in cases for on in (True, False)]:
        rows.append(measure(options.first + i, differ, factors))
        print(rows[-1], flush=True)
        frame = pd.DataFrame(rows)
        frame.to_csv(options.output / "rate_factors.csv", index=False)
        summary(frame).to_csv(options.output / "rate_factors_summary.csv", index=False)


if __name__ == "__main__":
    main()
