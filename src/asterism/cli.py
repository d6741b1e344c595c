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
from asterism.commands import options as values
from asterism.commands.exits import CommandGroup
from asterism.commands.panel_flags import panel_options, split_panel
from asterism.inference.methods import METHODS, methods_that_score_graphs
from asterism.learning.search.searches import SEARCHES

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


@main.command(short_help="Learn a network from example data and compare it with the truth.")
@o.run_option
@o.jobs_option
@o.result_options
def demo(**options: Any) -> int:
    """Learn a network of eight genes from example data and compare it with the truth.

    \b
    Example:
      asterism demo -o RUN
    """
    from asterism.commands.demo import DemoOptions, run

    return run(DemoOptions(**options))


@main.command(short_help="List everything that is wrong with a table.")
@o.table_options
@o.max_parents_option("Warn if there are too few measurements to learn this many parents.")
@o.several_names(
    "--exogenous", "Nodes set from outside, such as a treatment: nothing is learned about them."
)
@o.emission_option
@o.states_option
@o.config_option
@o.json_option
def check(config: Path | None, **options: Any) -> int:
    """List everything that is wrong with a table, and say what it holds.

    \b
    Example:
      asterism check cells.csv
    """
    from asterism.commands.check import CheckOptions, run
    from asterism.commands.input_table import TableOptions

    table, rest = o.split(options)
    return run(CheckOptions(TableOptions(**table), **rest))


@main.command(short_help="Learn a network with a probability on every edge.")
@o.table_options
@o.run_option
@o.max_parents_option("Largest number of parents of a node.")
@o.whole("--min-parents", 0, "Smallest number of parents of a node.", at_least=0)
@o.choice(
    *("--family-prior", "sparse", "uniform", "by_size"),
    help="Beforehand: few edges, every set of parents equally probable, or every "
    "number of parents.",
)
@o.file("--edge-prior", "Prior probabilities of single edges: parent,child,probability.")
@o.file(
    "--interventions",
    "Nodes set by the experimenter: trajectory,node,start,end,state.",
)
@o.choice(
    *("--graph", "probable", "map"),
    help="Show the edges that reach --threshold, or the most probable parents of each node.",
)
@o.setting(
    "--threshold",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.5,
    help="Probability from which an edge is in the graph.",
)
@click.option(
    "--minutes",
    type=values.POSITIVE,
    metavar="M",
    help="Time to spend: after the star search, sample the posterior while time is left.",
)
@click.option(
    "--null",
    type=click.IntRange(min=1),
    metavar="N",
    help="Also search N times in data permuted between nodes: what arises by chance?",
)
@o.emission_option
@o.states_option
@o.switch("--refine-emissions", help="Fit learned emissions again on the graph that was found.")
@o.prior_option
@click.option(
    "--sample",
    is_flag=False,
    flag_value=0.0,
    default=None,
    type=o.AMOUNT,
    metavar="[MINUTES]",
    help="Draw graphs, rates and paths from their posterior, for at most so many minutes.",
)
@o.choice(
    "--method",
    *methods_that_score_graphs(),
    help="How the hidden states between measurements are computed.",
)
@o.choice(
    *("--search", "auto", *SEARCHES),
    help="Score every set of parents (exhaustive), or only sets of the best candidates (screened).",
)
@o.whole("--candidates", 10, "Candidate parents of each node that a screened search keeps.")
@o.choice(
    *("--initial", "learn", "uniform"),
    help="Probabilities of the first state of a trajectory.",
)
@o.several_names(
    "--exogenous",
    "Nodes set from outside, such as a treatment: they can be parents, but have none.",
)
@panel_options
@o.several_edges("--required", "Edge that must be in the graph; repeat the flag for more.")
@o.several_edges("--forbidden", "Edge that must not be in the graph; repeat the flag for more.")
@o.whole("--n-init", 1, "Number of graphs from which the search starts.")
@o.accuracy_options(
    tolerance="Accuracy of the computed probabilities.",
    time_step="Time step of the computation; chosen automatically if not given.",
    max_sweeps="Largest number of sweeps over all nodes.",
    n_sweeps=20,
)
@o.jobs_option
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Score on the workers of this dask scheduler, such as tcp://host:8786.",
)
@o.seed_option
@o.truth_option
@o.switch("--resume", help="Continue an interrupted run.")
@click.option("--title", help="Title of the report.")
@o.config_option
@o.result_options
def learn(**options: Any) -> int:
    """Learn a network, with a probability for every edge, from a table of measurements.

    \b
    Examples:
      asterism learn cells.csv
      asterism learn cells.csv -o RUN --max-parents 3 --truth edges.csv
      asterism learn visits.csv --trajectory patient --emission categorical
    """
    from asterism.commands.input_table import TableOptions
    from asterism.commands.learn import LearnOptions, run

    table, rest = o.split(options)
    panel, rest = split_panel(rest)
    return run(LearnOptions(TableOptions(**table), **rest, panel=panel))


