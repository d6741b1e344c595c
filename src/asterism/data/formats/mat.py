"""Likelihoods in the MATLAB form of the method's authors, in and out.

``Z`` is a cell array with one entry per trajectory, (states, times, nodes): the probability of each
measurement under each state. ``time`` (also called ``TZ``) holds the times of each trajectory.
A damaged file can make scipy's reader crash, so it runs in a process of its own: this module,
started by itself.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asterism.data.files import write_bytes
from asterism.data.formats.registry import Content, FileFormat, ReadSettings
from asterism.data.observations import Observations
from asterism.errors import DataError
from asterism.numerics.arrays import FloatArray
from asterism.numerics.child_process import ChildFailed, limit_this_process, parse_in_child

TIME_NAMES = ("time", "TZ", "T")


def read_mat(path: str | Path, nodes: Sequence[str] = ()) -> Observations:
    """Observations with likelihoods; nodes are called 1, 2, … unless they are named."""
    try:
        parsed = parse_in_child("asterism.data.formats.mat", Path(path).read_bytes())
    except ChildFailed as problem:
        raise DataError(f"{str(path)!r}: {problem}.") from None
    with np.load(io.BytesIO(parsed), allow_pickle=False) as content:
        n_tables, n_clocks = (sum(name.startswith(key) for name in content) for key in "Zt")
        tables = [_cube(content[f"Z{d}"], d, path) for d in range(n_tables)]
        clocks = [np.ravel(content[f"t{d}"]) for d in range(n_clocks)]
    if len(tables) != len(clocks):
        raise DataError(
            f"{str(path)!r}: Z has {len(tables)} trajectories and the times have {len(clocks)}."
        )
    if not tables:
        raise DataError(f"{str(path)!r} holds no trajectories.")
    n_nodes = tables[0].shape[2]
    labels = list(nodes) or [str(n + 1) for n in range(n_nodes)]
    for d, (table, clock) in enumerate(zip(tables, clocks)):
        if table.shape[2] != n_nodes or table.shape[0] != tables[0].shape[0]:
            raise DataError(f"{str(path)!r}: trajectory {d + 1} of Z has another shape.")
        if table.shape[1] != len(clock):
            raise DataError(
                f"{str(path)!r}: trajectory {d + 1} has {table.shape[1]} measurements and "
                f"{len(clock)} times."
            )
    if len(labels) != n_nodes:
        raise DataError(f"{str(path)!r} has {n_nodes} nodes, but {len(labels)} names were given.")
    states = [str(x + 1) for x in range(tables[0].shape[0])]
    return Observations.from_likelihoods(
        clocks,
        [{label: table[:, :, n].T for n, label in enumerate(labels)} for table in tables],
        trajectories=[d + 1 for d in range(len(tables))],
        states=dict.fromkeys(labels, states),
    )


def write_mat(observations: Observations, path: str | Path) -> None:
    """Write likelihoods; a node that was not measured at a time gets ones, which say nothing."""
    from scipy.io import savemat

    records = observations.measurements
    for node, record in records.items():
        if record.likelihood is None:
            raise DataError(
                f"Node {node!r} holds values, but a .mat file holds likelihoods of states; write a "
                "long table with one column p_<state> per state."
            )
    sizes = {r.likelihood.shape[1] for r in records.values() if r.likelihood is not None}
    if len(sizes) != 1:
        raise DataError("All nodes must have the same number of states in a .mat file.")
    size = sizes.pop()
    cubes = np.empty((observations.n_trajectories, 1), dtype=object)
    clocks = np.empty((observations.n_trajectories, 1), dtype=object)
    for d in range(observations.n_trajectories):
        own = [r.time[r.trajectory == d] for r in records.values()]
        clock = np.unique(np.concatenate(own))
        cube = np.ones((size, len(clock), len(records)))
        for n, record in enumerate(records.values()):
            assert record.likelihood is not None
            mine = record.trajectory == d
            place = np.searchsorted(clock, record.time[mine])
            for k, likelihood in zip(place, record.likelihood[mine]):
                cube[:, k, n] *= likelihood  # replicates at one time: both count
        cubes[d, 0], clocks[d, 0] = cube, clock[:, None]
    genes = np.array(list(records), dtype=object)[:, None]
    buffer = io.BytesIO()
    savemat(buffer, {"Z": cubes, "time": clocks, "genes": genes})  # type: ignore[arg-type]
    write_bytes(path, buffer.getvalue())


def _parse(content: bytes) -> bytes:
    """The arrays of Z (Z0, Z1, …) and of the times (t0, …), as numpy stores them.

    Raises ValueError with what is wrong.
    """
    from scipy.io import loadmat

    try:
        found = loadmat(io.BytesIO(content))  # type: ignore[arg-type]
    except NotImplementedError:
        raise ValueError("it has MATLAB's 7.3 format; save it with -v7") from None
    except Exception as error:  # scipy raises many kinds for damaged files
        raise ValueError(f"it is not a MATLAB file: {error}") from None
    names = sorted(str(name) for name in found if not name.startswith("__"))
    time_name = next((name for name in TIME_NAMES if name in found), None)
    if "Z" not in found or time_name is None:
        raise ValueError(
            f"it needs the cell arrays Z and time (or TZ); it holds {', '.join(names) or 'nothing'}"
        )
    arrays: dict[str, FloatArray] = {}
    for key, name in (("Z", "Z"), ("t", time_name)):
        for d, cell in enumerate(_cells(found[name])):
            try:
                arrays[f"{key}{d}"] = np.asarray(cell, dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(f"entry {d + 1} of {name} does not hold numbers") from None
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _cells(value: Any) -> list[Any]:
    """The entries of a cell array; a bare array is one entry."""
    array = np.asarray(value)
    return list(array.ravel()) if array.dtype == object else [array]


def _cube(cell: Any, d: int, path: str | Path) -> FloatArray:
    """(states, times, nodes); MATLAB drops a last dimension of size one."""
    table = np.asarray(cell, dtype=np.float64)
    if table.ndim == 2:
        table = table[:, :, None]
    if table.ndim != 3:
        raise DataError(
            f"{str(path)!r}: trajectory {d + 1} of Z is not an array (states, times, nodes)."
        )
    return table


class MatFile(FileFormat):
    """Likelihoods in a MATLAB file, for ``convert``."""

    def read(self, path: Path, settings: ReadSettings) -> Content:
        """The likelihoods, under the names that the user gives."""
        return Content(likelihoods=read_mat(path, settings.nodes))

    def write(self, content: Content, path: Path) -> None:
        """The likelihoods."""
        write_mat(content.require("likelihoods", "mat"), path)


if __name__ == "__main__":
    limit_this_process()
    try:
        sys.stdout.buffer.write(_parse(sys.stdin.buffer.read()))
    except (ValueError, MemoryError) as problem:
        sys.exit(str(problem) or "there is not enough memory for it")
