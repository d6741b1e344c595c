"""Large networks: this version beside another one, on the same data, both with defaults.

Random networks and trees as in ``pairs.py`` with 200 and 1,000 nodes. Each version learns in a
process of its own on one thread. Per network: the share of nodes whose parents in the graph shown
are exactly the true ones, AUPR, log loss of all pairs beside that of the base rate, edges of at
least one half, time and memory.

Written after every run: ``large_versions.csv``.

    python benchmarks/large_versions.py [--before SRC] [--nodes 200 1000] [--networks 1]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from common import option_parser
from pairs import log_loss, random_rates, tree_of_spins
from sklearn.metrics import average_precision_score

import asterism as am

PROGRAM = """
import json, resource, sys, time, warnings
import asterism as am
data, probabilities = sys.argv[1:]
warnings.simplefilter("ignore")
obs = am.Observations.from_csv(data)
emission = am.Gaussian(levels=2, learn=True)
begin = time.monotonic(), time.process_time()
learner = am.StructureLearner(emission, method="auto", random_state=1000, n_jobs=1).fit(obs)
seconds = time.monotonic() - begin[0], time.process_time() - begin[1]
learner.edge_probabilities_.to_csv(probabilities)
print(json.dumps({
    "method": learner.method_,
    "parents": {child: list(parents) for child, parents in learner.network_.parents.items()},
    "seconds": seconds[0],
    "processor_seconds": seconds[1],
    "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
}))
"""


def measured(source: Path, data: Path, network: am.Network) -> dict[str, object]:
    """What the version in ``source`` learns."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    table = data.with_name("probabilities.csv")
    program = [sys.executable, "-c", PROGRAM, str(data), str(table)]
    done = subprocess.run(program, env=environment, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    parents, names = found.pop("parents"), list(network.nodes)
    own = ~np.eye(len(names), dtype=bool)
    chance = pd.read_csv(table, index_col=0).loc[names, names].to_numpy(float)[own]
    truth = np.array([[p in network.parents[c] for c in names] for p in names])
    is_edge, is_reversed = truth[own], truth.T[own]
    false = (chance >= 0.5) & ~is_edge
    return {
        **found,
        "log_loss": log_loss(chance, is_edge),
        "base_rate": log_loss(np.full(len(is_edge), is_edge.mean()), is_edge),
        "aupr": average_precision_score(is_edge, chance),
        "zeros": int((chance == 0.0).sum()),
        "claimed": int((chance >= 0.5).sum()),
        "false": int(false.sum()),
        "reversals": int((false & is_reversed).sum()),
        "parents_right": np.mean([set(parents[c]) == set(network.parents[c]) for c in names]),
    }


def main() -> None:
    """Measure and write."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--before", type=Path, help="the src folder of another version")
    parser.add_argument("--nodes", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--networks", type=int, default=1)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    options = parser.parse_args()
    versions = {"before": options.before, "now": Path(__file__).parents[1] / "src"}
    rows = []
    for n_nodes in options.nodes:
        for kind in ("random", "tree"):
            for seed in range(options.first, options.first + options.networks):
                rng = np.random.default_rng([35, n_nodes, seed])
                if kind == "tree":
                    network, means, noise = tree_of_spins(n_nodes), (-1.0, 1.0), 0.6
                    n_trajectories, n_points = 80, 10
                else:
                    network, means, n_points = random_rates(n_nodes, rng), (0.0, 1.0), 20
                    n_trajectories, noise = int(rng.integers(10, 41)), rng.uniform(0.15, 0.45)
                paths = am.simulate(network, n_trajectories, duration=10.0, seed=seed)
                obs = am.observe(paths, am.Gaussian(means, noise), n_points, seed=seed + 1)
                with tempfile.TemporaryDirectory() as folder:
                    data = Path(folder) / "data.csv"
                    obs.to_csv(data)
                    for version, source in versions.items():
                        if source is None:
                            continue
                        found = measured(source, data, network)
                        rows.append(
                            {"kind": kind, "nodes": n_nodes, "seed": seed, "version": version}
                            | found
                        )
                        print(rows[-1], flush=True)
                        table = pd.DataFrame(rows).round(5)
                        table.to_csv(options.output / "large_versions.csv", index=False)


if __name__ == "__main__":
    main()
