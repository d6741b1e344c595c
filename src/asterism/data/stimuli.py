"""Owns stimuli: times during which something from outside acts, on nodes yet to be learned.

A drug, a change of medium, light. An intervention (``interventions.py``) names the node that it
holds and the state; of a stimulus only the times are known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import columns
from asterism.data.interventions import ends
from asterism.data.labels import as_names, canonical
from asterism.data.measurements import objects
from asterism.data.problems import Problems
from asterism.data.table_reader import TableReader
from asterism.errors import DataError

COLUMNS = ("name", "trajectory", "start", "end")


def read_stimuli(
    frame: pd.DataFrame,
    trajectories: Sequence[object],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    comma: str | None = None,
) -> pd.DataFrame:
    """Check a table of stimuli: one row per name and trajectory, with its times filled in."""
    absent = [c for c in ("name", "trajectory") if c not in frame.columns]
    if absent:
        raise DataError(
            f"the table of stimuli has no column {absent[0]!r}; it needs {', '.join(COLUMNS)}"
        )
    problems = Problems()
    table = TableReader(frame, problems, "stimuli", comma)
    name, raw = table.labels("name"), table.cells("trajectory")
    everywhere, label = columns.missing(raw), as_names(raw)
    number = {canonical(known): d for d, known in enumerate(trajectories)}
    place = np.array([number.get(canonical(x), -1) for x in label], dtype=np.int64)
    known = f"the first ones are {list(trajectories[:5])}"
    table.note((place < 0) & ~everywhere, f"there is no trajectory {{value}}; {known}", value=label)
    begin, stop = (ends(table, column) for column in ("start", "end"))
    problems.raise_errors()
    rows = []
    for i in range(len(frame)):
        hit = np.arange(len(trajectories)) if everywhere[i] else place[i : i + 1]
        first, last = np.fmax(begin[i], start[hit]), np.fmin(stop[i], end[hit])
        inside = np.flatnonzero(first < last)
        if len(inside) == 0:
            problems.add(
                f"of the stimulus {str(name[i])!r} nothing lies in a trajectory",
                row=int(table.rows[i]),
                table="stimuli",
            )
        rows += [
            (str(name[i]).strip(), trajectories[int(hit[j])], float(first[j]), float(last[j]))
            for j in inside
        ]
    problems.raise_errors()
    return pd.DataFrame(
        {
            "name": objects(row[0] for row in rows),
            "trajectory": objects(row[1] for row in rows),
            "start": np.array([row[2] for row in rows], dtype=np.float64),
            "end": np.array([row[3] for row in rows], dtype=np.float64),
        }
    )
