"""What an editor or ``mypy --strict`` knows about the names that ``am.`` offers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import asterism

ROOT = Path(__file__).resolve().parents[2]

#: what a user writes, and a part of the type that must be known of it
CALLS = {
    "am.infer(net, paths)": "Posterior",
    "am.infer(net, obs, noise, method='sample', seed=1).statistics": "Statistics",
    "am.simulate(net, 3, 1.0, seed=0)": "Trajectories",
    "am.observe(paths, noise, 3)": "Observations",
    "am.Observations.from_frame(table)": "Observations",
    "am.StructureLearner(noise, max_parents=1).fit(obs)": "StructureLearner",
    "am.StructureLearner().fit(obs).edges_": "DataFrame",
    "am.ParameterLearner({'A': []}).fit(obs).network_": "Network",
    "am.load('RUN')": "Run",
    "am.metrics.edge_scores": "def (",
    "am.plots.edges": "def (",
}

SCRIPT = """
import asterism as am
import pandas as pd

table = pd.DataFrame()
net = am.glauber({"A": [], "B": ["A"]})
noise = am.Gaussian((-1.0, 1.0), 0.2)
paths = am.simulate(net, 3, 1.0, seed=0)
obs = am.observe(paths, noise, 3)
"""


def revealed(expressions: list[str], folder: Path) -> list[str]:
    """The type that mypy knows of each expression in a script of a user."""
    script = folder / "script.py"
    lines = [f"reveal_type({one})" for one in expressions]
    script.write_text(SCRIPT + "\n".join(lines) + "\n", encoding="utf-8")
    cache = ROOT / ".mypy_cache" / "of_scripts"
    options = [
        "--strict",
        "--config-file",
        "",
        "--cache-dir",
        str(cache),
        "--follow-imports=silent",
    ]
    answer = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(script)],
        capture_output=True,
        text=True,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        cwd=folder,
    )
    found = re.findall(r'note: Revealed type is "(.*)"', answer.stdout)
    errors = [line for line in answer.stdout.splitlines() if ": error:" in line]
    assert not errors
    return found


@pytest.mark.slow
def test_every_public_name_has_a_type(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    names = [f"am.{name}" for name in asterism.__all__]
    found = revealed([*names, *CALLS], tmp_path)
    assert len(found) == len(names) + len(CALLS)
    unknown = [name for name, what in zip(names, found) if what in ("Any", "builtins.object")]
    assert unknown == []
    for (call, expected), what in zip(CALLS.items(), found[len(names) :]):
        assert expected in what, call


@pytest.mark.slow
def test_a_misspelt_name_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    with pytest.raises(AssertionError, match="Netwrok"):
        revealed(["am.Netwrok"], tmp_path)
