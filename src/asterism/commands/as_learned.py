"""Reads a new table as ``learn`` read the one a network was learned from.

A network in a results folder knows its run: which columns, codes, labels and unit of time were
used. ``infer`` takes all of it over, unless a flag says otherwise, and says what it took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from asterism.commands.input_table import TableOptions
from asterism.data.clock import UNITS
from asterism.data.table_file import read_header

#: settings that name one column; they are taken over only if the new table has it
COLUMNS = ("trajectory", "time", "end_column", "exact")
OTHERS = ("kind", "start", "end", "missing", "sort", "labels", "ties")


def as_learned(options: TableOptions, record: Mapping[str, Any]) -> tuple[TableOptions, list[str]]:
    """The settings with those of the run filled in, and a sentence about them."""
    command = record.get("command")
    if not isinstance(command, Mapping) or command.get("name") != "learn":
        return options, []
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
    if not taken:
        return options, []
    flags = " ".join(_as_flag(name, value) for name, value in taken.items())
    return replace(options, **taken), [f"As learn read its table: {flags}."]


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
