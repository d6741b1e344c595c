"""The compiler's cache notices an edit in any compiled file that a kernel depends on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from asterism.numerics._jit import files_behind, stamp_of


def small_package(tmp_path: Path) -> Path:
    for folder in ("upper", "lower"):
        (tmp_path / folder).mkdir()
    (tmp_path / "upper" / "_caller.py").write_text(
        "from asterism.upper import _helper\nfrom asterism.lower._callee import (\n    work,\n)\n"
    )
    (tmp_path / "upper" / "_helper.py").write_text("import asterism.lower._deep\n")
    (tmp_path / "lower" / "_callee.py").write_text("value = 1\n")
    (tmp_path / "lower" / "_deep.py").write_text("value = 1\n")
    (tmp_path / "lower" / "_other.py").write_text("value = 1\n")
    return tmp_path


def test_an_edit_of_a_callee_in_another_folder_is_noticed(tmp_path: Path) -> None:
    package = small_package(tmp_path)
    caller = package / "upper" / "_caller.py"
    before = stamp_of(caller, package)
    for name in ("_callee.py", "_deep.py"):
        callee = package / "lower" / name
        times = callee.stat()
        callee.write_text("value = 2\n")  # same size
        os.utime(callee, ns=(times.st_atime_ns, times.st_mtime_ns))  # same time
        assert stamp_of(caller, package) != before
        callee.write_text("value = 1\n")
        assert stamp_of(caller, package) == before


def test_an_edit_elsewhere_compiles_nothing_anew(tmp_path: Path) -> None:
    package = small_package(tmp_path)
    caller = package / "upper" / "_caller.py"
    before = stamp_of(caller, package)
    (package / "lower" / "_other.py").write_text("value = 2\n")
    assert stamp_of(caller, package) == before


def test_every_compiled_file_of_the_package_is_found() -> None:
    import asterism

    package = Path(asterism.__file__).resolve().parent
    behind = {p.name for p in files_behind(package / "star" / "_solve.py", package)}
    assert {"_solve.py", "_messages.py", "_node.py", "_step.py", "_jit.py"} <= behind
    for path in package.rglob("_[!_]*.py"):
        missing = [p for p in files_behind(path, package) if not p.is_file()]
        assert missing == []


WITHOUT_THE_COMPILER = """
import asterism as am

network = am.random_network(n_nodes=2, n_states=3, max_parents=1, seed=1)
noise = am.Gaussian((0, 1, 2), 0.3)
obs = am.observe(am.simulate(network, 1, duration=1.0, seed=2), noise, n_observations=2, seed=3)
print(*(repr(am.infer(network, obs, noise, method=m).log_evidence) for m in ("star", "exact")))
"""


def test_the_algorithms_run_without_the_compiler() -> None:
    """For coverage, mutants and whoever wants to step through a loop."""
    command = [sys.executable, "-c", WITHOUT_THE_COMPILER]
    answers = [
        subprocess.run(
            command, env={**os.environ, **more}, capture_output=True, text=True, check=True
        ).stdout.split()
        for more in ({"NUMBA_DISABLE_JIT": "1"}, {})
    ]
    for slow, quick in zip(*answers):
        assert abs(float(slow) - float(quick)) < 1e-9