@main.command(short_help="Fit the rates of a given graph, with intervals.")
@o.table_options
@o.file("--network", "The graph with its states, a network JSON file.")
@o.file("--edges", "The graph: a table with parent,child.")
@panel_options
@click.option(
    "--covariate",
    multiple=True,
    metavar="COLUMN[:1>2,…]",
    help="Column that changes the rates, of all transitions or of some.",
)
@o.several_names("--equal-effects", "Covariates with one effect for all of their transitions.")
@click.option("--fix", multiple=True, metavar="[NODE:]1>2=RATE", help="A rate that is known.")
@click.option("--equal", multiple=True, metavar="[NODE:]1>2=2>3", help="Rates that are equal.")
@click.option(
    "--misreported",
    multiple=True,
    metavar="[NODE:]1>2,…",
    help="States may be misreported: true>reported, only in these ways.",
)
@o.several_names("--ignore", "Columns to leave out.")
@o.run_option
@o.emission_option
@o.whole("--states", 2, "Hidden states of measured numbers.", at_least=2)
@click.option("--method", default="auto", show_default=True, help="How hidden courses are found.")
@click.option(
    "--prior",
    callback=lambda c, p, v: None if v is None else o.prior(c, p, v),
    metavar="SHAPE[,RATE]",
    help="Gamma prior of the rates; maximum likelihood if not given.",
)
@o.choice("--initial", "learn", "uniform", help="Probabilities of the states at the start.")
@o.setting(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    help="Level of the intervals.",
)
@o.whole("--n-init", 1, "Starts of the fit; the best counts.")
@o.jobs_option
@o.seed_option
@click.option("--title", help="Title of the report.")
@o.config_option
@o.result_options
def fit(**options: Any) -> int:
    """Fit the rates of a given graph, or of one node, with intervals and hazard ratios.

    \b
    Examples:
      asterism fit visits.csv --nodes state --absorbing dead --exact-entry dead
      asterism fit visits.csv --nodes state --allowed "1>2,2>3" --covariate sex --covariate age
      asterism fit cells.csv --edges edges.csv -o RUN
    """
    from asterism.commands.fit import FitOptions, run
    from asterism.commands.input_table import TableOptions

    table, rest = o.split(options)
    panel, rest = split_panel(rest)
    return run(FitOptions(TableOptions(**table), panel, **rest))


@main.command(short_help="Infer the hidden states of a given network over time.")
@o.table_options
@o.file("--network", "The network, a JSON file.", required=True)
@o.run_option
@o.emission_option
@o.choice(
    *("--method", *METHODS),
    help="Approximations for any size, or exact for small networks.",
)
@o.accuracy_options(
    tolerance="Accuracy of the computed probabilities.",
    time_step="Time step of the computation; chosen automatically if not given.",
    max_sweeps="Largest number of iterations for a trajectory.",
    n_sweeps=200,
)
@o.minutes_option
@o.jobs_option
@o.unverified_option
@o.config_option
@o.result_options
def infer(**options: Any) -> int:
    """Infer the states of the nodes of a given network, at and between the measurements.

    \b
    Example:
      asterism infer cells.csv --network network.json -o RUN
    """
    from asterism.commands.infer import InferOptions, run
    from asterism.commands.input_table import TableOptions

    table, rest = o.split(options)
    return run(InferOptions(TableOptions(**table), **rest))


