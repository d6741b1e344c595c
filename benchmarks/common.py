"""What the benchmarks share: their options, timing, a yardstick for two threads, and tables.

Nothing here says what is measured; each benchmark does that. A benchmark run as a script finds
this module beside itself.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
import pandas as pd

Result = TypeVar("Result")
#: what was measured, how much, and what was wanted
Row = tuple[str, float, str]


def option_parser(documentation: str | None, output: str | None = None) -> argparse.ArgumentParser:
    """Options of a benchmark: described by its first sentence, with -o where it writes files."""
    parser = argparse.ArgumentParser(description=(documentation or "").splitlines()[0])
    if output is not None:
        parser.add_argument(
            *("-o", "--output"),
            type=Path,
            default=Path(output),
            help=f"folder for the results ({output})",
        )
    return parser


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """What one run returns, and its seconds by the clock on the wall."""
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


def best_of(
    work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Seconds of the shortest of several runs."""
    shortest = float("inf")
    for _ in range(repeats):
        begin = clock()
        work()
        shortest = min(shortest, clock() - begin)
    return shortest


def peak_gigabytes() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


@numba.njit(nogil=True)
def sum_of_exponentials(x: np.ndarray) -> float:
    total = 0.0
    for i in range(x.shape[0]):
        total += np.exp(x[i])
    return total


def gain_of_independent_loops(x: np.ndarray, repeats: int) -> float:
    """How much two threads gain where nothing is shared: the most that a machine gives."""
    halves = np.array_split(x, 2)
    sum_of_exponentials(halves[0][:10])  # compiles

    def one_after_the_other() -> None:
        for half in halves:
            sum_of_exponentials(half)

    def side_by_side() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(sum_of_exponentials, halves))

    return best_of(one_after_the_other, repeats) / best_of(side_by_side, repeats)


def show_and_write(rows: Sequence[Row], path: Path, digits: int = 4) -> None:
    """Measurements as lines on the screen, and in full as a CSV file."""
    for name, value, wanted in rows:
        print(f"{name:<55} {value:>12.{digits}g}  {wanted}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["measured", "value", "wanted"])
        writer.writerows(rows)


def write_table(
    rows: Sequence[dict[str, Any]] | pd.DataFrame, path: Path, digits: int | None = None
) -> pd.DataFrame:
    """A table as a CSV file, in a folder made for it; numbers in full if no digits are given."""
    table = pd.DataFrame(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False, float_format=None if digits is None else f"%.{digits}g")
    return table


def environment_of(source: Path) -> dict[str, str]:
    """The environment of a process that uses another version of the code."""
    paths = [str(source), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}


def told_by(script: str, source: Path, *options: str) -> Any:
    """What a benchmark prints as its last line, as JSON, when it runs with another version."""
    command = [sys.executable, script, *options]
    done = subprocess.run(
        command, env=environment_of(source), stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def side_by_side(before: Sequence[Row], now: Sequence[Row]) -> list[Row]:
    """Rows of two versions, and what is left of each figure that both have."""
    old = {name: value for name, value, _ in before}
    rows = [(f"before: {name}", value, "") for name, value, _ in before]
    for name, value, wanted in now:
        rows.append((f"now: {name}", value, wanted))
        if name in old and "times two" not in name:
            rows.append((f"now as a share of before: {name}", value / old[name], ""))
    return rows
