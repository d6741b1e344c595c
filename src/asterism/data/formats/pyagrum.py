"""Complete paths in pyAgrum's CSV form, in and out.

Columns IdSample, time, var, state. A row (t, v, s) says that v *leaves* s at t; which state it
enters is found in its next row. Every variable has a row at time 0 and one at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from asterism.data.columns import require_columns
from asterism.data.files import write_table
from asterism.data.formats.registry import Content, FileFormat, ReadSettings
from asterism.data.numbers import read_numbers
from asterism.data.problems import FIRST_ROW, Problems
from asterism.data.table_file import read_text_table
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError

COLUMNS = ("IdSample", "time", "var", "state")


def read_pyagrum(path: str | Path) -> Trajectories:
    """Paths from a file that pyAgrum's ``writeTrajectoryCSV`` wrote."""
    frame = read_text_table(path)
    require_columns(frame, COLUMNS, repr(str(path)))
    table = pd.DataFrame(
        {
            "trajectory": frame["IdSample"].to_numpy(),
            "time": read_numbers(frame["time"].to_numpy(dtype=object)).value,
            "node": frame["var"].to_numpy(),
            "state": frame["state"].to_numpy(),
            "row": np.arange(len(frame)) + FIRST_ROW,
        }
    )
    bad = table[~np.isfinite(table["time"])]
    if len(bad):
        raise DataError(f"{str(path)!r}, row {bad['row'].iloc[0]}: the time is not a number.")
    ends = {str(d): float(t) for d, t in table.groupby("trajectory")["time"].max().items()}
    return Trajectories.from_frame(_entered(table, ends), end=ends, sort=True)


def _entered(table: pd.DataFrame, ends: dict[str, float]) -> pd.DataFrame:
    """The same rows with the state that is entered; the rows at the end say nothing new."""
    problems = Problems()
    pieces = []
    for (name, node), rows in table.groupby(["trajectory", "node"], sort=False):
        trajectory = str(name)
        rows = rows.sort_values("time", kind="stable")
        state = rows["state"].to_numpy(dtype=object)
        time = rows["time"].to_numpy()
        where = {"trajectory": trajectory, "column": str(node)}
        if len(rows) < 2 or time[-1] < ends[trajectory]:
            problems.add(
                f"variable {node!r} has no row at the end, {ends[trajectory]:g}, so the state it "
                "entered last is unknown",
                row=int(rows["row"].iloc[-1]),
                **where,
            )
            continue
        if state[1] != state[0]:
            problems.add(
                f"variable {node!r} starts in {state[0]!r} but leaves {state[1]!r}; a row names "
                "the state that is left",
                row=int(rows["row"].iloc[1]),
                **where,
            )
            continue
        jumps = rows.iloc[1:-1].assign(state=state[2:])
        pieces.append(pd.concat([rows.iloc[:1], jumps]))
    problems.raise_errors()
    if not pieces:
        raise DataError("The table holds no paths.")
    return pd.concat(pieces, ignore_index=True).drop(columns="row")


def write_pyagrum(paths: Trajectories, path: str | Path) -> None:
    """Write paths for pyAgrum; every path is shifted to start at time 0."""
    lines = []
    for d in range(paths.n_trajectories):
        current = [paths.states[node][paths.initial[d, n]] for n, node in enumerate(paths.nodes)]
        start, end = float(paths.start[d]), float(paths.end[d])
        lines += [(d, 0.0, node, current[n]) for n, node in enumerate(paths.nodes)]
        for j in range(paths.jump_offset[d], paths.jump_offset[d + 1]):
            n = int(paths.jump_node[j])
            lines.append((d, float(paths.jump_time[j]) - start, paths.nodes[n], current[n]))
            current[n] = paths.states[paths.nodes[n]][paths.jump_state[j]]
        lines += [(d, end - start, node, current[n]) for n, node in enumerate(paths.nodes)]
    table = pd.DataFrame(lines, columns=list(COLUMNS))
    write_table(path, table)


class PyagrumFile(FileFormat):
    """pyAgrum's paths, for ``convert``."""

    def recognises(self, path: Path, header: Callable[[], set[str]]) -> bool:
        """By its columns."""
        return set(COLUMNS) <= header()

    def read(self, path: Path, settings: ReadSettings) -> Content:
        """The paths."""
        return Content(paths=read_pyagrum(path))

    def write(self, content: Content, path: Path) -> None:
        """The paths."""
        write_pyagrum(content.require("paths", "pyagrum"), path)