@main.command(short_help="Simulate measurements of a network.")
@click.argument("network", type=values.FILE, required=False)
@click.option(
    "--glauber",
    metavar="GRAPH",
    help="Spins that align with their parents on tree:N, plain-tree:N, chain:N, ring:N, cycle:N, "
    "empty:N, full:N or random:N.",
)
@click.option(
    "--random",
    type=click.IntRange(min=1),
    metavar="N",
    help="Simulate a random network with N nodes.",
)
@o.setting(
    *("-o", "--output"), type=values.FILE, default=Path("DATA.csv"), help="The table to write."
)
@o.whole("--trajectories", 20, "Number of trajectories.")
@click.option(
    "--duration",
    type=values.AMOUNT,
    help="Length of each trajectory; 10 if neither this nor --transitions is given.",
)
@click.option(
    "--transitions",
    type=click.IntRange(min=0),
    help="Number of jumps of each trajectory, instead of --duration.",
)
@o.whole("--observations", 10, "Number of measurements of each trajectory.")
@click.option(
    "--interval",
    type=values.POSITIVE,
    help="Time between measurements; at random times if not given.",
)
@o.setting(
    "--missing",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    help="Share of the values that are missing.",
)
@o.emission_option
@o.switch("--paths", help="Write complete paths instead of measurements.")
@o.setting("-a", type=values.POSITIVE, default=1.0, help="Glauber rate.")
@o.setting("-b", type=float, default=0.6, help="Glauber coupling.")
@o.switch(
    "--anti-align", help="Spins avoid the state of their parents (the sign printed in the paper)."
)
@o.max_parents_option("Largest number of parents in random graphs.")
@o.whole("--n-states", 2, "Number of states of each node, with --random.", at_least=2)
@o.new_file("--save-network", "Also write the network, as JSON.")
@o.new_file("--save-truth", "Also write the true edges, as a table.")
@o.minutes_option
@o.jobs_option
@o.seed_option
@o.config_option
@o.result_options
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
@click.argument("run", type=values.OLD_FOLDER)
@click.option("-o", "--output", type=values.FILE, help="The page; RUN/report.html if not given.")
@o.setting(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.5,
    help="Show edges with at least this probability.",
)
@click.option(
    *("--node", "nodes"),
    multiple=True,
    callback=values.names,
    metavar="A,B,…",
    help="Nodes whose courses are drawn; the page starts with the first.",
)
@o.switch("--figures", help="Also write figures, as PNG, SVG and PDF.")
@click.option(
    *("--format", "formats"),
    multiple=True,
    callback=values.names,
    metavar="png,svg,pdf",
    help="Write figures in these formats only.",
)
@o.truth_option
@o.unverified_option
@o.result_options
def report(**options: Any) -> int:
    """Write the report page of a results folder, and figures for papers.

    \b
    Example:
      asterism report RUN --figures
      asterism report RUN --threshold 0.8 --node GAL4 --format pdf,svg
    """
    from asterism.commands.make_report import ReportOptions, run

    return run(ReportOptions(**options))


@main.command(short_help="Set runs side by side on one page.")
@click.argument("runs", type=values.OLD_FOLDER, nargs=-1, required=True, metavar="RUN1 RUN2 ...")
@click.option(
    *("-o", "--output"), type=values.FOLDER, required=True, help="Folder for the page and a table."
)
@o.several_names("--names", "What to call the runs; the names of their folders if not given.")
@click.option("--title", help="Title of the page.")
@o.unverified_option
@o.result_options
def compare(**options: Any) -> int:
    """Compare runs with the first: edges gained, lost and changed, and how sure that is.

    \b
    Example:
      asterism compare CONTROL TREATED -o COMPARED
    """
    from asterism.commands.compare import CompareOptions, run

    return run(CompareOptions(**options))


@main.command(short_help="Make a figure or table of the paper again.")
@click.argument("name", metavar="fig2|fig3|table1|fig4|irma|dream4")
@click.option("-o", "--output", type=values.FOLDER, required=True, help="Folder for the results.")
@o.switch("--quick", help="A small version, in minutes.")
@click.option(
    "--data",
    type=values.OLD_FOLDER,
    help="Folder with the published measurements (irma, dream4).",
)
@o.result_options
def reproduce(**options: Any) -> int:
    """Make a figure or table of the paper again, beside its printed numbers.

    \b
    Example:
      asterism reproduce irma --quick --data DATA -o OUT
    """
    from asterism.commands.reproduce import ReproduceOptions, run

    return run(ReproduceOptions(**options))


@main.command(short_help="Convert files of other tools.")
@click.argument("source", type=values.READABLE)
@click.argument("target", type=values.FILE)
@o.file_format(
    "--from", "from_format", "Format of SOURCE; recognised from its content if not given."
)
@o.file_format("--to", "to_format", "Format of TARGET; taken from its ending if not given.")
@o.several_names("--nodes", "Names of the nodes of a .mat file.")
@o.whole("--index", 0, "Which entry of a PyCTBN file to read.", at_least=0)
@o.file("--network", "Network to write with paths for PyCTBN.")
@o.result_options
def convert(**options: Any) -> int:
    """Convert files of other tools.

    Formats: paths, pyagrum, pyctbn, likelihoods, mat, network, edges, graphml.

    \b
    Examples:
      asterism convert trajectories.csv paths.csv --from pyagrum
      asterism convert DATA.mat likelihoods.csv --nodes SWI5,CBF1,GAL4,GAL80,ASH1
      asterism convert network.json graph.graphml
    """
    from asterism.commands.convert import ConvertOptions, run

    return run(ConvertOptions(**options))


@main.command("warm-up", short_help="Compile everything now, for containers and clusters.")
@o.json_option
@o.quiet_option
def warm_up(**options: Any) -> int:
    """Compile now what the first commands would compile.

    Machine code is kept beside the package, or in NUMBA_CACHE_DIR if that is set.

    \b
    Example:
      NUMBA_CACHE_DIR=/opt/asterism-cache asterism warm-up --quiet
    """
    from asterism.commands.warm_up import WarmUpOptions, run

    return run(WarmUpOptions(**options))


if __name__ == "__main__":
    main()
