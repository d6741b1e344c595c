"""``asterism report``: the page, and figures for papers, from a results folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from asterism.commands import exits
from asterism.commands.console import Console
from asterism.commands.outputs import print_json, read_edges, require_file


@dataclass(frozen=True)
class ReportOptions:
    """The settings of ``asterism report``; names are those of the flags."""

    run: Path
    output: Path | None = None
    figures: bool = False
    formats: Sequence[str] = ()
    truth: Path | None = None
    force: bool = False
    as_json: bool = False
    quiet: bool = False


def run(options: ReportOptions) -> int:
    """Write report.html again (or elsewhere), and the figures."""
    from asterism.report.page import write_report
    from asterism.results.folder import load

    console = Console(options.quiet)
    # a page inside the run is the run's own and may be renewed
    page = options.output or options.run / "report.html"
    require_file(page, options.force or options.output is None)
    with console.listening():
        with console.busy(f"Reading {options.run}"):
            result = load(options.run)
            if options.truth is not None:
                result = replace(result, truth=read_edges(options.truth))
            write_report(result, page)
        console.say(f"Report: {page}")
        figures: list[Path] = []
        if options.figures or options.formats:
            from asterism.report.plots import save_figures

            folder = page.parent / "figures"
            with console.busy("Drawing figures"):
                figures = save_figures(result, folder, options.formats or ("png", "svg", "pdf"))
            console.say(f"Figures: {folder}")
    if options.as_json:
        print_json(
            {
                "command": "report",
                "report": str(page),
                "figures": [str(path) for path in figures],
                "scores": result.scores(),
            }
        )
    return exits.OK
