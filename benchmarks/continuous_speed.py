"""How fast families of continuous nodes are scored, beside plain matrix products of the same size.

Columns that move by themselves, ten trajectories of 20 points. Screening scores every single parent
of every child; the products are those between all parents' columns and all children for each value
of λ and κ, which is the least that it could take. The other parts of ``learn`` that grow with the
columns: deciding their kinds and scoring their families, each from a few columns, and the search
for a time at which an unknown stimulus ended. One thread, processor time.

    python benchmarks/continuous_speed.py [--columns 1000] [-o benchmarks/results]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser

import asterism as am
from asterism.continuous.family_score import FamilyScorer, Grids
from asterism.continuous.series import series_from_observations
from asterism.continuous.switching import find_switching_time
from asterism.learning.kinds import choose_kind
from asterism.learning.search.continuous_search import family_rows

N_TRAJECTORIES, N_POINTS = 10, 20
#: columns that the time of all is computed from, where each takes about as long
SOME = 20


def observed(n_columns: int) -> am.Observations:
    """Stationary columns without edges."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_TRAJECTORIES, N_POINTS, n_columns))
    for i in range(1, N_POINTS):
        x[:, i] = 0.7 * x[:, i - 1] + 0.7 * x[:, i]
    frame = pd.DataFrame(x.reshape(-1, n_columns)).add_prefix("n")
    frame.insert(0, "time", np.tile(np.arange(float(N_POINTS)), N_TRAJECTORIES))
    frame.insert(0, "trajectory", np.repeat(np.arange(N_TRAJECTORIES), N_POINTS))
    return am.Observations.from_frame(frame)


def scorer_of(n_columns: int) -> FamilyScorer:
    """Of the families of these columns."""
    return FamilyScorer(series_from_observations(observed(n_columns)))


def other_parts(scorer: FamilyScorer, data: am.Observations) -> dict[str, float]:
    """Seconds for all columns; kinds and families from ``SOME`` of them."""
    names = list(data.nodes)
    share = len(names) / SOME
    records = [(name, data.measurements[name]) for name in names[: SOME + 1]]
    choose_kind(*records[0])  # compile
    kinds = seconds(lambda: [choose_kind(*record) for record in records[1:]])
    single = scorer.combined(scorer.single_parents()[1])
    prior = am.StructureLearner().search_settings().numbered_prior(scorer.series.names)
    rows = [family_rows(prior, child, single[child]) for child in range(SOME + 1)]
    scorer.families(0, rows[0])  # compile
    families = seconds(lambda: [scorer.families(c, rows[c]) for c in range(1, SOME + 1)])
    return {
        "kinds_seconds": share * kinds,
        "families_seconds": share * families,
        "switching_seconds": seconds(lambda: find_switching_time(scorer.series)),
    }


def seconds(work: Callable[[], Any]) -> float:
    """Processor time."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    """Write continuous_speed.csv."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--columns", type=int, default=1000, help="columns (1000)")
    options = parser.parse_args()
    scorer_of(3).single_parents()  # compile
    scorer, n, rng = scorer_of(options.columns), options.columns, np.random.default_rng(1)
    n_values = len(Grids().decay) * len(Grids().noise)
    rows = N_TRAJECTORIES * (N_POINTS - 1)
    parents, children = rng.normal(size=(2 * n, rows)), rng.normal(size=(rows, n))
    screening, products = [], []
    for _ in range(2):
        products.append(seconds(lambda: [parents @ children for _ in range(n_values)]))
        screening.append(seconds(scorer.single_parents))
    line = {"columns": n, "rows": N_TRAJECTORIES * N_POINTS}
    line |= {"screening_seconds": min(screening), "products_seconds": min(products)}
    line["share"] = min(products) / min(screening)
    line |= other_parts(scorer, observed(n))
    print(line)
    options.output.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([line]).round(4).to_csv(options.output / "continuous_speed.csv", index=False)


if __name__ == "__main__":
    main()
