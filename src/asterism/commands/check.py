"""``asterism check``: everything wrong with a table in one pass, and what is in it."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import islice
from typing import Any

import click
import pandas as pd

from asterism.commands import exits
from asterism.commands.console import Console, Done
from asterism.commands.exits import in_flags
from asterism.commands.input_table import Table, read_table, with_sheet
from asterism.commands.learnable import Learnable, in_words, make_learnable, many_levels, summarise
from asterism.commands.options import CheckOptions, PanelOptions
from asterism.commands.panel import hints
from asterism.data.observations import Observations
from asterism.data.problems import TableProblem, listed
from asterism.data.table_file import read_header, sheet_names
from asterism.data.trajectories import Trajectories
from asterism.errors import AsterismError, DataError, composed

#: nodes from which on their levels are not counted here
MANY = 100

#: nodes that are listed one by one on a screen; JSON holds all
SHOWN = 200

#: columns that are named in JSON
SHOWN_COLUMNS = 2_000

#: how much of a table is drawn
DRAWN_NODES, DRAWN_TRAJECTORIES, DRAWN_POINTS = 12, 12, 200


def run(options: CheckOptions, console: Console) -> Done:
    """Print the summary and every problem to stdout; 3 if there is an error."""
    in_file: dict[str, Any] = {}
    try:
        if options.as_json:
            in_file = _in_file(options)
        with console.busy(f"Reading {options.table.data}"):
            table = read_table(options.table)
    except DataError as error:
        if not options.as_json:
            raise
        problems = [_as_dict(TableProblem(in_flags(error.sentence)))]
        found_out = {"data": str(options.table.data), "ok": False, "problems": problems}
        return Done({**found_out, **in_file}, exits.BAD_DATA)
    summary: dict[str, Any] = {}
    found = Learnable(None)
    if table.data is not None:
        if not table.errors:
            with console.busy("Counting the levels of every node"):
                found = _as_learn_would(table, options)
        n_states = {node: len(labels) for node, labels in (found.states or {}).items()}
        summary = summarise(table.data, options.max_parents, found.outside, n_states, found.moving)
        warned = [p for p in table.problems if p.severity == "warning"]
        summary["warnings"] += [in_flags(line) for line in listed(warned)]
        summary["warnings"] += many_levels(found)
        if isinstance(found.data, Observations):
            summary["warnings"] += hints(found.data, PanelOptions())
    decisions = [*table.decisions, *found.decisions]
    n_errors = len(table.errors) + len(found.errors)
    code = exits.BAD_DATA if n_errors else exits.OK
    if options.as_json:
        content = {
            "data": str(options.table.data),
            "ok": n_errors == 0,
            "problems": [_as_dict(p) for p in table.problems if p.severity != "note"]
            + [_as_dict(TableProblem(text)) for text in found.errors],
            "decisions": decisions,
            "columns": asdict(table.columns),
            **in_file,
            "courses": _courses(table.data),
            **summary,
        }
        return Done(content, code)
    for line in [*decisions, *_in_words(summary)]:
        click.echo(line)
    for warning in summary.get("warnings", []):
        click.echo(f"Warning: {warning}")
    lines = [*map(in_flags, listed(table.errors)), *found.errors]
    for line in lines:
        click.echo(line if line.startswith("…") else f"Error: {line}")
    click.echo(_verdict(n_errors, len(lines) < n_errors))
    return Done(code=code)


def _in_file(options: CheckOptions) -> dict[str, Any]:
    """The names of the columns, and of the sheets of a workbook."""
    table = with_sheet(options.table)
    header = read_header(table.data, table.sheet)
    return {"header": header[:SHOWN_COLUMNS], "sheets": sheet_names(table.data)}


def _as_learn_would(table: Table, options: CheckOptions) -> Learnable:
    """What ``learn`` would decide, or refuse.

    In a wide table the kind of each node and its levels are left to ``learn``: seconds for each.
    """
    states, data = options.states, table.data
    many = isinstance(data, Observations) and len(data.nodes) > MANY
    many = many and not isinstance(states, int)
    try:
        found = make_learnable(
            table,
            options.emission,
            2 if many else states,
            options.table.nodes,
            options.exogenous,
            offset="none" if many else options.offset,
            logs=options.log,
        )
        if many:
            said = [text for text in found.decisions if not text.startswith("Numbers are read as")]
            later = (
                f"Levels and kinds of numbers are not looked at in a table of more than {MANY} "
                "nodes; asterism learn looks at those that it uses (--states, --top)."
            )
            found = replace(found, decisions=[*said, later])
        if isinstance(found.data, Trajectories) and not found.errors:
            _check_paths(found.data, options)
        return found
    except AsterismError as error:
        return Learnable(None, errors=[in_flags(error.sentence)])


def _check_paths(paths: Trajectories, options: CheckOptions) -> None:
    """Refuse what the learner refuses in complete paths, such as two jumps at one time."""
    from asterism.learning.learner_settings import StructurePrior
    from asterism.learning.search.complete import check_paths
    from asterism.learning.search.settings import numbered_prior

    prior = numbered_prior(
        tuple(paths.nodes), options.max_parents, StructurePrior(exogenous=options.exogenous)
    )
    check_paths(paths, prior, None, options.table.ties)


def _courses(data: Observations | Trajectories | None) -> list[dict[str, Any]]:
    """Some measured numbers over time, for a first picture: per node its lines of [time, value]."""
    if not isinstance(data, Observations):
        return []
    frame = data.select(nodes=data.nodes[:DRAWN_NODES]).to_frame("long")
    frame["value"] = pd.to_numeric(frame["value"], errors="coerce")
    frame = frame.dropna(subset=["value"])
    return [
        {
            "node": str(node),
            "lines": [
                line[["time", "value"]].iloc[:DRAWN_POINTS].to_numpy(float).tolist()
                for _, line in islice(own.groupby("trajectory", sort=False), DRAWN_TRAJECTORIES)
            ],
        }
        for node, own in frame.groupby("node", sort=False)
    ]


def _as_dict(problem: TableProblem) -> dict[str, Any]:
    return {
        "message": in_flags(composed(problem.message, problem.where)),
        "remedy": in_flags(problem.remedy),
        "row": problem.row,
        "column": problem.column,
        "trajectory": None if problem.trajectory is None else str(problem.trajectory),
        "value": None if problem.value is None else str(problem.value),
        "severity": problem.severity,
    }


def _verdict(n_errors: int, some_are_left_out: bool) -> str:
    if n_errors:
        more = " (--json lists them all)" if some_are_left_out else ""
        return f"{n_errors:,} problem{'' if n_errors == 1 else 's'} to correct{more}."
    return "No errors: asterism learn can use the table."


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
