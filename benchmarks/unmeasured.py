"""Edges or one unmeasured cause: which caveats are right?

24 trajectories of 16 noisy measurements, σ = .25, of three to five nodes with two states. In the
first sets they form a loop of three (beside a fourth), a chain, or have one edge, or one both ways:
a parent multiplies rates up by 2 to 4 and divides those down, or the reverse, and its other state
does the opposite. In the others nobody acts on anybody, and all nodes follow a cause that was not
measured; its factor is 4. The star searches.

Per kind of data: edges claimed (probability of at least one half), how many of them are true, how
many carry a caveat. Seeds below 1,000 are for choices; from 1,000 on for figures (the default).

Written after every data set: ``unmeasured.csv`` and ``unmeasured_summary.csv``.

    python benchmarks/unmeasured.py [--kinds loop chain …] [--sets 10] [--first 1000]
"""

from __future__ import annotations

import time
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser
from influences import END, FACTOR, N_POINTS, N_TRAJECTORIES, NOISE

import asterism as am

KINDS = ("loop", "chain", "edge", "pair", "cause of 3", "cause of 4", "cause of 5")


def network(kind: str, rng: np.random.Generator) -> am.Network:
    """The nodes A, B, …, and H where there is a cause."""
    names = "ABCDE"[: int(kind[-1]) if kind.startswith("cause") else int(rng.integers(3, 6))]
    parents: dict[str, list[str]] = {n: [] for n in names}
    if kind == "loop":
        names = names[:4]
        parents = {n: [] for n in names} | {"A": ["C"], "B": ["A"], "C": ["B"]}
    elif kind == "chain":
        parents |= {b: [a] for a, b in pairwise(names)}
    elif kind == "edge":
        parents["B"] = ["A"]
    elif kind == "pair":
        parents |= {"A": ["B"], "B": ["A"]}
    else:
        parents = {n: ["H"] for n in names} | {"H": []}
    rates: dict[str, Any] = {}
    for node, above in parents.items():
        if node == "H":
            rates[node] = [[-0.4, 0.4], [0.4, -0.4]]
            continue
        table = np.exp(rng.uniform(*np.log([0.15, 3.0]), size=(*(2,) * len(above), 2)))
        if above:
            factor = FACTOR ** (1.0 if above == ["H"] else rng.uniform(0.5, 1.0))
            factor = factor if above == ["H"] or rng.random() < 0.5 else 1.0 / factor
            up, down = table[0]
            table = np.array([[up / factor, down * factor], [up * factor, down / factor]])
        up, down = table[..., 0], table[..., 1]
        rates[node] = np.stack([np.stack([-up, up], -1), np.stack([down, -down], -1)], -2)
    return am.Network(parents, rates)


def measure(kind: str, seed: int) -> dict[str, Any]:
    """Figures of one data set."""
    rng = np.random.default_rng([341, KINDS.index(kind), seed])
    true = network(kind, rng)
    seeds = [int(rng.integers(2**31)) for _ in range(2)]
    paths = am.simulate(true, N_TRAJECTORIES, duration=END, seed=seeds[0])
    noise = am.Gaussian((0.0, 1.0), NOISE)
    seen = am.observe(paths, noise, N_POINTS, seed=seeds[1])
    seen = seen.select(nodes=[n for n in true.nodes if n != "H"])
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = am.StructureLearner(noise, 2, method="star", random_state=seed, n_jobs=1)
        learner.fit(seen)
        causes = learner.unmeasured_causes(seen)
    edges = learner.edges_[learner.edges_["probability"] >= 0.5]
    is_true = [a in true.parents[b] for a, b in zip(edges["parent"], edges["child"])]
    marked = (edges["caveat"] != "").to_numpy()
    return {
        "kind": kind, "seed": seed, "nodes": len(seen.nodes), "claimed": len(edges),
        "true": int(np.sum(is_true)), "marked": int(marked.sum()),
        "true_marked": int(marked[np.array(is_true, dtype=bool)].sum()),
        "groups": len(causes),
        "largest_gain": max((c.gain for c in causes), default=np.nan),
        "processor_seconds": time.process_time() - begin,
    }  # fmt: skip


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Per kind of data."""
    sums = frame.groupby("kind", sort=False)
    named = {"sets": ("seed", "size")}
    named |= {n: (n, "sum") for n in ("claimed", "true", "marked", "true_marked")}
    return sums.agg(**named).reset_index()


def main() -> None:
    """Measure and write."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for kind in options.kinds:
        for seed in range(options.first, options.first + options.sets):
            rows.append(measure(kind, seed))
            print(rows[-1], flush=True)
            frame = pd.DataFrame(rows)
            frame.to_csv(options.output / "unmeasured.csv", index=False)
            summary(frame).to_csv(options.output / "unmeasured_summary.csv", index=False)


if __name__ == "__main__":
    main()
