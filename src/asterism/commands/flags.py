"""How flags are declared: a field of a dataclass says what its flag is, and one reader serves all.

A command's settings are a frozen dataclass (``options.py``). Each field is made by a method of a
:class:`Group`, such as ``MODEL.whole(2, "Largest number of parents.")``: its default, its help and
the heading under which ``--help`` lists it. ``MODEL.rare`` lists it under ``--help-all`` only.
:func:`command_of` turns the class into a command of click, and the values that click hands over
into an object of the class.

A file given with ``--config`` can stand in for flags: it holds one key per flag
(``max-parents = 3``), at the top or in a table named after the command. Flags on the command line
win. Only click is imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from inspect import cleandoc
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from asterism.commands.exits import Refused
from asterism.data.formats.registry import FORMATS

# --- what a value may be -----------------------------------------------------------------------

READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(path_type=Path)
OLD_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

#: by which the workers of Dask can be spoken to
SCHEMES = ("tcp", "tls", "ws", "wss", "ucx")

#: numbers that must be at least zero, or above zero
AMOUNT = click.FloatRange(min=0)
POSITIVE = click.FloatRange(min=0, min_open=True)


class Number(click.types.FloatParamType):
    """A number, spelled as in a table."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """The number, or a usage error."""
        from asterism.data.numbers import as_number

        number = as_number(value)
        if number is None:
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


NUMBER = Number()


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
    from asterism.data.numbers import as_number

    text, _comma, rate = (part.strip() for part in str(value).partition(","))
    words = {"": alone, "auto": "auto", alone.replace(" ", "-"): alone}
    found = (
        as_number(text) or math.nan,
        words[rate] if rate in words else as_number(rate) or math.nan,
    )
    if not all(isinstance(n, str) or 0.0 < n < math.inf for n in found):
        raise click.BadParameter(
            f"{value!r} is not a prior; write SHAPE or SHAPE,RATE, such as 5 or 5,10: positive "
            f"numbers, or {' or '.join(w for w in words if w)} as the rate.",
            param=parameter,
        )
    return found


def n_levels(_: click.Context, parameter: click.Parameter, value: Any) -> int | str:
    """``auto``, ``continuous`` or a whole number from 2."""
    text = str(value).strip().lower()
    if text in ("auto", "continuous"):
        return text
    if not text.isdigit() or int(text) < 2:
        raise click.BadParameter(f"{value!r} is not auto, continuous, 2, 3, ….", param=parameter)
    return int(text)


def jobs(_: click.Context, parameter: click.Parameter, value: int) -> int:
    """1, 2, … or -1."""
    if value < 1 and value != -1:
        raise click.BadParameter(f"{value} is not 1, 2, … or -1 for all cores.", param=parameter)
    return value


def address(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """``host:8786`` or ``tcp://host:8786``, as Dask takes it."""
    if value is None:
        return None
    with suppress(ValueError):  # of a port that is no number
        where = urlsplit(value if "://" in value else f"tcp://{value}")
        if where.scheme in SCHEMES and where.hostname and where.port:
            return value
    raise click.BadParameter(
        f"{value!r} is not the address of a scheduler; write its host and port, such as "
        "tcp://host:8786.",
        param=parameter,
    )


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
        if isinstance(parameter, click.Option)
        and parameter.name not in ("config", "help", "help_all")
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


# --- fields that are flags ---------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """A heading of ``--help``, and the flags below it."""

    title: str
    is_rare: bool = False

    @property
    def rare(self) -> Group:
        """The same heading, for flags that only ``--help-all`` lists."""
        return Group(self.title, True)

    def flag(self, default: Any, help: str, *names: str, **settings: Any) -> Any:
        """A value; ``names`` are those of the flag where they are not the field's own."""
        if isinstance(default, bool):
            settings["is_flag"] = True
        elif isinstance(default, tuple):
            settings["multiple"] = True
        elif default is not None:
            settings = {"show_default": True, **settings}
        if not isinstance(default, tuple):
            settings["default"] = default
        made = {"names": names, "group": self, "settings": {"help": help, **settings}}
        return field(default=default, metadata=made)

    def whole(self, default: int | None, help: str, at_least: int = 1, **settings: Any) -> Any:
        """A whole number."""
        return self.flag(default, help, type=click.IntRange(min=at_least), **settings)

    def choice(self, first: str, *others: str, help: str) -> Any:
        """One of a few words, the first of them unless another is given."""
        return self.flag(first, help, type=click.Choice([first, *others]))

    def file(self, help: str, **settings: Any) -> Any:
        """A file that is there."""
        return self.flag(None, help, type=READABLE, **settings)

    def names(self, help: str, *flags: str, metavar: str = "A,B,…") -> Any:
        """Names with commas between them, or the flag several times."""
        return self.flag((), help, *flags, callback=names, metavar=metavar)

    def edges(self, help: str) -> Any:
        """An edge each time the flag is given."""
        return self.flag((), help, callback=edges, metavar="A:B")

    def file_format(self, flag: str, help: str) -> Any:
        """A format of files that ``convert`` knows."""
        return self.flag(None, help, flag, callback=known_format, metavar="FORMAT")


