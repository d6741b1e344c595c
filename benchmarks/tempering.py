"""How much too sure is the star?

Networks that defaults may be chosen on (``edge_sets.tuning_set``), each learned
once by the default learner, levels counted, for several shapes of the rate prior. Edge
probabilities follow for every tempering. Written: ``tempering.csv``, the log loss untempered, with
the best single factor, by the rule of the learner (from ``known_share``), and of the prior alone;
over all pairs of all networks, whose common share of edges is the base rate. The last two columns
are averages over networks instead, where the base rate knows how many edges each network has.

    python benchmarks/tempering.py [--sets 24] [--shapes 2 3 5] [--rows FOLDER]
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser
from edge_sets import (
    COUNTED,
    RESULTS,
    Rows,
    base_rate_loss,
    log_loss,
    probabilities,
    scored,
    tuning_set,
)

import asterism as am
from asterism.learning.search.settings import StructureSettings

FACTORS = (0.01, 0.02, 0.05, *np.arange(0.1, 1.01, 0.1).round(1).tolist())


def learned(seed: int, shape: float) -> dict[str, Any]:
    """One data set learned by the defaults, untempered."""
    case = tuning_set(seed)
    begin = time.process_time()
    learner = am.StructureLearner(
        COUNTED,
        prior=am.GammaPrior(shape),
        n_jobs=1,
        accuracy=am.Accuracy(tempering=1.0),
        method="star",
    ).fit(case.observations)
    return {
        "kind": case.kind,
        "known_share": learner.known_share_,
        "seconds": time.process_time() - begin,
        "truth": sorted(map(list, case.network.graph.edges)),
        **scored(learner),
    }


def judged(record: dict[str, Any], factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of all pairs, and which are edges."""
    matrix = probabilities(record, factor)
    truth = np.zeros(matrix.shape, dtype=bool)
    place = {name: i for i, name in enumerate(record["nodes"])}
    for parent, child in record["truth"]:
        truth[place[str(parent)], place[str(child)]] = True
    off = ~np.eye(len(place), dtype=bool)
    return matrix.to_numpy()[off], truth[off]


def rule(record: dict[str, Any]) -> float:
    """The factor that the learner takes."""
    return StructureSettings().tempering_factor(record["known_share"])


def pooled_loss(pairs: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """The log loss over all pairs of all networks."""
    return log_loss(*(np.concatenate(parts) for parts in zip(*pairs)))


def write_tuning(done: dict[str, dict[str, Any]]) -> None:
    lines = []
    for shape in sorted({json.loads(name)[1] for name in done}):
        own = [record for name, record in done.items() if json.loads(name)[1] == shape]
        losses = {f: pooled_loss([judged(r, f) for r in own]) for f in FACTORS}
        best = min(losses, key=lambda f: losses[f])
        ruled = [judged(r, rule(r)) for r in own]
        lines.append(
            {
                "shape": shape,
                "data_sets": len(own),
                "log_loss_untempered": losses[1.0],
                "best_factor": best,
                "log_loss_best_factor": losses[best],
                "log_loss_rule": pooled_loss(ruled),
                "log_loss_prior": pooled_loss([judged(r, 1e-9) for r in own]),
                "log_loss_base_rate": base_rate_loss(np.concatenate([t for _, t in ruled])),
                "true_edges": np.mean([((p >= 0.5) & t).sum() for p, t in ruled]),
                "false_edges": np.mean([((p >= 0.5) & ~t).sum() for p, t in ruled]),
                "seconds": np.median([r["seconds"] for r in own]),
                "by_network_rule": np.mean([log_loss(*pair) for pair in ruled]),
                "by_network_base_rate": np.mean([base_rate_loss(t) for _, t in ruled]),
            }
        )
    table = pd.DataFrame(lines).round(4)
    table.to_csv(RESULTS / "tempering.csv", index=False)
    print(table.to_string())


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--sets", type=int, default=24)
    parser.add_argument("--shapes", type=float, nargs="+", default=[2.0])
    parser.add_argument("--rows", type=Path, default=Path("benchmark-rows"))
    options = parser.parse_args()
    rows = Rows(options.rows / "tuning.jsonl")
    for seed in range(options.sets):
        for shape in options.shapes:
            rows.get((seed, shape), lambda s=seed, a=shape: learned(s, a))
        print(seed, flush=True)
    write_tuning(rows.done)


if __name__ == "__main__":
    main()
