"""Writes the reference pages of the docs from the program: docstrings, signatures, help texts.

    python examples/make_reference.py

``docs/reference/python.md`` holds headings and examples, and between ``<!-- api: NAME -->`` and
``<!-- end -->`` what this script makes of the public name. ``docs/reference/commands.md`` is made
as a whole. A test compares both with the program.
"""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import asterism

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
MARKED = re.compile(r"(?P<open><!-- api: (?P<name>\w+) -->\n).*?(?P<close><!-- end -->)", re.DOTALL)
ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`")


def python_page(text: str) -> str:
    """The page with everything between markers made again."""
    return MARKED.sub(lambda m: m["open"] + _entry(m["name"]) + m["close"], text)


def commands_page() -> str:
    """Every command with every flag, as ``--help-all`` prints them."""
    from click.testing import CliRunner

    from asterism.cli import main

    parts = [
        "# Command line, every flag\n\n`python examples/make_reference.py` makes this page from "
        "the program. [The command line](cli.md)\nexplains what the flags are for.\n"
    ]
    for name in main.commands:
        flag = "--help-all" if name in _commands_with_more(main) else "--help"
        shown = CliRunner().invoke(main, [name, flag], prog_name="asterism", terminal_width=100)
        lines = [line.rstrip() for line in shown.output.strip().splitlines()]
        parts.append(f"## asterism {name}\n\n```text\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


def _commands_with_more(main: Any) -> set[str]:
    named = main.commands.items()
    return {n for n, c in named if any("--help-all" in p.opts for p in c.params)}


_PROPERTIES = (property, cached_property)


def _entry(name: str) -> str:
    thing = getattr(asterism, name)
    if isinstance(thing, ModuleType):
        members = [getattr(thing, member) for member in getattr(thing, "__all__", _public(thing))]
        text = _prose(thing.__doc__)
        for member in members:
            text += f"\n**`{name}.{member.__name__}{_signature(member)}`**\n\n" + _prose(
                member.__doc__
            )
        return text
    text = f"```text\n{name}{_signature(thing)}\n```\n\n" + _prose(thing.__doc__)
    for member, value in _members(thing) if inspect.isclass(thing) else ():
        # of a class or static method, and of a property, the function behind it
        behind = (getattr(value, name, None) for name in ("__func__", "fget", "func"))
        function = next(filter(None, behind), value)
        call = "" if isinstance(value, _PROPERTIES) else _signature(function)
        text += f"\n**`{name}.{member}{call}`**\n\n" + _prose(function.__doc__)
    return text


def _public(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
    ]


def _members(owner: type) -> list[tuple[str, Any]]:
    """Methods and properties that have a docstring, those of our own base classes included."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        if not base.__module__.startswith("asterism"):
            continue
        for name, value in vars(base).items():
            function = getattr(value, "__func__", value)
            known = inspect.isfunction(function) or isinstance(value, _PROPERTIES)
            if name[0] != "_" and known and function.__doc__:
                found[name] = value
    return list(found.items())


def _signature(thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return ""
    bare = inspect.Parameter.empty
    parameters = [
        parameter.replace(annotation=bare)
        for name, parameter in signature.parameters.items()
        if name not in ("self", "cls")
    ]
    return str(signature.replace(parameters=parameters, return_annotation=bare))


def _prose(docstring: str | None) -> str:
    """A docstring as Markdown: sections in bold, their entries as lists, code in fences."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    made: list[str] = []
    in_section = in_code = False
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if below and set(below) == {"-"} and line.strip():
            made += [f"*{line}*", ""]
            in_section = True
        elif line and set(line) == {"-"}:
            continue
        elif in_code and line and not line.startswith(" "):
            made += ["```", "", _inline(line)]
            in_code = False
        elif in_code:
            made.append(line)
        elif line.endswith("::"):
            made += [_inline(line[:-1]), "", "```text"]
            in_code = True
        elif in_section and line and not line.startswith(" "):
            made.append(f"- `{line}`:")
        elif in_section and line:
            made.append(f"  {_inline(line.strip())}")
        else:
            made.append(_inline(line))
    if in_code:
        made.append("```")
    text = re.sub(r"```text\n\n", "```text\n", "\n".join(made))
    return re.sub(r"\n+```\n", "\n```\n", text).strip() + "\n"


def _inline(line: str) -> str:
    return ROLE.sub(r"`\1`", line).replace("``", "`")


def main() -> None:
    page = REFERENCE / "python.md"
    page.write_text(python_page(page.read_text(encoding="utf-8")), encoding="utf-8")
    (REFERENCE / "commands.md").write_text(commands_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
