"""``asterism compare``: runs side by side on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asterism.commands.console import Console, Done
from asterism.commands.exits import Refused
from asterism.commands.options import CompareOptions
from asterism.commands.outputs import writing_to


def run(options: CompareOptions, console: Console) -> Done:
    """Write compare.html and edges.csv."""
    from asterism.data.files import write_table
    from asterism.report.compare_page import comparison_sentences, write_comparison
    from asterism.results.comparison import compare
    from asterism.results.folder import load

    if len(options.runs) < 2:
        raise Refused("A comparison needs at least two results folders.")
    names = tuple(options.names) or _names(options.runs)
    if len(names) != len(options.runs):
        raise Refused(f"--names gives {len(names)} names for {len(options.runs)} runs.")
    if len(set(names)) < len(names):
        raise Refused("--names must give every run a name of its own.")
    with console.busy("Comparing"), writing_to(options.output, options.force):
        comparison = compare(
            [load(folder, verify=not options.unverified) for folder in options.runs], names
        )
        table, page = options.output / "edges.csv", options.output / "compare.html"
        write_table(table, comparison.edges)
        title = options.title or f"{' and '.join(names)} compared"
        write_comparison(comparison, page, title)
    sentences = comparison_sentences(comparison)
    for sentence in sentences:
        console.say(sentence)
    console.say(f"Page: {page}")
    return Done(
        {
            "page": str(page),
            "edges": str(table),
            "names": list(names),
            "sentences": sentences,
            "changes": {name: comparison.counts(name) for name in names[1:]},
        }
    )


def _names(folders: Sequence[Path]) -> tuple[str, ...]:
    """The folders' names, with as much of the path as tells them apart."""
    paths = [folder.resolve().parts for folder in folders]
    for depth in range(1, max(map(len, paths)) + 1):
        names = tuple("/".join(parts[-depth:]) for parts in paths)
        if len(set(names)) == len(names):
            return names
    return tuple(f"run {i + 1}" for i in range(len(folders)))
