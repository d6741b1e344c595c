"""Reads a new table as ``learn`` or ``fit`` read the one a network comes from.

A network in a results folder knows its run: which columns, codes, labels and unit of time were
used, what was set by the experimenter. ``infer`` takes all of it over, unless a flag says
otherwise, and says what it took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from asterism.commands.input_table import file_hash
from asterism.commands.options import PanelOptions, TableOptions
from asterism.data.clock import UNITS
from asterism.data.table_file import read_header

#: settings that name one column; they are taken over only if the new table has it
COLUMNS = ("trajectory", "time", "end_column", "exact")
OTHERS = ("kind", "start", "end", "missing", "sort", "labels", "comma", "ties")
#: settings that say what a value of a node means
VALUES = ("exact_entry", "state_code", "censored")


class AsLearned(NamedTuple):
    """How to read a table, and sentences about what came from the run."""

    table: TableOptions
    panel: PanelOptions
    interventions: Path | None
    said: list[str]


def as_learned(
    options: TableOptions, record: Mapping[str, Any], interventions: Path | None = None
) -> AsLearned:
    """The settings with those of the run filled in; ``interventions`` are the user's own."""
    command = record.get("command")
    if not isinstance(command, Mapping) or command.get("name") not in ("learn", "fit"):
        return AsLearned(options, PanelOptions(), interventions, [])
    header = read_header(options.data, options.sheet)
    default = {field.name: field.default for field in fields(TableOptions)}
    taken: dict[str, Any] = {}
    for name in (*COLUMNS, *OTHERS):
        value = command.get(name)
        left_open = _same(getattr(options, name), default[name])
        if not left_open or value is None or _same(value, default[name]):
            continue
        if name in COLUMNS and value not in header and (name, value) != ("exact", "first"):
            continue
        if name == "labels":
            value = [column for column in value if column in header]
        if not _same(value, default[name]) and _is_usable(value, default[name]):
            taken[name] = tuple(value) if isinstance(value, list) else value
    unit = record.get("time_unit")
    if options.unit is None and isinstance(unit, str) and unit in UNITS.values():
        taken["unit"] = unit
    meant: dict[str, Any] = {
        name: tuple(command[name]) for name in VALUES if _is_usable(command.get(name), ())
    }
    meant = {name: value for name, value in meant.items() if value}
    flags = [_as_flag(name, value) for name, value in taken.items()]
    flags += [_as_flag(name, (one,)) for name, value in meant.items() for one in value]
    said = [f"As {command['name']} read its table: {' '.join(flags)}."] if flags else []
    before = command.get("interventions")
    if interventions is None and isinstance(before, str):
        if record.get("data_hash") == file_hash(options.data) and Path(before).is_file():
            interventions = Path(before)
        else:
            said.append(
                f"The network was learned from a table with interventions ({before}); if this "
                "table has some too, name their file with --interventions."
            )
    return AsLearned(replace(options, **taken), PanelOptions(**meant), interventions, said)


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, list | tuple):
        return not value and not default
    return bool(value == default)


def _is_usable(value: Any, default: Any) -> bool:
    """Whether a value from a file has the type of a setting."""
    if isinstance(default, tuple):
        return isinstance(value, list) and all(isinstance(v, str) for v in value)
    if isinstance(default, bool):
        return isinstance(value, bool)
    return isinstance(value, str) or (isinstance(value, int | float) and default is None)


def _as_flag(name: str, value: Any) -> str:
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return flag
    return f"{flag} {','.join(value) if isinstance(value, tuple) else value}"
