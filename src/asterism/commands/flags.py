"""How the command line calls a setting: by a flag, if one of the commands has it.

The library's messages name settings (``errors.Setting``). Here each becomes the flag of the command
that is running; if only another command has it, that command is named too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from asterism.errors import Advice, Front, Named, Setting, told

#: settings whose flag has another name
OTHER_NAMES = {
    "random_state": "seed",
    "max_seconds": "minutes",
    "allowed_transitions": "allowed",
}


def in_flags(text: str, front: Front | None = None) -> str:
    """A sentence of the library in the words of the running command."""
    return told(text, front or current_front())


def current_front() -> Front:
    """The words of the command that is running; Python's words outside of any."""
    context = click.get_current_context(silent=True)
    if context is None:
        return lambda named: named.in_python()
    group = context.find_root().command
    commands = group.commands if isinstance(group, click.Group) else {}
    return front_of(commands, context.info_name)


def front_of(commands: Mapping[str, click.Command], running: str | None) -> Front:
    """The words of the command called ``running``."""

    def say(named: Named) -> str:
        if isinstance(named, Advice):
            return named.command
        ours = commands.get(running or "")
        others = [(name, one) for name, one in commands.items() if one is not ours]
        others.sort(key=lambda entry: entry[0] != "infer")  # which reads what the others write
        for name, command in [*([(None, ours)] if ours is not None else []), *others]:
            flag = _flag(command, named)
            if flag is not None:
                return flag if name is None else f"asterism {name} {flag}"
        return f"{named.in_python()} (in Python)"

    return say


def _flag(command: click.Command, setting: Setting) -> str | None:
    """The flag of a command, with the value if there is one; None if the command has none."""
    wanted = set(_spellings(setting.name))
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or not wanted & set(parameter.opts):
            continue
        flag = max(parameter.opts, key=len)
        if setting.value in (None, ...) or (parameter.is_flag and setting.value is True):
            return flag
        kind = parameter.type
        if isinstance(kind, click.Choice) and str(setting.value) not in kind.choices:
            return None
        return f"{flag} {setting.value}"
    return None


def _spellings(name: str) -> Iterator[str]:
    """``n_jobs`` may be --n-jobs or --jobs."""
    if name in OTHER_NAMES:
        yield f"--{OTHER_NAMES[name]}"
    yield f"--{name.replace('_', '-')}"
    if name.startswith("n_"):
        yield f"--{name[2:].replace('_', '-')}"
