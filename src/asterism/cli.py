"""The command line: argument parsing, nothing else.

Each command hands its options to the module of the same name in ``commands``. Nothing heavy is
imported before a command needs it, so that ``--help`` and shell completion answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from asterism import __version__
from asterism.commands import flags
from asterism.commands import options as o
from asterism.commands.exits import exit_code, front_of, in_flags
from asterism.data.formats.registry import FORMATS
from asterism.errors import AsterismError, Named, speaking

EXIT_CODES = """\b
Exit codes: 0 fine; 2 wrong usage; 3 bad data; 4 finished but not converged
(results are written); 130 interrupted.
"""

CONVERT_HELP = f"""Convert files of other tools.

Formats: {", ".join(FORMATS)}.

\b
Examples:
  asterism convert trajectories.csv paths.csv --from pyagrum
  asterism convert DATA.mat likelihoods.csv --nodes SWI5,CBF1,GAL4,GAL80,ASH1
  asterism convert network.json graph.graphml
"""


class CommandGroup(click.Group):
    """A click group whose commands return exit codes and whose errors name flags."""

    running: str | None = None
    """The command that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a user meets them, not that of the alphabet."""
        return list(self.commands)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; end the process with its exit code, if there is nobody to return to."""
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        with speaking(self.say):
            if not standalone_mode:
                return run()
            code = exit_code(run)
        sys.exit(code)

    def say(self, named: Named) -> str:
        """The words of the running command for a setting."""
        return front_of(self.commands, self.running)(named)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, and remember which command it is."""
        found = super().resolve_command(ctx, args)
        self.running = found[0]
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """As click does, but what the library says is said in flags."""
        try:
            return super().invoke(ctx)
        except AsterismError as error:
            # in place: not every error can be made anew from a sentence
            error.args = (in_flags(error.sentence),)
            raise


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
@click.option(
    "--tables", type=o.FOLDER, help="Only copy the example's tables to this folder, to try things."
)
@o.jobs_option
@o.result_options
def demo(**options: Any) -> int:
    """Learn a network of eight genes from example data and compare it with the truth.

    \b
    Example:
      asterism demo -o RUN
      asterism demo --tables .
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
@flags.learn_options
def learn(**options: Any) -> int:
    """Learn a network, with a probability for every edge, from a table of measurements.

    \b
    Examples:
      asterism learn cells.csv
      asterism learn cells.csv -o RUN --max-parents 3 --truth edges.csv
      asterism learn visits.csv --trajectory patient --emission categorical
    """
    from asterism.commands.choices import LearnOptions
    from asterism.commands.input_table import TableOptions
    from asterism.commands.learn import run
    from asterism.commands.panel import PanelOptions

    table, rest = o.split(options)
    panel, rest = o.split(rest, flags.PANEL_FLAGS)
    return run(LearnOptions(TableOptions(**table), **rest, panel=PanelOptions(**panel)))


@main.command(short_help="Fit the rates of a given graph, with intervals.")
@flags.fit_options
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
    from asterism.commands.panel import PanelOptions

    table, rest = o.split(options)
    panel, rest = o.split(rest, flags.PANEL_FLAGS)
    return run(FitOptions(TableOptions(**table), PanelOptions(**panel), **rest))


@main.command(short_help="Infer the hidden states of a given network over time.")
@flags.infer_options
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
@flags.simulate_options
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
@flags.report_options
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
@click.argument("runs", type=o.OLD_FOLDER, nargs=-1, required=True, metavar="RUN1 RUN2 ...")
@click.option(
    *("-o", "--output"), type=o.FOLDER, required=True, help="Folder for the page and a table."
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
@click.option("-o", "--output", type=o.FOLDER, required=True, help="Folder for the results.")
@o.switch("--quick", help="A small version, in minutes.")
@click.option(
    "--data",
    type=o.OLD_FOLDER,
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


@main.command(short_help="Convert files of other tools.", help=CONVERT_HELP)
@click.argument("source", type=o.READABLE)
@click.argument("target", type=o.FILE)
@o.file_format(
    "--from", "from_format", "Format of SOURCE; recognised from its content if not given."
)
@o.file_format("--to", "to_format", "Format of TARGET; taken from its ending if not given.")
@o.several_names("--nodes", "Names of the nodes of a .mat file.")
@o.whole("--index", 0, "Which entry of a PyCTBN file to read.", at_least=0)
@o.file("--network", "Network to write with paths for PyCTBN.")
@o.result_options
def convert(**options: Any) -> int:
    """Convert files of other tools."""
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
