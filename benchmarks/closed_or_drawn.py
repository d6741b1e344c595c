"""Why does drawing graphs and paths lose to the closed form on some complete data?

Networks of ten continuous nodes, five trajectories of 21 points, nothing missing: from the model
itself and Hill-type gene networks (hill_networks.py). Each is learned in closed form and from
draws, with full weight of the data, and again with one part changed: influences only linear, or one
step between two measurements instead of two.

    python benchmarks/closed_or_drawn.py [--sets 8] [--first-seed 3000] [-o benchmarks/results]
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from common import option_parser
from continuous import measures
from hill_networks import Design, hill_network, model_network

import asterism as am
from asterism.continuous import sampled
from asterism.learning.search import continuous_search as search

DATA = {
    "model": (model_network, Design(mean_parents=0.9)),
    "Hill": (hill_network, Design()),
    "Hill, stimulus": (hill_network, Design(stimulus=True)),
}
LINEAR = {
    (search, "FamilyScorer"): partial(search.FamilyScorer, quadratic=False),
    (search, "continuous_setup"): partial(search.continuous_setup, quadratic=False),
}
ANSWERS: dict[str, tuple[str, dict[Any, Any]]] = {
    "closed form": ("star", {}),
    "closed form, linear": ("star", LINEAR),
    "drawn": ("sample", {}),
    "drawn, linear": ("sample", LINEAR),
    "drawn, one step per gap": ("sample", {(sampled, "_LONGEST"): 1e9}),
}


def edges(frame: pd.DataFrame, method: str, changes: dict[Any, Any]) -> np.ndarray:
    """[parent, child] by one answer."""
    with ExitStack() as stack:
        for (module, name), value in changes.items():
            stack.enter_context(mock.patch.object(module, name, value))
        learner = am.StructureLearner(
            am.Continuous(),
            3,
            method=method,
            n_jobs=1,
            structure_prior=am.StructurePrior(edge=-np.log(frame.shape[1] - 3)),
            sampling=am.Sampling(chains=2, max_draws=500),
            accuracy=am.Accuracy(tempering=1.0),
        )
        learner.fit(am.Observations.from_frame(frame), progress=False)
    return learner.edge_probabilities_.to_numpy()


def main() -> None:
    """Write closed_or_drawn.csv."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--sets", type=int, default=8, help="networks per row (8)")
    parser.add_argument("--first-seed", type=int, default=3000, help="first seed (3000)")
    options = parser.parse_args()
    lines = []
    for data, (make, design) in DATA.items():
        sets = [make(options.first_seed + i, design) for i in range(options.sets)]
        for answer, (method, changes) in ANSWERS.items():
            begin = time.process_time()
            found = [(edges(one.frame, method, changes), one.truth) for one in sets]
            seconds = (time.process_time() - begin) / len(sets)
            line = {"data": data, "networks": len(sets), "answer": answer, **measures(found)}
            lines.append({**line, "seconds": seconds})
            print(pd.DataFrame(lines[-1:]).round(3).to_string(header=len(lines) == 1), flush=True)
            pd.DataFrame(lines).round(4).to_csv(options.output / "closed_or_drawn.csv", index=False)


if __name__ == "__main__":
    main()
