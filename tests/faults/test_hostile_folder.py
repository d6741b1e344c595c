"""A folder of data is data: nothing in it is executed, whatever its files are called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import asterism
from asterism.numerics.child_process import child_command
from asterism.numerics.safe_path import safe_path
from tests.command_line import invoke
from tests.faults import harness

SOURCE = Path(asterism.__file__).resolve().parents[1]

#: modules that some process of ours imports, and one of each kind of package
NAMES = (
    *("numpy", "numba", "scipy", "pandas", "click", "rich", "xarray", "h5netcdf", "h5py"),
    *("matplotlib", "networkx", "joblib", "sklearn", "jinja2", "json", "sqlite3", "csv"),
    *("subprocess", "tempfile", "hashlib", "yaml", "asterism", "sitecustomize", "usercustomize"),
)

COMMANDS = {
    "check": ["check", "data.csv", "--json"],
    "learn": [
        *("learn", "data.csv", "-o", "LEARNED", "--search", "screened", "--max-parents", "1"),
        *("--method", "star"),
    ],
    "fit": ["fit", "data.csv", "--edges", "edges.csv", "-o", "FITTED"],
    "infer": ["infer", "data.csv", "--network", "network.json", "-o", "INFERRED"],
    "simulate": ["simulate", "network.json", "-o", "more.csv"],
    "report": ["report", "RUN", "--format", "png"],
    "compare": ["compare", "RUN", "RUN", "--names", "a,b", "-o", "COMPARED"],
    "convert": ["convert", "network.json", "graph.graphml"],
    "reproduce": ["reproduce", "fig2", "--quick", "-o", "FIGURE"],
    "demo": ["demo", "-o", "DEMO"],
    "warm-up": ["warm-up", "--json"],
}
#: with warm caches these take seconds; the others are in the long form
QUICK = ("check", "learn", "fit", "infer", "simulate", "report", "convert")
#: commands that write nothing, or whose folder is theirs to write into again
WITHOUT_FORCE = ("check", "warm-up")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, a run, and a module or setting for every name, which betrays that it was executed."""
    folder = tmp_path_factory.mktemp("hostile")
    made = invoke(
        *("simulate", "--glauber", "chain:3", "-o", folder / "data.csv", "--trajectories", 5),
        *("--save-network", folder / "network.json", "--save-truth", folder / "edges.csv"),
    )
    assert made.exit_code == 0, made.output
    learned = invoke(
        *("learn", folder / "data.csv", "-o", folder / "RUN", "--max-parents", "1"),
        *("--method", "star"),
    )
    assert learned.exit_code in (0, 4), learned.output
    betray = "import os; open(os.environ['EXECUTED'], 'a').write(__name__ + ' ')\n"
    for name in NAMES:
        (folder / f"{name}.py").write_text(betray)
    (folder / "matplotlibrc").write_text("backend: module://rich\nfont.size: 77\n")
    (folder / ".numba_config.yaml").write_text("cache_dir: ./cache\n")
    (folder / "warnings.py").write_text(betray)
    return folder


def run_inside(folder: Path, executed: Path, cache: str, *arguments: str) -> str:
    """Which modules of the folder a command executes.

    It is started as its script is: from the folder, with our code found elsewhere.
    """
    start = (
        f"import sys; sys.path[:] = [{str(SOURCE)!r}, *sys.path[1:]]; "
        f"sys.argv = ['asterism', *{list(arguments)!r}]; "
        "from asterism.__main__ import run; run()"
    )
    environment = {**os.environ, "EXECUTED": str(executed), "PYTHONPATH": ""}
    if cache:
        environment["NUMBA_CACHE_DIR"] = cache
    done = subprocess.run(
        [sys.executable, "-c", start], cwd=folder, env=environment, capture_output=True, timeout=600
    )
    assert done.returncode in (0, 4), done.stderr.decode()
    assert not (folder / "cache").exists()
    found = executed.read_text() if executed.exists() else ""
    said = "something was executed" if found else "nothing of it was executed"
    harness.count("folder with hostile modules", said)
    return found


