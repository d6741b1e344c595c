"""``asterism report``: the page, and figures for papers, from a results folder."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from asterism.commands.console import Console, Done
from asterism.commands.exits import Refused
from asterism.commands.options import ReportOptions
from asterism.commands.outputs import read_truth, require_file
from asterism.results.lock import only_writer

#: kinds of figures
FORMATS = ("png", "svg", "pdf")


def run(options: ReportOptions, console: Console) -> Done:
    """Write report.html again (or elsewhere), and the figures."""
    from asterism.data.files import TEMPORARY
    from asterism.report.page import write_report
    from asterism.results.folder import read_run
    from asterism.results.manifest import FILES, PAGE, replace_file

    wrong = [name for name in options.formats if name not in FORMATS]
    if wrong:
        raise Refused(f"--format {wrong[0]!r} is unknown; use {', '.join(FORMATS)}.")
    # a page inside the run is the run's own and may be renewed
    page = options.output or options.run / "report.html"
    require_file(page, options.force or options.output is None)
    with console.busy(f"Reading {options.run}"), ExitStack() as alone:
        written = page
        if options.output is None:  # a part of the run, which needs the folder for itself
            alone.enter_context(only_writer(options.run))
            # a leftover where this is killed; the next writer removes it
            written = options.run / f"{TEMPORARY}{PAGE}"
        result = read_run(
            options.run,
            () if options.unverified else tuple(name for name in FILES if name != PAGE),
        )
        if options.truth is not None:
            result = replace(result, truth=read_truth(options.truth, result.network.nodes))
            if result.scores() is None:
                console.warn("--truth holds every possible edge: there is nothing to score.")
        first = options.nodes[0] if options.nodes else None
        write_report(result, written, threshold=options.threshold, node=first)
        if options.output is None:
            replace_file(options.run, PAGE, written)
    console.say(f"Report: {page}")
    figures: list[Path] = []
    if options.figures or options.formats:
        from asterism.report.plots import save_figures

        if options.nodes and result.posterior is None:
            console.warn(
                f"--node: {options.run} holds no state probabilities over time (nodes that "
                "move continuously and complete paths have none), so there is no figure of a "
                "course."
            )
        folder = page.parent / "figures"
        with console.busy("Drawing figures"):
            figures = save_figures(
                result,
                folder,
                options.formats or FORMATS,
                threshold=options.threshold,
                nodes=options.nodes,
            )
        console.say(f"Figures: {folder}")
    return Done(
        {
            "report": str(page),
            "figures": [str(path) for path in figures],
            "scores": result.scores(),
        }
    )
