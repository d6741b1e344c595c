"""Flags: what their values may be, the shapes they come in, and those that several commands share.

A file given with ``--config`` can stand in for flags: it holds one key per flag
(``max-parents = 3``), at the top or in a table named after the command. Flags on the command line
win. Only click is imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from asterism.commands.exits import Refused
from asterism.data.formats.registry import FORMATS
from asterism.errors import counted
from asterism.model.emission_kinds import kinds_for_flags

Decorated = Callable[..., Any]
Decorator = Callable[[Decorated], Decorated]

# --- values -----------------------------------------------------------------------------------

READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(path_type=Path)
OLD_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

#: numbers that must be at least zero, or above zero
AMOUNT = click.FloatRange(min=0)
POSITIVE = click.FloatRange(min=0, min_open=True)


def names(_: click.Context, __: click.Parameter, value: Any) -> tuple[str, ...]:
    """``A,B`` and repeated flags alike."""
    given = [value] if isinstance(value, str) else list(value or ())
    return tuple(part.strip() for text in given for part in str(text).split(",") if part.strip())


def edges(_: click.Context, parameter: click.Parameter, value: Any) -> tuple[tuple[str, str], ...]:
    """``A:B`` or ``"A->B"`` (quoted, or the shell takes > for itself); ``A→B`` is fine too."""
    given = [value] if isinstance(value, str) else list(value or ())
    found = []
    for text in given:
        edge = str(text).replace("→", "->")
        parent, arrow, child = edge.partition("->" if "->" in edge else ":")
        if not arrow or not parent.strip() or not child.strip():
            raise click.BadParameter(
                f"{text!r} is not an edge; write PARENT:CHILD or 'PARENT->CHILD' in quotes.",
                param=parameter,
            )
        found.append((parent.strip(), child.strip()))
    return tuple(found)


def prior(
    _: click.Context, parameter: click.Parameter, value: str | None, alone: str = "by node"
) -> tuple[float, float | str] | None:
    """``SHAPE`` or ``SHAPE,RATE``; ``alone`` is the rate of the first. None: none was given."""
    if value is None:
        return None
    text, _comma, rate = (part.strip() for part in str(value).partition(","))
    words = {"": alone, "auto": "auto", alone.replace(" ", "-"): alone}
    found: tuple[float, float | str] = math.nan, alone
    with suppress(ValueError):
        found = float(text), words[rate] if rate in words else float(rate)
    if not all(isinstance(n, str) or 0.0 < n < math.inf for n in found):
        raise click.BadParameter(
            f"{value!r} is not a prior; write SHAPE or SHAPE,RATE, such as 5 or 5,10: positive "
            f"numbers, or {' or '.join(w for w in words if w)} as the rate.",
            param=parameter,
        )
    return found


def n_levels(_: click.Context, parameter: click.Parameter, value: Any) -> int | str:
    """``auto`` or a whole number from 2."""
    text = str(value).strip().lower()
    if text == "auto":
        return text
    if not text.isdigit() or int(text) < 2:
        raise click.BadParameter(f"{value!r} is not auto, 2, 3, ….", param=parameter)
    return int(text)


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
    commands = getattr(context.parent and context.parent.command, "commands", {})
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
    flags = {
        flag.lstrip("-").replace("-", "_"): parameter.name
        for parameter in context.command.params
        for flag in parameter.opts
    }
    values = {flags.get(key) or key: value for key, value in values.items()}
    unknown = sorted(set(values) - known - {"data"})
    if unknown:
        names = {to: flag.replace("_", "-") for flag, to in flags.items() if len(flag) > 1}
        valid = sorted(names[name] for name in known)
        tables = [key for key in unknown if isinstance(values[key], dict)]
        if tables:
            raise Refused(
                f"{str(path)!r} has a table [{tables[0]}], which is no command; the commands are "
                f"{', '.join(commands)}."
            )
        near = get_close_matches(unknown[0].replace("_", "-"), valid, 1)
        hint = f" (perhaps {near[0]})" if near else ""
        raise Refused(
            f"{str(path)!r} sets {', '.join(unknown)}{hint}, unknown to asterism "
            f"{context.info_name}; it may set {', '.join(valid)}."
        )
    for parameter in context.command.params:
        key, many = parameter.name or "", getattr(parameter, "multiple", False)
        if many and isinstance(values.get(key), str):  # as after the flag
            values[key] = [values[key]]
        elif isinstance(values.get(key), dict | list) and not many and parameter.callback is None:
            raise Refused(f"{str(path)!r} sets {key} to {values[key]!r}; it takes a single value.")
    context.default_map = {**(context.default_map or {}), **values}
    return path


def known_format(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A format of the registry."""
    if value is not None and value not in FORMATS:
        raise click.BadParameter(
            f"{value!r} is not one of {', '.join(map(repr, FORMATS))}.", param=parameter
        )
    return value


# --- emissions in words -----------------------------------------------------------------------

#: kinds that words on the command line have a meaning of their own for, and their parameters
_MOST = {"gaussian": 2, "poisson": 1, "categorical": 1, "threshold": 2, "exact": 0, "likelihood": 0}

