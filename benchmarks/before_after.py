"""Is this version slower than another one? Both run side by side, in turns, in one go.

    python benchmarks/before_after.py BEFORE/src -o FOLDER [--rounds 9] [--jobs NAME ...]
        [--inference] [--first]

Two processes, one per version, compile what they need and then take turns at the same small jobs:
inference by star (as it comes, and on fine steps), by mean field and exactly, and learning a graph
by each search. Times are processor times, the best of all rounds; the share is the median over the
rounds, in which the two versions follow each other directly, so that a busy machine disturbs
little. ``--jobs`` takes some jobs only, so that less must be compiled. ``--inference`` runs each
version's own ``benchmarks/inference.py`` as well. ``--first`` adds the first demonstration with
empty caches, which mostly compiles, and the second one, which mostly learns.
"""

from __future__ import annotations

import csv
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import Row, environment_of, option_parser, show_and_write
from first_run import demo

_HERE = Path(__file__).resolve().parents[1] / "src"

WORKER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import asterism as am
noise = am.Gaussian((-1, 1), 0.6)
ring = am.glauber({n: [(n - 1) % 30, (n - 2) % 30] for n in range(30)}, a=1.0, b=0.4)
seen = am.observe(am.simulate(ring, 20, duration=10.0, seed=0), noise, n_observations=10, seed=1)
tree = am.glauber("tree:14", a=1.0, b=0.6)
few = am.observe(am.simulate(tree, 10, duration=8.0, seed=2), noise, n_observations=12, seed=3)
small = am.glauber("cycle:6", a=1.0, b=0.6)
six = am.observe(am.simulate(small, 10, duration=8.0, seed=4), noise, n_observations=12, seed=5)
options = dict(max_parents=1, prior=am.GammaPrior(5, "auto"), edge_log_odds=None, n_jobs=1)
jobs = {
    "star": lambda: am.infer(ring, seen, noise, method="star", n_jobs=1),
    "star, fine steps": lambda: am.infer(ring, seen, noise, tolerance=1e-5, n_jobs=1),
    "mean field": lambda: am.infer(ring, seen, noise, method="mean_field", n_jobs=1),
    "exact, 6 nodes": lambda: am.infer(small, six, noise, method="exact", n_jobs=1),
    "screened search, 14 nodes": lambda: am.StructureLearner(
        noise, search="screened", **options).fit(few).edges_,
    "exhaustive search, 6 nodes": lambda: am.StructureLearner(
        noise, search="exhaustive", **options).fit(six).edges_,
    "rates of a tree of 14, star": lambda: am.ParameterLearner(
        tree.graph, noise, method="star", max_iterations=20).fit(few),
}
if sys.argv[1:]:
    jobs = {name: job for name, job in jobs.items() if name in sys.argv[1:]}
for job in jobs.values():
    job()
print("ready", flush=True)
for _ in sys.stdin:
    found = {}
    for name, job in jobs.items():
        begin = time.process_time()
        job()
        found[name] = time.process_time() - begin
    print(json.dumps(found), flush=True)
"""


def worker(source: Path, jobs: list[str]) -> subprocess.Popen[str]:
    environment = {**environment_of(source), "NUMBA_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, *jobs],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    found: dict[str, float] = json.loads(process.stdout.readline())
    return found


def turns(before: Path, rounds: int, jobs: list[str]) -> list[Row]:
    both = {"before": worker(before, jobs), "now": worker(_HERE, jobs)}
    for name, process in both.items():
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise SystemExit(f"the version {name!r} did not start")
    spent: dict[str, list[dict[str, float]]] = {name: [] for name in both}
    for _ in range(rounds):
        for name, process in both.items():
            spent[name].append(ask(process))
    for process in both.values():
        process.kill()
        process.wait()
    rows: list[Row] = []
    for job in spent["now"][0]:
        old, new = ([turn[job] for turn in spent[name]] for name in ("before", "now"))
        share = statistics.median(b / a for a, b in zip(old, new))
        rows += [
            (f"{job}, before, milliseconds", 1e3 * min(old), ""),
            (f"{job}, now, milliseconds", 1e3 * min(new), ""),
            (f"{job}, now as a share of before", share, "at most 1.05"),
        ]
    return rows


#: times of ``benchmarks/inference.py`` that are compared
TIMES = (
    "asterism at solve_ivp's accuracy, seconds",
    "asterism at an error of 1e-3, seconds",
    "error control, tolerance 1e-03, seconds",
    "error control, tolerance 1e-05, seconds",
    "nanoseconds per node, step and sweep",
    "5,000 nodes, 20 × 10 observations, seconds",
)


def own_benchmarks(before: Path) -> list[Row]:
    """Times by each version's own benchmark of inference."""
    found: dict[str, dict[str, float]] = {}
    for name, source in (("before", before), ("now", _HERE)):
        script = source.resolve().parent / "benchmarks" / "inference.py"
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(script), "-o", folder]
            environment = environment_of(source.resolve())
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
            with open(Path(folder) / "inference.csv", encoding="utf-8") as file:
                found[name] = {r["measured"]: float(r["value"]) for r in csv.DictReader(file)}
    rows: list[Row] = []
    for what in TIMES:
        old, new = found["before"][what], found["now"][what]
        rows += [
            (f"inference.py: {what}, before", old, ""),
            (f"inference.py: {what}, now", new, ""),
            (f"inference.py: {what}, share", new / old, "at most 1.05"),
        ]
    return rows


def first_demo(before: Path) -> list[Row]:
    spent: dict[str, Any] = {}
    for name, source in (("before", before), ("now", _HERE)):
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "cache"
            spent[name] = (
                demo(source, cache, Path(folder) / "first")[0],
                demo(source, cache, Path(folder) / "second")[0],
            )
    rows: list[Row] = []
    for place, what in enumerate(("first demo", "second demo")):
        old, new = spent["before"][place], spent["now"][place]
        rows += [
            (f"{what}, before, processor seconds", old, ""),
            (f"{what}, now, processor seconds", new, ""),
            (f"{what}, now as a share of before", new / old, "at most 1.05"),
        ]
    return rows


if __name__ == "__main__":
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("before", type=Path, help="src folder of another version")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--jobs", nargs="+", default=[], help="some jobs only, by name")
    parser.add_argument("--inference", action="store_true", help="also benchmarks/inference.py")
    parser.add_argument("--first", action="store_true", help="also time a first demo")
    options = parser.parse_args()
    found = turns(options.before, options.rounds, options.jobs) if options.rounds else []
    if options.inference:
        found += own_benchmarks(options.before)
    if options.first:
        found += first_demo(options.before)
    show_and_write(found, options.output / "before_after.csv")
