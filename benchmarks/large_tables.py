"""Tables of a million rows or twenty thousand columns: an answer or a sentence, and how soon.

Each table is written as CSV, and ``asterism check`` reads it in a process of its own: as it should
be, with one bad cell in the last row, and with a column of bad cells. Learning from such tables is
measured elsewhere (scaling.py); here it counts that nobody waits long to hear what is wrong.
Run: python benchmarks/large_tables.py -o benchmarks/results
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser, write_table

#: name: trajectories, rows of each, nodes
SIZES = {"1,000,000 rows, 4 nodes": (10_000, 100, 4), "100 rows, 20,000 nodes": (10, 10, 20_000)}
FAULTS = ("none", "one cell", "every cell of a column")


def table(size: tuple[int, int, int]) -> pd.DataFrame:
    """Noise in steps of .01, so that writing does not take longer than reading."""
    n_trajectories, n_times, n_nodes = size
    values = np.random.default_rng(0).integers(-200, 200, (n_trajectories * n_times, n_nodes)) / 100
    frame = pd.DataFrame(values, columns=[f"n{i}" for i in range(n_nodes)])
    frame.insert(0, "time", np.tile(np.arange(n_times) / 10, n_trajectories))
    frame.insert(0, "trajectory", np.repeat(np.arange(n_trajectories), n_times))
    return frame


def with_fault(frame: pd.DataFrame, fault: str) -> pd.DataFrame:
    frame = frame.copy()
    if fault == "one cell":
        frame = frame.astype({"n0": object})
        frame.iloc[-1, 2] = "oops"
    elif fault != "none":
        frame["time"] = "early"
    return frame


def measure(name: str, fault: str, path: Path) -> dict[str, Any]:
    """One row: what ``check`` answers, its processor time and memory."""
    program = "import sys; from asterism.__main__ import run; sys.argv[0] = 'asterism'; run()"
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", program, "check", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    print(
        f"{name}, fault: {fault}: exit {code}, {time.perf_counter() - begin:.1f} s\n{said[:900]}\n"
    )
    return {
        "table": name, "fault": fault, "exit_code": code, "lines_said": len(said.splitlines()),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "gigabytes": round(used.ru_maxrss / 1e6, 2),
        "megabytes_of_file": round(path.stat().st_size / 1e6, 1),
    }  # fmt: skip


def main() -> None:
    parser = option_parser(__doc__, "benchmark-large-tables")
    options = parser.parse_args()
    rows = []
    with TemporaryDirectory() as folder:
        for name, size in SIZES.items():
            frame = table(size)
            for fault in FAULTS:
                path = Path(folder) / "data.csv"
                with_fault(frame, fault).to_csv(path, index=False)
                rows.append(measure(name, fault, path))
                write_table(rows, options.output / "large_tables.csv")


if __name__ == "__main__":
    main()
