"""Networks and complete paths in PyCTBN's JSON form, in and out.

The file is a list; each entry has ``variables`` (Name, Value = number of states), ``dyn.str``
(From, To), ``dyn.cims`` (per variable and configuration of its parents, "A=0,B=1", a matrix of
rates) and ``samples``: per path a list of rows with ``Time`` and the state number of every variable
from then on. A last row of −1 marks the end of a path. States are numbers from 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asterism.data.files import read_json, write_text
from asterism.data.formats.registry import Content, FileFormat, NetworkTables, ReadSettings
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError
from asterism.numerics.arrays import FloatArray

STATES = "states"
"""An entry of ours that PyCTBN ignores: the labels of the states."""


def read_pyctbn(path: str | Path, index: int = 0) -> Content:
    """One network of a file, with its paths."""
    content = read_json(path)
    entries = content if isinstance(content, list) else [content]
    if not 0 <= index < len(entries):
        raise DataError(f"{str(path)!r} has {len(entries)} entries; there is no entry {index}.")
    entry = entries[index]
    if not isinstance(entry, dict) or not {"variables", "samples", "dyn.str"} & set(entry):
        raise DataError(
            f"{str(path)!r} is not a PyCTBN file: it has neither variables nor samples nor dyn.str."
        )
    try:
        frames = [pd.DataFrame(sample) for sample in entry.get("samples") or []]
        sizes = _sizes(entry, frames)
        states = entry.get(STATES) or {name: list(range(size)) for name, size in sizes.items()}
        parents: dict[str, list[str]] = {name: [] for name in sizes}
        for edge in pd.DataFrame(entry.get("dyn.str") or []).to_dict("records"):
            parents[str(edge["To"])].append(str(edge["From"]))
        cims = entry.get("dyn.cims")
        network = None
        if cims:
            rates = {name: _rates(name, cims[name], parents[name], sizes) for name in sizes}
            network = NetworkTables(parents, rates, states)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise DataError(f"{str(path)!r} is not laid out as PyCTBN does: {error!r}.") from None
    edges = [(p, child) for child, above in parents.items() for p in above]
    paths = _paths(frames, states, path) if frames else None
    return Content(paths=paths, network=network, nodes=list(states), edges=edges)


def write_pyctbn(path: str | Path, paths: Trajectories | None = None, network: Any = None) -> None:
    """Write paths, a network, or both."""
    known = paths if network is None else network
    if known is None:
        raise DataError("There are neither paths nor a network to write.")
    states, rates = known.states, {} if network is None else network.rates
    for node, table in rates.items():
        if not isinstance(table, np.ndarray):
            raise DataError(
                f"The rates of {node!r} are not a table, which is all that PyCTBN can hold."
            )
    if paths is not None:
        paths = paths.reordered(list(states), states)
    parents = {name: [] for name in states} if network is None else network.parents
    content = {
        "dyn.str": [{"From": p, "To": child} for child in states for p in parents[child]],
        "variables": [{"Name": name, "Value": len(states[name])} for name in states],
        "dyn.cims": {name: _cims(name, rates[name], parents[name]) for name in states if rates},
        "samples": [] if paths is None else [_rows(paths, d) for d in range(paths.n_trajectories)],
        STATES: {name: list(labels) for name, labels in states.items()},
    }
    write_text(path, json.dumps([content], allow_nan=False))


# ---- reading --------------------------------------------------------------------------------


def _sizes(entry: dict[str, Any], frames: list[pd.DataFrame]) -> dict[str, int]:
    listed = pd.DataFrame(entry.get("variables") or [])
    if len(listed):
        return {str(n): int(v) for n, v in zip(listed["Name"], listed["Value"])}
    names = [str(c) for c in frames[0].columns if c != "Time"]
    return {name: int(max(frame[name].max() for frame in frames)) + 1 for name in names}


def _rates(
    node: str, cims: Mapping[str, Any], parents: Sequence[str], sizes: Mapping[str, int]
) -> FloatArray:
    table = np.full((*(sizes[p] for p in parents), sizes[node], sizes[node]), np.nan)
    for key, matrix in cims.items():
        place = dict(part.rsplit("=", 1) for part in key.split(",") if "=" in part)
        index = tuple(int(place[p]) for p in parents)
        table[index] = pd.DataFrame(matrix).to_numpy(dtype=np.float64)
    if np.isnan(table).any():
        raise ValueError(f"dyn.cims of {node} lacks a configuration of its parents")
    return table


def _paths(
    frames: list[pd.DataFrame], states: Mapping[str, Sequence[Any]], path: str | Path
) -> Trajectories:
    names = list(states)
    pieces, ends = [], {}
    for d, frame in enumerate(frames):
        absent = [name for name in ["Time", *names] if name not in frame.columns]
        if absent or len(frame) == 0:
            what = f"has no {absent[0]!r}" if absent else "is empty"
            raise DataError(f"{str(path)!r}: sample {d} {what}.")
        time = frame["Time"].to_numpy(dtype=np.float64)
        state = frame[names].to_numpy(dtype=np.int64)
        ends[d] = float(time[-1])
        if len(state) > 1 and (state[-1] < 0).all():
            time, state = time[:-1], state[:-1]
        sizes = np.array([len(states[name]) for name in names])
        if ((state < 0) | (state >= sizes)).any():
            row, column = (int(k[0]) for k in np.nonzero((state < 0) | (state >= sizes)))
            raise DataError(
                f"{str(path)!r}: sample {d}, row {row} has state {state[row, column]} of "
                f"{names[column]!r}, which has the states 0 to {sizes[column] - 1}."
            )
        changed = np.ones(state.shape, dtype=np.bool_)
        changed[1:] = np.diff(state, axis=0) != 0
        rows, columns = np.nonzero(changed)
        entered = [states[names[n]][state[k, n]] for k, n in zip(rows, columns)]
        pieces.append(
            pd.DataFrame(
                {
                    "trajectory": d,
                    "time": time[rows],
                    "node": [names[n] for n in columns],
                    "state": np.array(entered, dtype=object),
                }
            )
        )
    return Trajectories.from_frame(pd.concat(pieces, ignore_index=True), states=states, end=ends)


# ---- writing --------------------------------------------------------------------------------


def _cims(node: str, rates: FloatArray, parents: Sequence[str]) -> dict[str, Any]:
    result = {}
    for index in product(*(range(n) for n in rates.shape[: len(parents)])):
        key = ",".join(f"{p}={k}" for p, k in zip(parents, index)) or node
        matrix = rates[index]
        result[key] = [{str(y): float(r) for y, r in enumerate(row)} for row in matrix]
    return result


def _rows(paths: Trajectories, d: int) -> list[dict[str, Any]]:
    state = {name: int(paths.initial[d, n]) for n, name in enumerate(paths.nodes)}
    rows: list[dict[str, Any]] = [{"Time": float(paths.start[d]), **state}]
    for j in range(paths.jump_offset[d], paths.jump_offset[d + 1]):
        state[paths.nodes[paths.jump_node[j]]] = int(paths.jump_state[j])
        rows.append({"Time": float(paths.jump_time[j]), **state})
    rows.append({"Time": float(paths.end[d]), **dict.fromkeys(paths.nodes, -1)})
    return rows


class PyctbnFile(FileFormat):
    """PyCTBN's networks and paths, for ``convert``."""

    def read(self, path: Path, settings: ReadSettings) -> Content:
        """One entry of the file."""
        return read_pyctbn(path, settings.index)

    def write(self, content: Content, path: Path) -> None:
        """Paths, a network, or both."""
        write_pyctbn(path, content.paths, content.network)
