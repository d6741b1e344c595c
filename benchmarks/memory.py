"""Peak memory of one version of the code beside another: python benchmarks/memory.py BEFORE/src

Every job runs in a process of its own, twice per version: the first run compiles, the second
counts. Writes memory.csv into the folder given by -o.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from common import Row, option_parser, peak_gigabytes, show_and_write, told_by
from search import old_settings, search

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.flat_settings import regrouped

import asterism as am

_HERE = Path(__file__).resolve().parents[1] / "src"


def _screened() -> None:
    noise = am.Gaussian((-1, 1), 0.2)
    paths = am.simulate(am.glauber("tree:400", a=1.0, b=0.6), 40, duration=10.0, seed=1)
    seen = am.observe(paths, noise, n_observations=10, seed=2)
    options = {"max_parents": 1, "search": "screened", "n_jobs": 1}
    am.StructureLearner(noise, method="star", **regrouped(**options, **old_settings())).fit(seen)


def _fine_steps() -> None:
    noise = am.Gaussian((-1, 1), 0.6)
    ring = am.glauber({n: [(n - 1) % 30, (n - 2) % 30] for n in range(30)}, a=1.0, b=0.4)
    paths = am.simulate(ring, 40, duration=20.0, seed=0)
    seen = am.observe(paths, noise, n_observations=20, seed=1)
    am.infer(ring, seen, noise, tolerance=1e-5, n_jobs=1)


JOBS = {
    "screened search, 400 nodes": _screened,
    "inference, 30 nodes, fine steps": _fine_steps,
    "search, 6 nodes of 3 states": lambda: search(3, 6, 5, 10, **old_settings())(),
    "single node of 5 states, 20 trajectories": lambda: search(5, 1, 20, 20, **old_settings())(),
}


def measure(before: Path, names: list[str]) -> list[Row]:
    rows: list[Row] = []
    for name in names:
        peak = {}
        for version, source in (("before", before), ("now", _HERE)):
            for _ in range(2):
                peak[version] = told_by(__file__, source, "--tell", name)
            rows.append((f"{version}: {name}, GB", peak[version], ""))
        share = peak["now"] / peak["before"]
        rows.append((f"{name}, now as a share of before", share, "at most 1"))
    return rows


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("before", type=Path, nargs="?", help="src folder of another version")
    parser.add_argument("--only", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--tell", choices=list(JOBS), help="run one job, print its peak only")
    options = parser.parse_args()
    if options.tell:
        JOBS[options.tell]()
        print(json.dumps(peak_gigabytes()))
        return
    if options.before is None:
        parser.error("name the src folder of another version")
    show_and_write(measure(options.before, options.only), options.output / "memory.csv")


if __name__ == "__main__":
    main()
