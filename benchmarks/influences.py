"""What data contain beside edges: what becomes of the answer, and does anything warn?

Eight nodes with two states, 24 trajectories of 16 noisy measurements, σ = .25, and per row of the
table one thing more: an unmeasured cause of four nodes, trajectories with rates of their own, a
trend, heavy tails, shifts, a stimulus (told and not told). Per data set: false edges of at least
one half, those of them without a caveat, AUPR of connected networks, log loss, sentences of the
checks. Half of the data sets have no edge at all.

Seeds below 1,000 are for choices; from 1,000 on for figures (the default).

Written after every data set: ``influences.csv`` and ``influences_summary.csv``.

    python benchmarks/influences.py [--rows clean trend …] [--sets 10] [--first 1000] [--jobs N]
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser
from sklearn.metrics import average_precision_score

import asterism as am

N_NODES, N_TRAJECTORIES, N_POINTS, NOISE, END = 8, 24, 16, 0.25, 10.0
ROWS = ("clean", "unmeasured cause", "up and down", "all rates", "trend", "heavy tails",
        "common shift", "own shifts", "stimulus told", "stimulus not told")  # fmt: skip
#: standard deviation of ln factor of a trajectory, and of shifts; factor of trend, cause, stimulus
SPREAD, SHIFT, FACTOR = 1.0, 0.6, 4.0


def random_network(
    rng: np.random.Generator, connected: bool, n_nodes: int
) -> tuple[list[list[int]], list[Any]]:
    """Parents of every node, and rates [configuration, (up, down)]."""
    parents: list[list[int]] = []
    rates = []
    for n in range(n_nodes):
        others = [m for m in range(n_nodes) if m != n]
        count = int(rng.integers(0, 3)) if connected else 0
        parents.append(sorted(rng.choice(others, count, replace=False).tolist()))
        rates.append(np.exp(rng.uniform(*np.log([0.15, 3.0]), size=(2**count, 2))))
    return parents, rates


def one_path(
    rng: np.random.Generator, parents: list[list[int]], rates: list[Any], factor: Any, breaks: Any
) -> tuple[list[float], list[Any]]:
    """Jumps of all nodes, by the direct method.

    ``factor(time)`` is (N, 2) and constant between ``breaks``.
    """
    n_nodes = len(parents)
    state = rng.integers(0, 2, n_nodes)
    time, times, states = 0.0, [0.0], [state.copy()]
    edges = [*sorted(breaks), END]
    while time < END:
        until = next(edge for edge in edges if edge > time)
        by = factor(time)
        speed = np.array(
            [
                rates[n][sum(int(state[p]) << i for i, p in enumerate(parents[n])), state[n]]
                * by[n, state[n]]
                for n in range(n_nodes)
            ]
        )
        wait = rng.exponential(1.0 / speed.sum())
        if time + wait >= until:
            time = until
            continue
        time += wait
        n = int(rng.choice(n_nodes, p=speed / speed.sum()))
        state[n] = 1 - state[n]
        times.append(time)
        states.append(state.copy())
    return times, states


def data_set(
    row: str, seed: int, connected: bool, n_nodes: int = N_NODES, n_hit: int = 3
) -> tuple[am.Observations, Any]:
    """Measurements, the true edges [parent, child], and the nodes that a cause or stimulus hits."""
    rng = np.random.default_rng([34, seed, int(connected)])
    parents, rates = random_network(rng, connected, n_nodes)
    table, stimuli = [], []
    hit = np.zeros(n_nodes, dtype=bool)
    hit[rng.choice(n_nodes, 4 if row == "unmeasured cause" else n_hit, replace=False)] = True
    if row == "trend":
        hit[:] = True
    faster = np.where(hit[:, None], [FACTOR, 1.0 / FACTOR], 1.0)
    common, own = rng.normal(0, SHIFT, N_TRAJECTORIES), rng.normal(0, SHIFT, (24, n_nodes))
    for d in range(N_TRAJECTORIES):
        always, breaks = np.ones((n_nodes, 2)), []
        if row in ("up and down", "all rates"):
            z = rng.normal(0.0, SPREAD)
            always = always * np.exp([z, -z if row == "up and down" else z])
        factor = lambda t, always=always: always  # noqa: E731
        if row == "trend":
            breaks = [END / 2]
            factor = lambda t, a=always: faster if t >= END / 2 else a  # noqa: E731
        elif row == "unmeasured cause":
            breaks = np.cumsum(rng.exponential(1 / 0.4, 40)).tolist()
            first = int(rng.integers(2))
            factor = lambda t, b=breaks, f=first: (  # noqa: E731
                faster if (np.searchsorted(b, t, side="right") + f) % 2 else 1.0 / faster
            )
        elif row.startswith("stimulus"):
            begin = rng.uniform(0.0, 0.6 * END)
            breaks = [begin, begin + 0.35 * END]
            factor = lambda t, b=breaks, a=always: (  # noqa: E731
                faster if b[0] <= t < b[1] else a
            )
            stimuli.append(("drug", d, *breaks))
        times, states = one_path(rng, parents, rates, factor, breaks)
        when = np.sort(rng.uniform(0.0, END, N_POINTS))
        seen = np.array(states)[np.searchsorted(times, when, side="right") - 1].astype(float)
        noise = rng.normal(size=seen.shape)
        if row == "heavy tails":
            noise = rng.standard_t(2, size=seen.shape)
        seen += NOISE * noise
        if row == "common shift":
            seen += common[d]
        elif row == "own shifts":
            seen += own[d]
        table += [(d, t, *v) for t, v in zip(when, seen)]
    names = [f"N{n}" for n in range(n_nodes)]
    obs = am.Observations.from_frame(pd.DataFrame(table, columns=["trajectory", "time", *names]))
    if row == "stimulus told":
        told = pd.DataFrame(stimuli, columns=["name", "trajectory", "start", "end"])
        obs = obs.with_stimuli(told)
    truth = np.zeros((n_nodes, n_nodes), dtype=bool)
    for n, above in enumerate(parents):
        truth[above, n] = True
    return obs, (truth, hit)


def measure(row: str, seed: int, connected: bool, jobs: int) -> dict[str, Any]:
    """Figures of one data set."""
    obs, (truth, hit) = data_set(row, seed, connected)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = am.StructureLearner(random_state=seed, n_jobs=jobs).fit(obs)
        seconds = time.process_time() - begin
        checks = learner.checks_
        learner.unmeasured_causes(obs)
    edges = learner.edges_
    n = [int(name[1:]) for name in edges["parent"]], [int(name[1:]) for name in edges["child"]]
    is_true = truth[n]
    chance = edges["probability"].to_numpy(float)
    false = (chance >= 0.5) & ~is_true
    quiet = (edges["caveat"] == "").to_numpy()
    kept = np.clip(np.where(is_true, chance, 1.0 - chance), 1e-6, 1.0)
    found = {
        "row": row, "seed": seed, "connected": connected,
        "claimed": int((chance >= 0.5).sum()), "false": int(false.sum()),
        "false_without_caveat": int((false & quiet).sum()),
        "true_with_caveat": int(((chance >= 0.5) & is_true & ~quiet).sum()),
        "aupr": average_precision_score(is_true, chance) if is_true.any() else np.nan,
        "log_loss": float(-np.log(kept).mean()),
        "levels": float(learner.levels_["levels"].mean()) if len(learner.levels_) else 2.0,
        "alarms": "; ".join(sorted({check.what for check in checks if check.is_likely})),
        "processor_seconds": seconds,
    }  # fmt: skip
    if row == "stimulus told":
        chance = learner.targets_.set_index("node")["probability"]
        found["hit"] = float(chance[[f"N{i}" for i in np.flatnonzero(hit)]].mean())
        found["not_hit"] = float(chance[[f"N{i}" for i in np.flatnonzero(~hit)]].mean())
    return found


def main() -> None:
    """Measure and write."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    parser.add_argument("--jobs", type=int, default=-1, help="threads; results do not depend on it")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for i in range(options.sets):  # so that an interrupted run has something of every row
        for row in options.rows:
            rows.append(measure(row, options.first + i, i % 2 == 1, options.jobs))
            print(rows[-1], flush=True)
            frame = pd.DataFrame(rows)
            frame.to_csv(options.output / "influences.csv", index=False)
            summary(frame).to_csv(options.output / "influences_summary.csv", index=False)


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Per row of the table."""
    found = []
    for row, own in frame.groupby("row", sort=False):
        alone, tied = own[~own["connected"]], own[own["connected"]]
        found.append(
            {
                "row": row,
                "sets": len(own),
                "false": alone["false"].mean(),
                "all_false": own["false"].mean(),
                "all_without_caveat": own["false_without_caveat"].mean(),
                "aupr": tied["aupr"].mean(),
                "log_loss": tied["log_loss"].mean(),
                "true_with_caveat": tied["true_with_caveat"].sum(),
                "true_claimed": (tied["claimed"] - tied["false"]).sum(),
                "alarms": int((own["alarms"] != "").sum()),
                "processor_seconds": own["processor_seconds"].mean(),
            }
        )
    return pd.DataFrame(found)


if __name__ == "__main__":
    main()