#: chance that a reported label is wrong, where learning of a confusion matrix starts
ERROR_RATE = 0.1


def parse_emission(text: str, n_states: int, n_labels: int | None = None) -> Any:
    """An emission from words: ``gaussian``, ``gaussian:-1,1:0.2``, ``categorical:0.05``, …"""
    from asterism.model.emissions import (
        Categorical,
        Exact,
        Gaussian,
        Likelihood,
        Poisson,
        Threshold,
    )

    kind, *parameters = [part.strip() for part in text.strip().split(":")]
    kind = kind.lower()
    learn = "learn" in parameters
    parameters = [p for p in parameters if p != "learn"]
    kinds = kinds_for_flags()
    if kind not in kinds:
        raise Refused(f"--emission {text!r} is unknown; the kinds are {', '.join(kinds)}.")
    values = [_numbers(p, text) for p in parameters]
    if kind not in _MOST:
        return _of_ones_own(kind, text, values, learn)
    if len(parameters) > _MOST[kind]:
        raise Refused(f"--emission {text!r} has more than {counted(_MOST[kind], 'parameter')}.")
    match kind:
        case "gaussian":
            if not values:
                return Gaussian(learn=True)
            scale: Any = values[1] if len(values) > 1 else None
            scale = scale[0] if scale is not None and len(scale) == 1 else scale
            return Gaussian(values[0], scale, learn=learn or scale is None)
        case "poisson":
            return Poisson(values[0], learn=learn) if values else Poisson(learn=True)
        case "categorical":
            size = max(n_labels or n_states, 2)
            wrong = values[0][0] if values else ERROR_RATE
            if not 0.0 <= wrong < 1.0:
                raise Refused(f"--emission {text!r}: the chance of an error must lie in [0, 1).")
            confusion = [
                [1.0 - wrong if x == y else wrong / (size - 1) for y in range(size)]
                for x in range(size)
            ]
            return Categorical(confusion, learn=learn or not values)
        case "threshold":
            mean, spread = [*(v[0] for v in values), None, None][:2]
            return Threshold(mean, spread)
        case "exact":
            return Exact()
    return Likelihood()


def _of_ones_own(kind: str, text: str, values: list[list[float]], learn: bool) -> Any:
    """An emission that somebody added: its class, with these numbers in their order."""
    from asterism.model.emissions import emission_class

    given: list[Any] = [tuple(group) if len(group) > 1 else group[0] for group in values]
    settings: dict[str, Any] = {"learn": True} if learn else {}
    try:
        return emission_class(kind)(*given, **settings)
    except TypeError as error:
        raise Refused(f"--emission {text!r} does not suit {kind}: {error}.") from None


def as_flag(emission: Any) -> str | None:
    """What to write behind ``--emission NODE=`` to get this emission; None if nothing does."""
    from asterism.model.emissions import Gaussian, Poisson

    match emission:
        case Gaussian(means=means, scale=scale) if means is not None and scale is not None:
            scales = scale if isinstance(scale, Sequence) else (scale,)
            return f"gaussian:{_listed_numbers(means)}:{_listed_numbers(scales)}"
        case Poisson(means=means) if means is not None:
            return f"poisson:{_listed_numbers(means)}"
    return None


def _listed_numbers(values: Any) -> str:
    return ",".join(f"{float(v):.6g}" for v in values)


