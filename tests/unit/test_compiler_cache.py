"""The compiler's cache: it notices every edit, has a place of its own, and is no condition."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from asterism.numerics import compiler_cache
from asterism.numerics.compiler_cache import files_behind, first_writable, stamp_of


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


def test_the_first_folder_that_can_be_written_to_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert first_writable((tmp_path / "file" / "a", tmp_path / "b")) == tmp_path / "b"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs users")
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_without_a_place_for_the_cache_a_private_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """One that others may write to is not trusted."""
    monkeypatch.setattr(compiler_cache.tempfile, "tempdir", str(tmp_path))
    usual = first_writable(())
    assert usual.parent == tmp_path
    usual.chmod(mode)
    folder = first_writable(())
    assert (folder == usual) == (mode == 0o700)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_code_of_states_long_ago_is_deleted(tmp_path: Path) -> None:
    old, recent, other = tmp_path / "a._b-1", tmp_path / "a._b-2", tmp_path / "a._c-1"
    for folder in (old, recent, other):
        folder.mkdir()
        (folder / "code.nbc").write_text("")
    for folder in (old, other):
        os.utime(folder, (1.0, 1.0))
    compiler_cache.forget_old_code(tmp_path / "a._b-3")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a._b-2", "a._c-1"]


CALL = """
import sys
if sys.argv[1:]:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
import numpy as np
from asterism.numerics._random_stream import new_stream
from asterism.numerics._jit import is_on_disk
print(is_on_disk(new_stream), int(new_stream(np.array([1, 2], np.uint64), 3)[0]))
"""


def call(cache: Path, *full: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", CALL, *full]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def test_a_full_or_damaged_cache_is_done_without(tmp_path: Path) -> None:
    first = call(tmp_path)
    assert first.stderr == ""
    assert call(tmp_path).stdout == first.stdout.replace("False", "True")
    for kind in ("nbc", "nbi"):
        for file in tmp_path.rglob(f"*.{kind}"):
            file.write_bytes(file.read_bytes()[: 100 if kind == "nbc" else 0])
        told = call(tmp_path)
        assert told.stdout.split()[1] == first.stdout.split()[1]
        assert str(tmp_path) in told.stderr
        assert "Delete that folder" in told.stderr
    full = call(tmp_path / "full", "full")
    assert full.stdout == first.stdout
    assert str(tmp_path / "full") in full.stderr


CALLER_IN_ANOTHER_FILE = """
import asterism as am
paths = am.simulate(am.glauber("tree:2"), 1, duration=1.0, seed=1)
print(paths.to_frame().to_csv())
"""


@pytest.mark.slow
def test_kernels_that_call_kernels_do_without_a_damaged_cache(tmp_path: Path) -> None:
    """The simulation calls the stream of random numbers, which Python calls too."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = []
    for _ in range(2):
        command = [sys.executable, "-c", CALLER_IN_ANOTHER_FILE]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
        for file in tmp_path.rglob("*.nbc"):
            file.write_bytes(file.read_bytes()[:100])
    assert said[0] == said[1]
    assert "Delete that folder" in done.stderr


UPGRADED = """
import sys
sys.path.insert(0, sys.argv[1])
from asterism.numerics._upgraded import answer
print(answer(1))
"""


@pytest.mark.slow
def test_an_upgrade_does_not_run_code_of_before(tmp_path: Path) -> None:
    """A kernel and one it calls, both changed in place with their time stamps and sizes kept."""
    import asterism

    installed = Path(asterism.__file__).resolve().parent
    package = tmp_path / "asterism"
    (package / "numerics").mkdir(parents=True)
    for name in ("__init__.py", "errors.py"):
        (package / name).write_text("" if name == "__init__.py" else (installed / name).read_text())
    for name in ("__init__.py", "_jit.py", "compiler_cache.py"):
        (package / "numerics" / name).write_text((installed / "numerics" / name).read_text())
    callee, caller = (package / "numerics" / n for n in ("_callee.py", "_upgraded.py"))
    head = "from asterism.numerics._jit import inner, kernel\n"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def install(added: int, factor: int) -> None:
        callee.write_text(f"{head}@inner\ndef add(x):\n    return x + {added}\n")
        caller.write_text(
            f"{head}from asterism.numerics._callee import add\n"
            f"@kernel\ndef answer(x):\n    return {factor} * add(x)\n"
        )
        for file in (callee, caller):
            os.utime(file, (1e9, 1e9))

    def said() -> int:
        command = [sys.executable, "-B", "-c", UPGRADED, str(tmp_path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return int(done.stdout)

    for added, factor in ((1, 1), (2, 1), (2, 3), (1, 1)):
        install(added, factor)
        assert said() == factor * (1 + added)
        assert said() == factor * (1 + added)  # from the cache


WITHOUT_THE_COMPILER = """
import asterism as am

network = am.random_network(n_nodes=2, n_states=3, max_parents=1, seed=1)
noise = am.Gaussian((0, 1, 2), 0.3)
obs = am.observe(am.simulate(network, 1, duration=1.0, seed=2), noise, n_observations=2, seed=3)
print(*(repr(am.infer(network, obs, noise, method=m).log_evidence) for m in ("star", "exact")))
"""


@pytest.mark.slow
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
