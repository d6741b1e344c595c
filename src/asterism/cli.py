"""The command line: argument parsing, nothing else.

Each command hands its options to the module of the same name in ``commands``. Nothing heavy is
imported before a command needs it, so that ``--help`` and shell completion answer at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from asterism import __version__
from asterism.commands import options as o
from asterism.commands.exits import CommandGroup

EXIT_CODES = """\b
Exit codes: 0 fine; 2 wrong usage; 3 bad data; 4 finished but not converged
(results are written); 130 interrupted.
"""


@click.group(
    cls=CommandGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name="asterism")
def main() -> None:
    """Learn who influences whom from sparse, noisy, incomplete time series."""


@main.command(short_help="Learn a network from bundled data, beside the truth.")
@o.run_option
@o.jobs_option
@o.force_option
@o.json_option
@o.quiet_option
def demo(**options: Any) -> int:
    """Learn a network of eight genes from bundled data and compare it with the truth.

    \b
    Example:
      asterism demo -o RUN
    """
    from asterism.commands.demo import DemoOptions, run

    return run(DemoOptions(**options))


@main.command(short_help="Name everything that is wrong with a table.")
@o.table_options
@click.option(
    "--max-parents",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Parents that are to be learned: are there enough measurements for them?",
)
@o.config_option
@o.json_option
def check(max_parents: int, as_json: bool, config: Path | None, **table: Any) -> int:
    """Name everything that is wrong with a table, and say what is in it.

    \b
    Example:
      asterism check cells.csv
    """
    from asterism.commands.check import CheckOptions, run
    from asterism.commands.tables import TableOptions

    return run(CheckOptions(TableOptions(**table), max_parents, as_json))


@main.command(short_help="Learn a network with a probability on every edge.")
@o.table_options
@o.run_option
@click.option(
    "--max-parents",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="The most parents a node may have.",
)
@o.emission_option
@click.option(
    "--states",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    help="Hidden states of measured numbers.",
)
@click.option(
    "--prior",
    default="5,auto",
    callback=o.prior,
    show_default=True,
    metavar="SHAPE[,RATE]",
    help="Gamma prior of the rates; auto takes the time scale from the data.",
)
@click.option(
    "--method",
    type=click.Choice(["star", "mean_field"]),
    default="star",
    show_default=True,
    help="How hidden courses are approximated.",
)
@click.option(
    "--search",
    type=click.Choice(["auto", "exhaustive", "screened"]),
    default="auto",
    show_default=True,
    help="Score every set of parents, or only those of the best candidates.",
)
@click.option(
    "--candidates",
    type=o.COUNT,
    default=10,
    show_default=True,
    help="Parents kept by a screened search.",
)
@click.option(
    "--initial",
    type=click.Choice(["learn", "uniform"]),
    default="learn",
    show_default=True,
    help="Probabilities of the states in which trajectories start.",
)
@click.option(
    "--exogenous",
    multiple=True,
    callback=o.names,
    metavar="A,B,…",
    help="Nodes whose course is given, such as a treatment: they get no parents.",
)
@click.option(
    "--required", multiple=True, callback=o.edges, metavar="A->B", help="Edge that must be there."
)
@click.option(
    "--forbidden", multiple=True, callback=o.edges, metavar="A->B", help="Edge that must not."
)
@click.option("--n-init", type=o.COUNT, default=1, show_default=True, help="Graphs to start from.")
@click.option(
    "--tolerance",
    type=o.POSITIVE,
    default=1e-3,
    show_default=True,
    help="Accuracy of inference.",
)
@click.option("--time-step", type=o.POSITIVE, help="Step of inference; chosen if not given.")
@click.option(
    "--max-sweeps",
    type=o.COUNT,
    default=20,
    show_default=True,
    help="The most sweeps of the search.",
)
@o.jobs_option
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Score on the workers of this dask scheduler, such as tcp://host:8786.",
)
@o.seed_option
@click.option("--truth", type=o.READABLE, help="True edges: parent,child or source,target.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted run.")
@click.option("--title", help="Title of the report.")
@o.config_option
@o.force_option
@o.json_option
@o.quiet_option
def learn(**options: Any) -> int:
    """Learn a network, with a probability for every edge, from a table of measurements.

    \b
    Examples:
      asterism learn cells.csv
      asterism learn cells.csv -o RUN --max-parents 3 --truth edges.csv
      asterism learn visits.csv --trajectory patient --emission categorical
    """
    from asterism.commands.learn import LearnOptions, run
    from asterism.commands.tables import TableOptions

    table, rest = o.split(options)
    return run(LearnOptions(TableOptions(**table), **rest))


@main.command(short_help="Infer what a given network did in between.")
@o.table_options
@click.option("--network", type=o.READABLE, required=True, help="The network, a JSON file.")
@o.run_option
@o.emission_option
@click.option(
    "--method",
    type=click.Choice(["star", "mean_field", "exact"]),
    default="star",
    show_default=True,
    help="Approximations for any size, or exact for small networks.",
)
@click.option("--tolerance", type=o.POSITIVE, default=1e-3, show_default=True, help="Accuracy.")
@click.option("--time-step", type=o.POSITIVE, help="Step; chosen if not given.")
@click.option(
    "--max-sweeps",
    type=o.COUNT,
    default=200,
    show_default=True,
    help="The most sweeps over the messages of a trajectory.",
)
@o.jobs_option
@o.config_option
@o.force_option
@o.json_option
@o.quiet_option
def infer(**options: Any) -> int:
    """Infer what the nodes of a given network did between the measurements.

    \b
    Example:
      asterism infer cells.csv --network network.json -o RUN
    """
    from asterism.commands.infer import InferOptions, run
    from asterism.commands.tables import TableOptions

    table, rest = o.split(options)
    return run(InferOptions(TableOptions(**table), **rest))


@main.command(short_help="Simulate measurements of a network.")
@click.argument("network", type=o.FILE, required=False)
@click.option(
    "--glauber",
    metavar="GRAPH",
    help="Spins that align with their parents on tree:N, plain-tree:N, chain:N, ring:N, cycle:N, "
    "empty:N, full:N or random:N.",
)
@click.option("--random", type=click.IntRange(min=1), metavar="N", help="Random graph and rates.")
@click.option(
    "-o",
    "--output",
    type=o.FILE,
    default=Path("DATA.csv"),
    show_default=True,
    help="The table to write.",
)
@click.option(
    "--trajectories", type=o.COUNT, default=20, show_default=True, help="How many courses."
)
@click.option("--duration", type=o.AMOUNT, help="Length of a trajectory (10 if nothing is given).")
@click.option(
    "--transitions", type=click.IntRange(min=0), help="Jumps of a trajectory, not --duration."
)
@click.option(
    "--observations",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Measurements of each trajectory.",
)
@click.option("--interval", type=o.POSITIVE, help="Measure regularly instead of at random times.")
@click.option(
    "--missing",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Share of the values left out.",
)
@o.emission_option
@click.option("--paths", is_flag=True, help="Write complete paths instead of measurements.")
@click.option("-a", type=o.POSITIVE, default=1.0, show_default=True, help="Glauber rate.")
@click.option("-b", type=float, default=0.6, show_default=True, help="Glauber coupling.")
@click.option("--anti-align", is_flag=True, help="The sign printed in the paper.")
@click.option(
    "--max-parents",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Of random graphs.",
)
@click.option(
    "--n-states",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    help="Of each node, with --random.",
)
@click.option("--save-network", type=o.FILE, help="Also write the network.")
@click.option("--save-truth", type=o.FILE, help="Also write its edges.")
@o.jobs_option
@o.seed_option
@o.config_option
@o.force_option
@o.json_option
@o.quiet_option
def simulate(**options: Any) -> int:
    """Simulate measurements of a network.

    \b
    Examples:
      asterism simulate network.json -o data.csv --trajectories 50
      asterism simulate --glauber tree:14 -o data.csv --save-truth edges.csv
      asterism simulate --random 5 -o paths.csv --paths
    """
    from asterism.commands.simulate import SimulateOptions, run

    return run(SimulateOptions(**options))


@main.command(short_help="Write the report page of a run, and figures.")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", type=o.FILE, help="The page; RUN/report.html if not given.")
@click.option("--figures", is_flag=True, help="Also write figures (PNG, SVG, PDF).")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(["png", "svg", "pdf"]),
    help="Only these figures.",
)
@click.option("--truth", type=o.READABLE, help="True edges: parent,child or source,target.")
@o.force_option
@o.json_option
@o.quiet_option
def report(**options: Any) -> int:
    """Write the report page of a results folder, and figures for papers.

    \b
    Example:
      asterism report RUN --figures
    """
    from asterism.commands.report import ReportOptions, run

    return run(ReportOptions(**options))


@main.command(short_help="Make a figure or table of the paper again.")
@click.argument("name", metavar="fig2|fig3|table1|fig4|irma|dream4")
@click.option("-o", "--output", type=o.FOLDER, required=True, help="Folder for the results.")
@click.option("--quick", is_flag=True, help="A small version, in minutes.")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the published measurements (irma, dream4).",
)
@o.force_option
@o.json_option
@o.quiet_option
def reproduce(**options: Any) -> int:
    """Make a figure or table of the paper again, beside its printed numbers.

    \b
    Example:
      asterism reproduce irma --quick --data DATA -o OUT
    """
    from asterism.commands.reproduce import ReproduceOptions, run

    return run(ReproduceOptions(**options))


@main.command(short_help="Convert other tools' files.")
@click.argument("source", type=o.READABLE)
@click.argument("target", type=o.FILE)
@click.option(
    "--from",
    "from_format",
    type=click.Choice(o.FORMATS),
    metavar="FORMAT",
    help="Form of SOURCE; known by its content.",
)
@click.option(
    "--to",
    "to_format",
    type=click.Choice(o.FORMATS),
    metavar="FORMAT",
    help="Form of TARGET; known by its ending.",
)
@click.option(
    "--nodes",
    multiple=True,
    callback=o.names,
    metavar="A,B,…",
    help="Names for a .mat file.",
)
@click.option(
    "--index",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Entry of a PyCTBN file.",
)
@click.option("--network", type=o.READABLE, help="Network to write with paths for PyCTBN.")
@o.force_option
@o.json_option
@o.quiet_option
def convert(**options: Any) -> int:
    """Convert other tools' files.

    Formats: paths, pyagrum, pyctbn, likelihoods, mat, network, edges, graphml.

    \b
    Examples:
      asterism convert trajectories.csv paths.csv --from pyagrum
      asterism convert DATA.mat likelihoods.csv --nodes SWI5,CBF1,GAL4,GAL80,ASH1
      asterism convert network.json graph.graphml
    """
    from asterism.commands.convert import ConvertOptions, run

    return run(ConvertOptions(**options))


if __name__ == "__main__":
    main()
