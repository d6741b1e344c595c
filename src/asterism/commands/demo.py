"""``asterism demo``: ``asterism learn`` on the bundled data, its edges beside the true ones."""

from __future__ import annotations

from pathlib import Path

import click

from asterism.commands import exits
from asterism.commands.console import Console, Done
from asterism.commands.learn import Learned, learn
from asterism.commands.options import DemoOptions, LearnOptions, TableOptions
from asterism.learning.compile_ahead import compiling_ahead
from asterism.results.summary import probability_text


def run(options: DemoOptions, console: Console) -> Done:
    """Learn from the bundled measurements and compare."""
    from asterism.report.bundled_data import demo_files

    if options.tables is not None:
        return _copy_tables(options.tables, options.force)
    # this search is a screened one: no need to read the data first
    with compiling_ahead(), demo_files() as files:
        # by the star alone: compiling the sampler takes longer than the whole demo
        console.say(
            f"The same as: asterism learn {files.data.name} --truth {files.truth.name} "
            "--method star"
        )
        learned = learn(
            LearnOptions(
                TableOptions(files.data),
                output=options.output,
                truth=files.truth,
                method="star",
                jobs=options.jobs,
                force=options.force,
                quiet=options.quiet,
                title="demo: 8 genes, 12 replicates",
            ),
            console,
        )
        if not learned.usable:
            console.warn(f"The search did not converge: {learned.summary['stop_reason']}")
    for line in () if options.as_json else (*comparison(learned), *learned.findings):
        click.echo(line)
    return Done(learned.summary, exits.OK if learned.usable else exits.NOT_CONVERGED)


def _copy_tables(folder: Path, force: bool) -> Done:
    """Write the bundled tables to a folder; files of these names stay unless forced."""
    from asterism.data.files import write_bytes
    from asterism.report.bundled_data import demo_files

    with demo_files() as files:
        targets = {
            folder / source.name: source for source in (files.data, files.truth, files.patients)
        }
        there = [target for target in targets if target.exists()]
        if there and not force:
            raise exits.Refused(f"{there[0]} exists; --force overwrites it.")
        folder.mkdir(parents=True, exist_ok=True)
        for target, source in targets.items():
            write_bytes(target, source.read_bytes())
            click.echo(f"Written: {target}")
    return Done()


def comparison(learned: Learned) -> list[str]:
    """A line per edge that is true, learned, or not unlikely; the surest first."""
    truth = set(learned.run.truth or ())
    table = learned.run.edge_table
    pairs = [(str(parent), str(child)) for parent, child in zip(table["parent"], table["child"])]
    probability = dict(zip(pairs, table["probability"].astype(float)))
    chosen = {edge for edge, inside in zip(pairs, table["in_graph"]) if inside}
    likely = {edge for edge, p in probability.items() if p >= 0.1}
    shown = sorted(truth | chosen | likely, key=lambda edge: -probability.get(edge, 0.0))
    width = max(len(f"{parent} → {child}") for parent, child in shown)
    lines = [f"{'edge':<{width}}  probability  in graph  true"]
    for edge in shown:
        name = f"{edge[0]} → {edge[1]}"
        p = probability_text(probability.get(edge, 0.0))
        lines.append(
            f"{name:<{width}}  {p:>11}  {'yes' if edge in chosen else 'no':>8}  "
            f"{'yes' if edge in truth else 'no':>4}"
        )
    return lines
