"""Effective draws of unsure edges per second: this version beside another one.

Networks as in ``pairs.py`` with 15, 40 and 100 nodes. Both versions sample the same data with four
chains, each in a process of its own. An edge is unsure where its probability lies between .02 and
.98. Per network: the number of unsure edges, the median and the tenth of their effective draws
(arviz) per second of processor time, and the share of them with R̂ ≤ 1.05. At most two parents are
allowed. Version 0.2 drew them among ten candidates per node: fewer of its edges can be unsure.

Written after every network: ``edge_mixing.csv``.

    python benchmarks/edge_mixing.py [--before SRC] [--nodes 15 40 100] [--networks 3]
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
from pairs import random_rates

import asterism as am

#: sweeps per chain: those of the default at 100 nodes, and as many draws for the others
SWEEPS = {15: 1500, 40: 1000, 100: 600}

PROGRAM = """
import json, sys, time, warnings
import numpy as np
import asterism as am
data, sweeps = sys.argv[1], int(sys.argv[2])
warnings.simplefilter("ignore")
obs = am.Observations.from_csv(data)
def fitted(draws):
    emission = am.Gaussian((0.0, 1.0), float(sys.argv[3]))
    try:
        settings = {"sampling": am.Sampling(chains=4, max_draws=draws)}
    except AttributeError:
        settings = {"n_chains": 4, "max_draws": draws}
    return am.StructureLearner(
        emission, max_parents=2, method="sample", n_jobs=1, random_state=1, **settings
    ).fit(obs)
fitted(20)  # compiles
begin = time.process_time()
learner = fitted(sweeps)
seconds = time.process_time() - begin
table = learner.diagnostics_
unsure = table[table.probability.between(0.02, 0.98)]
draws = unsure.effective_draws.to_numpy()
print(json.dumps({
    "unsure": len(unsure),
    "seconds": seconds,
    "median_per_second": float(np.median(draws) / seconds),
    "tenth_per_second": float(np.quantile(draws, 0.1) / seconds),
    "share_with_r_hat_to_105": float((unsure.r_hat <= 1.05).mean()),
}))
"""


def measured(source: Path, data: Path, sweeps: int, noise: float) -> dict[str, float]:
    """What the version in ``source`` reaches."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    program = [sys.executable, "-c", PROGRAM, str(data), str(sweeps), str(noise)]
    done = subprocess.run(program, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--before", type=Path, help="the src folder of another version")
    parser.add_argument("--nodes", type=int, nargs="+", default=list(SWEEPS))
    parser.add_argument("--networks", type=int, default=3)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    options = parser.parse_args()
    versions = {"before": options.before, "now": Path(__file__).parents[1] / "src"}
    rows = []
    for n_nodes in options.nodes:
        for seed in range(options.first, options.first + options.networks):
            rng = np.random.default_rng([33, n_nodes, seed])
            network, noise = random_rates(n_nodes, rng), 0.3
            paths = am.simulate(network, 25, duration=10.0, seed=seed)
            seen = am.Gaussian((0.0, 1.0), noise)
            obs = am.observe(paths, seen, n_observations=20, seed=seed + 1)
            with tempfile.TemporaryDirectory() as folder:
                data = Path(folder) / "data.csv"
                obs.to_csv(data)
                for version, source in versions.items():
                    if source is not None:
                        found = measured(source, data, SWEEPS[n_nodes], noise)
                        rows.append({"nodes": n_nodes, "seed": seed, "version": version, **found})
            table = pd.DataFrame(rows).round(4)
            table.to_csv(options.output / "edge_mixing.csv", index=False)
            print(table.tail(len(versions)).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
