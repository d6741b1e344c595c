"""Which lines of src the quick tests run: compiled loops with the compiler off, the rest as usual.

Lines of compiled functions are seen only where numba does not compile them; without the compiler
some tests take hours. So there are two kinds of pieces: ``run`` with the compiler off, in which a
test that takes more than a few seconds is stopped, and ``run --jit``, which follows subprocesses
and forks as well. A line counts if a test that passed ran it; what a stopped or failed test ran
does not count. Pieces can run at any time; ``report`` puts together what there is.
Run: python benchmarks/line_coverage.py run PIECES tests/unit tests/agreement
     python benchmarks/line_coverage.py run PIECES --jit tests/faults
     python benchmarks/line_coverage.py report PIECES -o benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = """
[run]
source_pkgs = asterism
parallel = true
data_file = {folder}/.coverage
patch = {patch}
disable_warnings = no-data-collected, module-not-measured
"""


class TookTooLong(Exception):
    """A test that takes too long without the compiler."""


class Watched:
    """Tells coverage which test runs, stops it in time, and notes which did not pass."""

    def __init__(self, coverage: Any, prefix: str, seconds: float) -> None:
        self.coverage, self.prefix, self.seconds = coverage, prefix, seconds
        self.left_out: dict[str, str] = {}
        self.test = ""
        signal.signal(signal.SIGPROF, self._stop)
        signal.signal(signal.SIGTERM, signal.default_int_handler)

    def _stop(self, *_: Any) -> None:
        self.left_out[self.test] = "stopped"
        raise TookTooLong

    def _limited(self, item: Any) -> Iterator[None]:
        self.test = self.prefix + item.nodeid
        signal.setitimer(signal.ITIMER_PROF, self.seconds, 1.0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.left_out.setdefault(self.prefix + report.nodeid, "failed")


def spread(items: list[Any], each: int) -> list[Any]:
    """At most so many tests of each file, spread over it."""
    by_file: dict[Any, list[Any]] = {}
    for item in items:
        by_file.setdefault(item.path, []).append(item)
    chosen = []
    for own in by_file.values():
        n = min(each, len(own))
        chosen += [own[k * len(own) // n] for k in range(n)]
    return chosen


def run(folder: Path, jit: bool, seconds: float, each: int, tests: list[str]) -> None:
    """One piece: tests in this process, what they run into a file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / f"settings-{os.getpid()}"
    patch = "subprocess, fork, _exit" if jit else ""
    settings.write_text(SETTINGS.format(folder=folder.resolve(), patch=patch))
    if not jit:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    import coverage
    import pytest

    measured = coverage.Coverage(config_file=str(settings), check_preimported=True)
    measured.start()
    watched = Watched(measured, "compiled: " if jit else "plain: ", seconds)

    class Hooks:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_setup(self, item: Any) -> Iterator[None]:
            measured.switch_context(watched.prefix + item.nodeid)
            yield from watched._limited(item)

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_call(self, item: Any) -> Iterator[None]:
            yield from watched._limited(item)

        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            items[:] = spread(items, each)

        pytest_runtest_logreport = staticmethod(watched.pytest_runtest_logreport)

    os.chdir(ROOT)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line"]
    if not jit:  # without the compiler, numpy warns of numbers that wrap around
        options += ["-W", "ignore"]
    if pytest.main([*options, *tests], plugins=[Hooks()]) == pytest.ExitCode.INTERRUPTED:
        watched.left_out[watched.test] = "stopped"
    measured.stop()
    measured.save()
    (folder / f"left-out-{os.getpid()}.json").write_text(json.dumps(watched.left_out, indent=1))
    print(Counter(watched.left_out.values()))


def report(folder: Path, output: Path | None) -> None:
    """Put the pieces together: lines by folder, and those that no test runs."""
    import coverage
    import pandas as pd
    from common import write_table

    left_out: set[str] = set()
    for path in folder.glob("left-out-*.json"):
        left_out |= set(json.loads(path.read_text()))
    measured = coverage.Coverage(data_file=str(folder / "combined"), config_file=False)
    measured.exclude(r"if TYPE_CHECKING:")
    measured.exclude(r"^\s*\.\.\.\s*$")
    pieces = [str(path) for path in folder.glob(".coverage.*")]
    measured.combine(pieces, strict=True, keep=True)
    data = measured.get_data()
    rows = []
    for path in sorted((ROOT / "src" / "asterism").rglob("*.py")):
        _, statements, _, _, _ = measured.analysis2(str(path))
        seen = data.contexts_by_lineno(str(path))
        ran = {line for line, tests in seen.items() if set(tests) - left_out}
        missing = sorted(set(statements) - ran)
        name = path.relative_to(ROOT / "src" / "asterism")
        part = str(name.parent) if name.parent != Path() else "asterism"
        rows.append({"part": part, "lines": len(statements), "missing": len(missing)})
        if missing:
            print(f"{name}: {len(missing)} of {len(statements)}: {ranges(missing)}")
    table = pd.DataFrame(rows).groupby("part").sum().reset_index()
    total = {"part": "all", "lines": table["lines"].sum(), "missing": table["missing"].sum()}
    table = pd.concat([table, pd.DataFrame([total])], ignore_index=True)
    table["share"] = 1.0 - table["missing"] / table["lines"].clip(lower=1)
    print(table.to_string())
    if output is not None:
        write_table(table.to_dict("records"), output / "line_coverage.csv", digits=4)


def ranges(lines: list[int]) -> str:
    """1, 2, 3, 7 → 1-3, 7."""
    parts: list[list[int]] = []
    for line in lines:
        if parts and parts[-1][-1] == line - 1:
            parts[-1].append(line)
        else:
            parts.append([line])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = parser.add_subparsers(dest="what", required=True)
    one = kinds.add_parser("run")
    one.add_argument("folder", type=Path)
    one.add_argument("--jit", action="store_true", help="compile, and follow subprocesses")
    one.add_argument(
        "--seconds", type=float, help="of processor time of a test (4, with --jit 600)"
    )
    one.add_argument("--each", type=int, default=10**6, help="tests of each file, at most")
    one.add_argument("tests", nargs="+")
    both = kinds.add_parser("report")
    both.add_argument("folder", type=Path)
    both.add_argument("-o", "--output", type=Path)
    arguments, more = parser.parse_known_args()
    if arguments.what == "run":
        seconds = arguments.seconds or (600.0 if arguments.jit else 4.0)
        run(arguments.folder, arguments.jit, seconds, arguments.each, [*arguments.tests, *more])
    else:
        sys.path.insert(0, str(Path(__file__).parent))
        report(arguments.folder, arguments.output)


if __name__ == "__main__":
    main()
