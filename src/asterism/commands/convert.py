"""``asterism convert``: other tools' files in and out.

A file holds paths, likelihoods, a network or edges. The input's format is recognised by its
content, the output's by its ending; ``--from`` and ``--to`` overrule both. The formats themselves
are listed in ``data/formats/registry.py``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from asterism.commands import exits
from asterism.commands.console import Console
from asterism.commands.exits import Refused
from asterism.commands.options import ConvertOptions
from asterism.commands.outputs import print_json, require_file
from asterism.data.formats import registry
from asterism.data.formats.registry import Content, ReadSettings
from asterism.model.network import Network


def run(options: ConvertOptions) -> int:
    """Read, write, and say what was done."""
    console = Console(options.quiet)
    require_file(options.target, options.force)
    with console.listening():
        source_format = options.from_format or recognise(options.source)
        content = read(options.source, source_format, ReadSettings(options.nodes, options.index))
        if options.network is not None:
            content = replace(content, network=Network.load(options.network))
        target_format = options.to_format or by_ending(options.target, content)
        options.target.parent.mkdir(parents=True, exist_ok=True)
        write(content, options.target, target_format)
        console.say(f"{options.source} ({source_format}) → {options.target} ({target_format})")
        if content.left_out:
            console.say(f"Left out because they are not in the graph: {content.left_out:,} pairs.")
    if options.as_json:
        print_json(
            {
                "command": "convert",
                "source": str(options.source),
                "from": source_format,
                "output": str(options.target),
                "to": target_format,
            }
        )
    return exits.OK


def recognise(path: Path) -> str:
    """The format of a file, from its ending and its beginning."""
    found = registry.recognise(path)
    if found is None:
        raise Refused(
            f"The format of {str(path)!r} is not recognised; name it with --from: "
            f"{', '.join(registry.FORMATS)}."
        )
    return found


def by_ending(path: Path, content: Content) -> str:
    """The format that an ending suggests for what there is to write."""
    found = registry.by_ending(path, content)
    if found is None:
        raise Refused(
            f"The ending of {str(path)!r} does not name a format; use --to: "
            f"{', '.join(registry.FORMATS)}."
        )
    return found


def read(path: Path, form: str, settings: ReadSettings | None = None) -> Content:
    """The content of a file of a known format."""
    entry = registry.FORMATS[form]
    if not entry.reads:
        raise Refused(f"Files of the format {form} can only be written.")
    return entry.load().read(path, settings or ReadSettings())


def write(content: Content, path: Path, form: str) -> None:
    """Write what the format can hold, or say what is missing."""
    entry = registry.FORMATS[form]
    if not entry.writes:
        raise Refused(f"Files of the format {form} can only be read.")
    entry.load().write(content, path)
