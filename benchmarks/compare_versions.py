"""Do two versions of asterism write the same results? Moves of code must not change a digit.

    python benchmarks/compare_versions.py BEFORE AFTER

BEFORE and AFTER are ``src`` folders (two checkouts, say). Each runs, in a process of its own, the
demonstration, one screened search of 60 nodes and inference by star, mean field and exactly; the
files are then compared: same bytes, or the largest difference of their numbers. Exit code 1 if any
difference, relative to 1 or the number, exceeds 1e-12.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 1e-12
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
import asterism as am
from asterism.cli import main

out = Path(sys.argv[1])
sys.argv = ["asterism", "demo", "-o", str(out / "demo"), "--quiet"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code

parents = {f"g{n:02d}": [f"g{(n - 1) // 2:02d}"] if n else [] for n in range(60)}
network = am.glauber(parents, a=1.0, b=0.6)
noise = am.Gaussian((-1, 1), 0.3)
paths = am.simulate(network, 40, duration=10.0, seed=1)
seen = am.observe(paths, noise, n_observations=10, seed=2)
prior = am.GammaPrior(shape=5, rate="auto")
options = dict(max_parents=1, method="star", search="screened", n_jobs=1, prior=prior)
learner = am.StructureLearner(noise, **options).fit(seen)
learner.save(out / "search")

small = am.random_network(n_nodes=4, n_states=3, max_parents=2, seed=3)
levels = am.Gaussian((-1, 0, 1), 0.4)
few = am.observe(am.simulate(small, 5, duration=4.0, seed=4), levels, n_observations=6, seed=5)
for method in ("star", "mean_field", "exact"):
    posterior = am.infer(small, few, levels, method=method)
    values = posterior.marginals().values
    np.savetxt(out / f"{method}.txt", values.reshape(-1, values.shape[-1]), fmt="%.17g")
    (out / f"{method}_evidence.txt").write_text(repr(float(posterior.log_evidence)))
"""

FILES = (
    "demo/edges.csv",
    "demo/network.json",
    "demo/families.csv",
    "search/edges.csv",
    "search/network.json",
    *(f"{m}{end}.txt" for m in ("star", "mean_field", "exact") for end in ("", "_evidence")),
)


def run(source: Path, out: Path) -> None:
    """Everything, by the version in ``source``."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "MPLBACKEND": "Agg"}
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(out)],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def difference(before: str, after: str) -> float:
    """Largest difference of the numbers in two texts; infinite where their words differ."""
    if NUMBER.sub("#", before) != NUMBER.sub("#", after):
        return float("inf")
    pairs = zip(map(float, NUMBER.findall(before)), map(float, NUMBER.findall(after)))
    return max((abs(a - b) / max(1.0, abs(a)) for a, b in pairs), default=0.0)


def main() -> int:
    before, after = map(Path, sys.argv[1:3])
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in ("before", "after")]
        for place, source in zip(places, (before, after)):
            place.mkdir()
            run(source, place)
        for name in FILES:
            old, new = ((place / name).read_text(encoding="utf-8") for place in places)
            gap = 0.0 if old == new else difference(old, new)
            worst = max(worst, gap)
            print(f"{name:28s} {'same bytes' if old == new else f'differs by {gap:.1e}'}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
