"""A fit leaves the process's warning filters as they were."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import asterism as am
from tests.command_line import invoke

NETWORK = am.glauber({"a": [], "b": ["a"]}, a=1.0, b=0.8)
EMISSION = am.Gaussian((-1, 1), 0.4)
PATHS = am.simulate(NETWORK, 6, duration=5.0, seed=1)
SEEN = am.observe(PATHS, EMISSION, n_observations=6, seed=2)
DRAWS = am.Sampling(max_draws=20, chains=2)


def graph(emission: Any = EMISSION, **options: Any) -> Callable[[], object]:
    return lambda: am.StructureLearner(emission, n_jobs=1, **options).fit(SEEN)


FITS: dict[str, Callable[[], object]] = {
    "inference": lambda: am.infer(NETWORK, SEEN, EMISSION),
    "star": graph(method="star"),
    "mean field": graph(method="mean_field"),
    "clusters": graph(method="clusters"),
    "sampling": graph(method="sample", sampling=DRAWS),
    "levels": graph(am.Gaussian(levels="auto", learn=True), method="star"),
    "continuous": graph(am.Continuous()),
    "complete paths": lambda: am.StructureLearner(n_jobs=1).fit(PATHS),
    "rates": lambda: am.ParameterLearner({"a": [], "b": ["a"]}, EMISSION).fit(SEEN),
}


def changed_by(work: Callable[[], object]) -> list[Any]:
    """Filters that are there after it and were not before, or the other way round."""
    before = list(warnings.filters)
    work()
    after = list(warnings.filters)
    return (
        [] if after == before else [f for f in [*before, *after] if (f in before) != (f in after)]
    )


def learn_by_command(folder: Path) -> None:
    SEEN.to_frame().to_csv(folder / "data.csv", index=False)
    flags = ("--method", "star", "--states", "2")
    done = invoke("learn", folder / "data.csv", "-o", folder / "RUN", *flags)
    assert done.exit_code in (0, 4), done.output


IN_A_NEW_PROCESS = """
import sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from tests.unit import test_warning_filters as here
works = {**here.FITS, "command": lambda: here.learn_by_command(Path(sys.argv[2]))}
for name in sys.argv[1].split(","):
    changed = here.changed_by(works[name])
    assert not changed, (name, changed)
"""


@pytest.mark.parametrize("names", [",".join(FITS), "star", "command"])
def test_filters_after_a_fit_are_those_before(names: str, tmp_path: Path) -> None:
    """In a process of its own: libraries are imported only once, and some add filters then."""
    command = [sys.executable, "-c", IN_A_NEW_PROCESS, names, str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
