"""Which commit moved which numbers? Small cases, the compiler off, one version after the other.

    python benchmarks/version_steps.py COMMIT COMMIT ... -o docs/results [--keep FOLDER]

Every commit of this repository, and at last the working tree, computes the same small cases with
all settings written out, so that changed defaults do not show: inference by star, mean field and
exactly, scores of complete paths, of an exhaustive and of a screened search, and learned rates,
with a prior given and with the automatic one. The table has the largest difference to the version
before, relative to 1 or the number. ``--keep`` holds what each commit computed, for the next time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import environment_of, option_parser, write_table

_ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import inspect, json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import asterism as am

def known(what, options):
    return {k: v for k, v in options.items() if k in inspect.signature(what).parameters}

def learned(data, emission, **more):
    options = dict(max_parents=1, edge_log_odds=None, n_jobs=1, max_sweeps=6, tempering=1.0,
                   graph="map", **more)
    learner = am.StructureLearner(emission, **known(am.StructureLearner, options)).fit(data)
    return sorted(learner.family_scores_["score"].tolist())

found = {}
noise = am.Gaussian((-1, 1), 0.4)
network = am.glauber({"A": [], "B": ["A"], "C": ["B"]}, a=1.0, b=1.0)
seen = am.observe(am.simulate(network, 2, duration=2.0, seed=1), noise, n_observations=4, seed=2)
paths = am.simulate(network, 4, duration=3.0, seed=7)
for method in ("star", "mean_field", "exact"):
    posterior = am.infer(network, seen, noise, method=method, n_jobs=1)
    values = posterior.marginals(np.linspace(0, 2, 9)).values.ravel().tolist()
    found[method] = [float(posterior.log_evidence), *values]
for name, prior in (("prior given", am.GammaPrior(5, 2.0)), ("auto", am.GammaPrior(5, "auto"))):
    found[f"complete paths, {name}"] = learned(paths, None, prior=prior)
    for search in ("exhaustive", "screened"):
        found[f"{search}, {name}"] = learned(seen, noise, prior=prior, search=search)
    options = known(am.ParameterLearner, dict(prior=prior, method="star", max_iterations=3))
    rates = am.ParameterLearner(network.graph, noise, **options).fit(seen).network_.rates
    found[f"rates, {name}"] = np.concatenate([rates[n].ravel() for n in sorted(rates)]).tolist()
json.dump(found, open(sys.argv[1], "w"))
"""


def source_of(commit: str, folder: Path) -> Path:
    """The package as it was at a commit."""
    place = folder / commit
    place.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=_ROOT, check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive, check=True)
    return place / "src"


def numbers(source: Path, out: Path) -> dict[str, list[float]]:
    """What the version in ``source`` computes."""
    environment = {**environment_of(source), "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", PROGRAM, str(out)], env=environment, check=True)
    found: dict[str, list[float]] = json.loads(out.read_text())
    return found


def difference(before: list[float], now: list[float]) -> float:
    if len(before) != len(now):
        return float("inf")
    return max(abs(a - b) / max(1.0, abs(a)) for a, b in zip(before, now))


def measure(commits: list[str], kept: Path | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before: dict[str, list[float]] = {}
        for commit in [*commits, "now"]:
            out = (kept or folder) / f"{commit}.json"
            if commit == "now" or not out.exists():
                source = _ROOT / "src" if commit == "now" else source_of(commit, folder)
                found = numbers(source, out)
            else:
                found = json.loads(out.read_text())
            if before:
                gaps = {what: difference(before[what], found[what]) for what in found}
                moved = [f"{what} {gap:.0e}" for what, gap in gaps.items() if gap > 1e-12]
                rows.append(
                    {
                        "version": commit,
                        "difference": max(gaps.values()),
                        "moved": "; ".join(moved) or "nothing",
                    }
                )
                print(rows[-1], flush=True)
            before = found
    return rows


if __name__ == "__main__":
    parser = option_parser(__doc__, "docs/results")
    parser.add_argument("commits", nargs="+", help="commits, the oldest first")
    parser.add_argument("--keep", type=Path, help="folder for what each commit computed")
    options = parser.parse_args()
    write_table(
        measure(options.commits, options.keep), options.output / "version_steps.csv", digits=2
    )