INPUT, MODEL, SEARCH, SAMPLING, COMPUTATION, OUTPUT = map(
    Group, ("Input", "Model", "Search", "Sampling", "Computation", "Output")
)
HELP = Group("Help")


def argument(**settings: Any) -> Any:
    """A value that has no flag; it comes by its place."""
    default: Any = () if "nargs" in settings else None
    return field(default=default, metadata={"argument": settings})


def part(kind: type) -> Any:
    """Settings that several commands share, as a field of their own."""
    return field(default_factory=kind, metadata={"part": kind})


class GroupedOption(click.Option):
    """An option that knows its heading."""

    def __init__(self, *names: str, group: Group = HELP, **settings: Any) -> None:
        super().__init__(list(names), **settings)
        self.group = group


#: flags that went, and what does the same now
GONE = {"--sample": "--method sample, with --minutes M for a limit of time"}


class GroupedCommand(click.Command):
    """A command whose help has headings, the everyday flags first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One list per heading; rare flags only where ``--help-all`` asks for them."""
        everything = bool(ctx.meta.get("help_all"))
        for group in (INPUT, MODEL, SEARCH, SAMPLING, COMPUTATION, OUTPUT, HELP):
            rows = [
                record
                for parameter in self.get_params(ctx)
                if isinstance(parameter, click.Option)
                and (own := getattr(parameter, "group", HELP)).title == group.title
                and (everything or not own.is_rare)
                and (record := parameter.get_help_record(ctx)) is not None
            ]
            if rows:
                with formatter.section(group.title):
                    formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, but a flag that went is named with its successor."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in GONE:
                raise
            raise Refused(f"{error.option_name} is gone; use {GONE[error.option_name]}.") from None


def command_of(options: type, name: str) -> GroupedCommand:
    """The command whose flags are the fields of ``options``, and whose help is its docstring.

    Its ``run`` is in the module of ``commands`` that has its name.
    """

    def call(**values: Any) -> int:
        from asterism.commands.console import carried_out

        module = importlib.import_module(f"asterism.commands.{name.replace('-', '_')}")
        return carried_out(name, module.run, made_of(options, values))

    parameters = list(parameters_of(options))
    if any(getattr(one, "group", HELP).is_rare for one in parameters):
        parameters.append(_help_all())
    short, _, whole = cleandoc(options.__doc__ or "").partition("\n\n")
    whole = whole.replace("FORMATS", ", ".join(FORMATS))
    return GroupedCommand(name, callback=call, params=parameters, help=whole, short_help=short)


def parameters_of(options: type) -> Iterator[click.Parameter]:
    """The flags and arguments of a class of settings and its parts; inherited ones come last."""
    bases = [base for base in options.__mro__[1:] if is_dataclass(base)]
    inherited = {one.name for base in bases for one in fields(base)}
    for one in sorted(fields(options), key=lambda one: one.name in inherited):
        if "part" in one.metadata:
            yield from parameters_of(one.metadata["part"])
        elif "argument" in one.metadata:
            yield click.Argument([one.name], **one.metadata["argument"])
        else:
            names = one.metadata["names"] or (f"--{one.name.replace('_', '-')}",)
            group, settings = one.metadata["group"], one.metadata["settings"]
            yield GroupedOption(*names, one.name, group=group, **settings)


def made_of(options: type, values: dict[str, Any]) -> Any:
    """An object of the class with these values, parts included."""
    own = {
        one.name: made_of(one.metadata["part"], values)
        if "part" in one.metadata
        else values[one.name]
        for one in fields(options)
    }
    return options(**own)


def _help_all() -> GroupedOption:
    def show(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked:
            ctx.meta["help_all"] = True
            click.echo(ctx.get_help())
            ctx.exit()

    return GroupedOption(
        "--help-all",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show all options, also those that few need.",
    )
