"""Flags that several commands share, and the TOML file that can stand in for them.

A file given with ``--config`` holds one key per flag (``max-parents = 3``), at the top or in a
table named after the command; flags on the command line win. Only click is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from asterism.commands.exits import Refused

Decorated = Callable[..., Any]

READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(path_type=Path)

#: what ``convert`` reads and writes
FORMATS = ("paths", "pyagrum", "pyctbn", "likelihoods", "mat", "network", "edges", "graphml")

#: numbers that must be at least one, at least zero, or above zero
COUNT = click.IntRange(min=1)
AMOUNT = click.FloatRange(min=0)
POSITIVE = click.FloatRange(min=0, min_open=True)


def several(*decorators: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Decorators as one, in the order in which help should list them."""

    def decorate(function: Decorated) -> Decorated:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def names(_: click.Context, __: click.Parameter, value: Any) -> tuple[str, ...]:
    """``A,B`` and repeated flags alike."""
    given = [value] if isinstance(value, str) else list(value or ())
    return tuple(part.strip() for text in given for part in str(text).split(",") if part.strip())


def edges(_: click.Context, parameter: click.Parameter, value: Any) -> tuple[tuple[str, str], ...]:
    """``A->B``; ``A→B`` is understood too."""
    given = [value] if isinstance(value, str) else list(value or ())
    found = []
    for text in given:
        parent, arrow, child = str(text).replace("→", "->").partition("->")
        if not arrow or not parent.strip() or not child.strip():
            raise click.BadParameter(f"{text!r} is no edge; write PARENT->CHILD.", param=parameter)
        found.append((parent.strip(), child.strip()))
    return tuple(found)


def prior(_: click.Context, parameter: click.Parameter, value: str) -> tuple[float, float | str]:
    """``SHAPE`` or ``SHAPE,RATE``; the rate may be ``auto``."""
    shape, _comma, rate = str(value).partition(",")
    try:
        found = float(shape), None if rate.strip() in ("", "auto") else float(rate)
    except ValueError:
        found = math.nan, None
    if not all(number is None or 0.0 < number < math.inf for number in found):
        raise click.BadParameter(
            f"{value!r} is no prior; write SHAPE or SHAPE,RATE with positive numbers, such as 5 "
            "or 5,10.",
            param=parameter,
        )
    return found[0], "auto" if found[1] is None else found[1]


def jobs(_: click.Context, parameter: click.Parameter, value: int) -> int:
    """1, 2, … or -1."""
    if value < 1 and value != -1:
        raise click.BadParameter(f"{value} is not 1, 2, … or -1 for all cores.", param=parameter)
    return value


def read_config(context: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """Make the values of a TOML file the defaults of this command."""
    if path is None:
        return None
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"{str(path)!r} is not a TOML file: {error}.") from None
    group = context.parent.command if context.parent is not None else None
    commands = group.commands if isinstance(group, click.Group) else {}
    own = content.get(context.info_name or "", {})
    shared = {key: value for key, value in content.items() if key not in commands}
    if not isinstance(own, dict):
        raise Refused(f"{str(path)!r}: [{context.info_name}] must be a table of settings.")
    known = {
        parameter.name
        for parameter in context.command.params
        if isinstance(parameter, click.Option) and parameter.name not in ("config", "help")
    }
    values = {key.replace("-", "_"): value for key, value in {**shared, **own}.items()}
    # the file may say --output and --parents-style names as the flags do
    flags = {
        flag.lstrip("-").replace("-", "_"): parameter.name
        for parameter in context.command.params
        for flag in parameter.opts
    }
    values = {flags.get(key) or key: value for key, value in values.items()}
    unknown = sorted(set(values) - known - {"data"})
    if unknown:
        valid = ", ".join(sorted(str(name).replace("_", "-") for name in known))
        raise Refused(
            f"{str(path)!r} sets {', '.join(unknown)}, unknown to asterism {context.info_name}; "
            f"it may set {valid}."
        )
    context.default_map = {**(context.default_map or {}), **values}
    return path


config_option = click.option(
    "--config",
    type=READABLE,
    is_eager=True,
    callback=read_config,
    help="TOML file with any of these settings; flags win.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print a summary as JSON to stdout."
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Say nothing but warnings.")
force_option = click.option("--force", is_flag=True, help="Overwrite what is there.")
run_option = click.option(
    "-o",
    "--output",
    type=FOLDER,
    default=Path("RUN"),
    show_default=True,
    help="Folder for the results.",
)
jobs_option = click.option(
    "-j",
    "--jobs",
    type=int,
    default=-1,
    callback=jobs,
    show_default="all cores",
    help="Threads to use.",
)
seed_option = click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
emission_option = click.option(
    "--emission",
    multiple=True,
    metavar="[NODE=]KIND",
    help="How values arise from states: gaussian, poisson, exact, categorical, threshold or "
    "likelihood, for all nodes or for one; parameters after a colon, such as "
    "gaussian:-1,1:0.2 (means:scale).",
)

#: how a table of measurements is to be read
table_options = several(
    click.argument("data", type=READABLE),
    click.option("--trajectory", metavar="COLUMN", help="Column that names the trajectory."),
    click.option("--time", metavar="COLUMN", help="Column with the time."),
    click.option(
        "--nodes", multiple=True, callback=names, metavar="A,B,…", help="Columns that are nodes."
    ),
    click.option(
        "--kind",
        type=click.Choice(["auto", "wide", "long", "paths"]),
        default="auto",
        show_default=True,
        help="One column per node, one row per measurement, or complete paths.",
    ),
    click.option(
        "--start",
        type=float,
        help="Start of every trajectory; its first measurement if not given.",
    ),
    click.option(
        "--end", type=float, help="End of every trajectory; its last measurement if not given."
    ),
    click.option("--sort", is_flag=True, help="Sort the rows by time first."),
    click.option(
        "--labels",
        multiple=True,
        callback=names,
        metavar="A,B,…",
        help="Nodes whose values are names of states, even where they look like numbers.",
    ),
    click.option(
        "--ties",
        type=click.Choice(["error", "order"]),
        default="error",
        show_default=True,
        help="When nodes jump at one time: refuse, or take the order of the rows.",
    ),
    click.option(
        "--exact",
        metavar="COLUMN",
        help="Column that marks rows which report the state itself; or first, for the first row "
        "of each trajectory.",
    ),
)

#: flags that belong to the table rather than to what is done with it
TABLE_FLAGS = (
    *("data", "trajectory", "time", "nodes", "kind", "start", "end"),
    *("sort", "labels", "ties", "exact"),
)


def split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the table, and the others."""
    table = {name: options[name] for name in TABLE_FLAGS}
    return table, {name: value for name, value in options.items() if name not in table}
