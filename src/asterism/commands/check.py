"""``asterism check``: everything wrong with a table in one pass, and what is in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from asterism.commands import exits
from asterism.commands.choose_emission import NOTHING, choose_emissions, nothing_to_learn_from
from asterism.commands.data_summary import in_words, summarise
from asterism.commands.input_table import Table, TableOptions, read_table
from asterism.commands.wording import in_flags
from asterism.data.observations import Observations

#: problems, and nodes, that are listed one by one on a screen; JSON holds all
SHOWN = 200


@dataclass(frozen=True)
class CheckOptions:
    table: TableOptions
    max_parents: int = 2
    exogenous: Sequence[str] = ()
    as_json: bool = False


def run(options: CheckOptions) -> int:
    """Print the summary and every problem to stdout; 3 if there is an error."""
    table = read_table(options.table)
    errors = [p for p in table.problems if p.severity == "error"]
    summary: dict[str, Any] = {}
    if table.data is not None:
        summary = summarise(table.data, options.max_parents, options.exogenous)
        summary["warnings"] += [in_flags(str(p)) for p in table.problems if p.severity != "error"]
    how, is_empty = _how_learn_would_read(table)
    decisions = [*table.decisions, *how]
    is_empty = is_empty and not errors
    clashes: list[str] = summary.get("clashes", [])
    if options.as_json:
        content = {
            "data": str(options.table.data),
            "ok": not (errors or clashes or is_empty),
            "nothing_to_learn_from": is_empty,
            "problems": [
                {
                    "message": in_flags(str(p)),
                    "row": p.row,
                    "column": p.column,
                    "trajectory": None if p.trajectory is None else str(p.trajectory),
                    "value": None if p.value is None else str(p.value),
                    "severity": p.severity,
                }
                for p in table.problems
            ],
            "decisions": decisions,
            **summary,
        }
        click.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        for line in [*decisions, *_in_words(summary)]:
            click.echo(line)
        for warning in summary.get("warnings", []):
            click.echo(f"Warning: {warning}")
        for problem in errors[:SHOWN]:
            click.echo(f"Error: {in_flags(str(problem))}")
        for clash in clashes[:SHOWN]:
            click.echo(f"Error: {clash}")
        if len(errors) > SHOWN:
            click.echo(f"… and {len(errors) - SHOWN:,} more; --json lists them all.")
        if is_empty:
            click.echo(f"Error: {NOTHING}")
        click.echo(_verdict(len(errors) + len(clashes), is_empty))
    return exits.BAD_DATA if errors or clashes or is_empty else exits.OK


def _how_learn_would_read(table: Table) -> tuple[list[str], bool]:
    """What it would decide, and whether it would find nothing to learn from."""
    if not isinstance(table.data, Observations):
        return [], False
    choice = choose_emissions(table.data)
    return choice.decisions, nothing_to_learn_from(table.data, choice)


def _verdict(n_errors: int, is_empty: bool) -> str:
    if n_errors:
        return f"{n_errors:,} problem{'' if n_errors == 1 else 's'} to correct."
    if is_empty:
        return "The table is well-formed, but asterism learn will refuse it."
    return "No errors: the table can be used."


def _in_words(summary: dict[str, Any]) -> list[str]:
    if not summary:
        return []
    lines = in_words(summary)
    if "n_jumps" in summary:
        rows = [(n["node"], str(n["jumps"]), f"{n['states']} states") for n in summary["nodes"]]
        titles = ("node", "jumps", "")
    else:
        rows = [(n["node"], str(n["points"]), _values(n)) for n in summary["nodes"]]
        titles = ("node", "points", "")
    return lines + _aligned([titles, *rows[:SHOWN]])


def _values(node: dict[str, Any]) -> str:
    share = f"{node['missing']:.0%} missing; " if node["points"] else ""
    return f"{share}{node['values']}"


def _aligned(rows: list[tuple[str, str, str]]) -> list[str]:
    first, second = (max(len(row[i]) for row in rows) for i in (0, 1))
    return [f"  {a:<{first}}  {b:>{second}}  {c}".rstrip() for a, b, c in rows]