def _numbers(text: str, whole: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise Refused(f"--emission {whole!r}: {text!r} is not a list of numbers.") from None


# --- shapes -----------------------------------------------------------------------------------


def several(*decorators: Decorator) -> Decorator:
    """Decorators as one, in the order in which help should list them."""

    def decorate(function: Decorated) -> Decorated:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def setting(*flags: str, default: Any, help: str, **rest: Any) -> Decorator:
    """A value with a default that help shows."""
    return click.option(*flags, default=default, show_default=True, help=help, **rest)


def whole(flag: str, default: int, help: str, at_least: int = 1) -> Decorator:
    """A whole number."""
    return setting(flag, default=default, help=help, type=click.IntRange(min=at_least))


def choice(flag: str, first: str, *others: str, help: str) -> Decorator:
    """One of a few words, the first of them unless another is given."""
    return setting(flag, default=first, help=help, type=click.Choice([first, *others]))


def file(flag: str, help: str, **rest: Any) -> Decorator:
    """A file that is there."""
    return click.option(flag, type=READABLE, help=help, **rest)


def new_file(flag: str, help: str) -> Decorator:
    """A file to write."""
    return click.option(flag, type=FILE, help=help)


def switch(*flags: str, help: str) -> Decorator:
    """On if given."""
    return click.option(*flags, is_flag=True, help=help)


def several_names(flag: str, help: str) -> Decorator:
    """Names with commas between them, or the flag several times."""
    return click.option(flag, multiple=True, callback=names, metavar="A,B,…", help=help)


def several_edges(flag: str, help: str) -> Decorator:
    """An edge each time the flag is given."""
    return click.option(flag, multiple=True, callback=edges, metavar="A:B", help=help)


def file_format(flag: str, name: str, help: str) -> Decorator:
    """A format of files that ``convert`` knows."""
    return click.option(flag, name, callback=known_format, metavar="FORMAT", help=help)


# --- flags of several commands ----------------------------------------------------------------

config_option = file(
    "--config",
    "TOML file with settings; flags override it.",
    is_eager=True,
    callback=read_config,
)
json_option = switch("--json", "as_json", help="Print a summary as JSON to stdout.")
quiet_option = switch("-q", "--quiet", help="Print only warnings.")
force_option = switch("--force", help="Overwrite existing results.")
#: of every command that writes results
result_options = several(force_option, json_option, quiet_option)
minutes_option = click.option(
    "--minutes", type=POSITIVE, help="Stop after this time, with the best so far."
)
unverified_option = switch(
    "--unverified", help="Read results as they are, also where a file was changed since."
)
truth_option = file(
    "--truth", "Table of the true edges (parent,child or source,target) to compare with."
)
run_option = setting(
    *("-o", "--output"), type=FOLDER, default=Path("RUN"), help="Folder for the results."
)
jobs_option = click.option(
    *("-j", "--jobs"),
    type=int,
    default=-1,
    callback=jobs,
    show_default="all cores",
    help="Number of threads.",
)
seed_option = setting("--seed", type=click.IntRange(min=0), default=0, help="Random seed.")
emission_option = click.option(
    "--emission",
    multiple=True,
    metavar="[NODE=]KIND",
    help=f"How measured values depend on states: {', '.join(kinds_for_flags())}; for all nodes or "
    "for one; parameters after a colon, such as gaussian:-1,1:0.2 (means:scale).",
)
states_option = setting(
    "--states",
    default="auto",
    callback=n_levels,
    metavar="auto|N",
    help="Hidden states of measured numbers; auto counts the levels of each node.",
)
prior_option = setting(
    "--prior",
    default=None,
    callback=prior,
    metavar="SHAPE[,RATE]",
    help="Gamma prior of the rates; auto takes the time scale from the data, by-node that of each "
    "node.  [default: 5,by-node; complete paths: 1,auto]",
)


def max_parents_option(help: str) -> Decorator:
    """How many parents a node may have, in the words of the command."""
    return whole("--max-parents", 2, help, at_least=0)


def accuracy_options(tolerance: str, time_step: str, max_sweeps: str, n_sweeps: int) -> Decorator:
    """How accurate inference is to be, in the words of the command."""
    return several(
        setting("--tolerance", type=POSITIVE, default=1e-3, help=tolerance),
        click.option("--time-step", type=POSITIVE, help=time_step),
        whole("--max-sweeps", n_sweeps, max_sweeps),
    )


def seconds(minutes: float | None) -> float | None:
    """What ``--minutes`` means to the library."""
    return None if minutes is None else 60.0 * minutes


#: how a table of measurements is to be read
table_options = several(
    click.argument("data", type=READABLE),
    click.option("--trajectory", metavar="COLUMN", help="Column that names the trajectory."),
    click.option("--time", metavar="COLUMN", help="Column that holds the time."),
    several_names("--nodes", "Columns to use as nodes; all others if not given."),
    choice(
        *("--kind", "auto", "wide", "long", "paths"),
        help="One column per node (wide), one row per measurement (long), or complete paths.",
    ),
    click.option(
        "--start",
        type=float,
        help="Start of every trajectory; its first measurement if not given.",
    ),
    click.option(
        "--end", type=float, help="End of every trajectory; its last measurement if not given."
    ),
    click.option(
        "--end-column", metavar="COLUMN", help="Column that holds the end of each trajectory."
    ),
    click.option(
        "--unit",
        type=click.Choice(["s", "min", "h", "days", "weeks", "months", "years"]),
        help="Unit of time to convert to; that of the table if not given.",
    ),
    several_names(
        "--missing",
        "Further codes for cells that were not measured; NA, n/a, nd, - and the like are known.",
    ),
    click.option("--sheet", metavar="NAME", help="Sheet of a workbook (.xlsx)."),
    switch("--sort", help="Sort the rows by time first."),
    several_names(
        "--labels", "Nodes whose values are names of states, even where they look like numbers."
    ),
    choice(
        *("--ties", "error", "order"),
        help="If two nodes jump at the same time: refuse, or take the order of the rows.",
    ),
    click.option(
        "--exact",
        metavar="COLUMN",
        help="Column that marks rows without measurement error; or 'first': the first row of each "
        "trajectory.",
    ),
)

#: flags that belong to the table rather than to what is done with it
TABLE_FLAGS = (
    *("data", "trajectory", "time", "nodes", "kind", "start", "end", "end_column", "unit"),
    *("missing", "sheet", "sort", "labels", "ties", "exact"),
)


def split(
    options: dict[str, Any], names: Sequence[str] = TABLE_FLAGS
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings called ``names``, and the others."""
    own = {name: options[name] for name in names}
    return own, {name: value for name, value in options.items() if name not in own}
