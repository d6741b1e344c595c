"""The TOML file that can stand in for flags.

A file given with ``--config`` holds one key per flag (``max-parents = 3``), at the top or in a
table named after the command; flags on the command line win.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import click

from asterism.commands.exits import Refused


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
    several = {p.name for p in context.command.params if getattr(p, "multiple", False)}
    for key in several & set(values):
        if isinstance(values[key], str):  # as after the flag
            values[key] = [values[key]]
    context.default_map = {**(context.default_map or {}), **values}
    return path
