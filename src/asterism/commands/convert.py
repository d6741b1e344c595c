"""``asterism convert``: other tools' files in and out.

A file holds paths, likelihoods, a network or edges. The input's format is recognised by its
content, the output's by its ending; ``--from`` and ``--to`` overrule both. The formats themselves
are listed in ``data/formats/registry.py``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from asterism.commands.console import Console, Done
from asterism.commands.exits import Refused
from asterism.commands.options import ConvertOptions
from asterism.commands.outputs import require_file
from asterism.data.formats.registry import FORMATS, Content, ReadSettings
from asterism.data.table_file import read_header
from asterism.model.network import Network


def run(options: ConvertOptions, console: Console) -> Done:
    """Read, write, and say what was done."""
    require_file(options.target, options.force)
    source_format = options.from_format or recognise(options.source)
    settings = ReadSettings(options.nodes, options.index)
    content = FORMATS[source_format].load().read(options.source, settings)
    if options.network is not None:
        content = replace(content, network=Network.load(options.network))
    target_format = options.to_format or by_ending(options.target, content)
    options.target.parent.mkdir(parents=True, exist_ok=True)
    FORMATS[target_format].load().write(content, options.target)
    console.say(f"{options.source} ({source_format}) → {options.target} ({target_format})")
    if content.left_out:
        console.say(f"Left out because they are not in the graph: {content.left_out:,} pairs.")
    return Done(
        {
            "source": str(options.source),
            "from": source_format,
            "output": str(options.target),
            "to": target_format,
        }
    )


def recognise(path: Path) -> str:
    """The format of a file, from its ending and its beginning."""
    header = cache(lambda: set(read_header(path)))
    ending = path.suffix.lower()
    fitting = {name: entry for name, entry in FORMATS.items() if ending in entry.endings}
    if not fitting:  # a table, whatever its ending
        fitting = {name: entry for name, entry in FORMATS.items() if ".csv" in entry.endings}
    # the format that holds least says most about its content
    for name in sorted(fitting, key=lambda name: len(fitting[name].holds)):
        if fitting[name].load().recognises(path, header):
            return name
    raise Refused(
        f"The format of {str(path)!r} is not recognised; name it with --from: {', '.join(FORMATS)}."
    )


def by_ending(path: Path, content: Content) -> str:
    """The format of that ending which holds most of the content."""
    ending = path.suffix.lower()
    fitting = [name for name, entry in FORMATS.items() if ending in entry.endings]
    if not fitting:
        raise Refused(
            f"The ending of {str(path)!r} does not name a format; use --to: {', '.join(FORMATS)}."
        )

    def fits(name: str) -> tuple[int, int]:
        holds = FORMATS[name].holds
        held = sum(getattr(content, kind) is not None for kind in holds)
        return -held, len(holds)

    return min(fitting, key=fits)