def run_command(name: str, hostile: Path, executed: Path, cache: str) -> str:
    more = [] if name in WITHOUT_FORCE else ["--force"]
    return run_inside(hostile, executed, cache, *COMMANDS[name], *more)


@pytest.mark.parametrize(
    "name",
    [
        n if n in QUICK else pytest.param(n, marks=pytest.mark.slow)
        for n in COMMANDS
        if n != "warm-up" or not harness.REDUCED  # compiles everything
    ],
)
def test_nothing_of_the_data_folder_is_executed(name: str, hostile: Path, tmp_path: Path) -> None:
    cache = os.environ.get("NUMBA_CACHE_DIR", "")
    assert run_command(name, hostile, tmp_path / "executed", cache) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["learn"] if harness.REDUCED else COMMANDS)
def test_nor_while_kernels_are_compiled(
    name: str, hostile: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A cold cache: a second process compiles beside the search. Commands share the cache."""
    cache = tmp_path_factory.getbasetemp() / "cold"
    assert run_command(name, hostile, tmp_path / "executed", str(cache)) == ""


@pytest.mark.slow
def test_nor_by_workers_of_a_cluster(hostile: Path, tmp_path: Path) -> None:
    """Scheduler and workers work in the folder too; -P is what their scripts do."""
    pytest.importorskip("distributed", reason="needs the dask extra")
    executed, file = tmp_path / "executed", tmp_path / "scheduler.json"
    environment = {**os.environ, "EXECUTED": str(executed), "PYTHONPATH": str(SOURCE)}

    def start(program: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", f"distributed.cli.dask_{program}", "--no-dashboard"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command += ["--host", "127.0.0.1", *options]
        return subprocess.Popen(command, cwd=hostile, env=environment, **quiet)

    started = [start("scheduler", "--port", "0", "--scheduler-file", str(file))]
    try:
        for _ in range(600):
            if file.exists() and file.read_text().strip().endswith("}"):
                break
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        started += [start("worker", address, "--nthreads", "1", "--no-nanny") for _ in range(2)]
        cache = os.environ.get("NUMBA_CACHE_DIR", "")
        command = (*COMMANDS["learn"], "--force", "--scheduler", address)
        assert run_inside(hostile, executed, cache, *command) == ""
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_nor_does_the_folder_say_where_compiled_code_lies(hostile: Path, tmp_path: Path) -> None:
    """Workers of a cluster do not come in through our command."""
    environment = {**os.environ, "EXECUTED": str(tmp_path / "executed"), "PYTHONPATH": str(SOURCE)}
    environment.pop("NUMBA_CACHE_DIR", None)
    code = (
        "from asterism.numerics._jit import cache_folder; "
        "from asterism.star._solve import iterate; print(cache_folder(iterate))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=hostile, env=environment, timeout=120, capture_output=True, text=True,
    )  # fmt: skip
    assert Path(done.stdout.strip()).is_absolute(), done.stderr
    assert str(hostile) not in done.stdout


def test_children_do_not_look_into_the_working_directory(hostile: Path, tmp_path: Path) -> None:
    """Fails if a child were started by ``python -m`` in the folder."""
    executed = tmp_path / "executed"
    environment = {**os.environ, "EXECUTED": str(executed), "PYTHONPATH": str(SOURCE)}
    code = (
        "import subprocess; from asterism.numerics.child_process import start_child; "
        "child = start_child('asterism.data.formats.mat', stdin=subprocess.DEVNULL); "
        "child.wait()"
    )
    # -P for the parent, whose path is not what is tested here
    subprocess.run([sys.executable, "-P", "-c", code], cwd=hostile, env=environment, timeout=120)
    assert not executed.exists(), executed.read_text()
    old = [sys.executable, "-m", "asterism.data.formats.mat"]
    subprocess.run(old, cwd=hostile, env=environment, timeout=120, capture_output=True)
    assert executed.exists()


def test_the_working_directory_is_not_on_a_safe_path(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert safe_path(["", ".", str(tmp_path), "/elsewhere"]) == ["/elsewhere"]
    assert "-I" in child_command("x")
    monkeypatch.chdir(SOURCE)
    assert safe_path([str(SOURCE)]) == [str(SOURCE)]
