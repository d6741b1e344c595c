"""The command line: argument parsing, nothing else.

Each command hands its settings (``commands/options.py``) to the ``run`` of its module in
``commands``. Nothing heavy is imported before a command needs it, so that ``--help`` and shell
completion answer at once.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from asterism import __version__
from asterism.commands import options as o
from asterism.commands.console import STARTED
from asterism.commands.exits import exit_code, front_of, in_flags
from asterism.commands.flags import command_of
from asterism.data.formats.registry import FORMATS
from asterism.errors import AsterismError, Named, speaking

EXIT_CODES = """\b
Exit codes: 0 fine; 2 wrong usage; 3 bad data; 4 finished but not converged
(results are written); 130 interrupted.
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
        """Run a command; end the process with its exit code, if there is nobody to return to.

        Libraries that a command imports may add warning filters: they go when it ends.
        """
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        with speaking(self.say), warnings.catch_warnings():
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
        ctx.meta[STARTED] = time.monotonic()
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


def _add(name: str, options: type, short_help: str, help: str, module: str = "") -> None:
    made = command_of(options, module or name.replace("-", "_"), name, short_help, help)
    main.add_command(made)


_add(
    "demo",
    o.DemoOptions,
    "Learn a network from example data and compare it with the truth.",
    """Learn a network of eight genes from example data and compare it with the truth.

    \b
    Example:
      asterism demo -o RUN
      asterism demo --tables .
    """,
)
_add(
    "check",
    o.CheckOptions,
    "List everything that is wrong with a table.",
    """List everything that is wrong with a table, and say what it holds.

    \b
    Example:
      asterism check cells.csv
    """,
)
_add(
    "learn",
    o.LearnOptions,
    "Learn a network with a probability on every edge.",
    """Learn a network, with a probability for every edge, from a table of measurements.

    \b
    Examples:
      asterism learn cells.csv
      asterism learn cells.csv -o RUN --max-parents 3 --truth edges.csv
      asterism learn cells.csv --method sample --minutes 10
      asterism learn visits.csv --trajectory patient --emission categorical
    """,
)
_add(
    "fit",
    o.FitOptions,
    "Fit the rates of a given graph, with intervals.",
    """Fit the rates of a given graph, or of one node, with intervals and hazard ratios.

    \b
    Examples:
      asterism fit visits.csv --nodes state --absorbing dead --exact-entry dead
      asterism fit visits.csv --nodes state --allowed "1>2,2>3" --covariate sex --covariate age
      asterism fit cells.csv --edges edges.csv -o RUN
    """,
)
_add(
    "infer",
    o.InferOptions,
    "Infer the hidden states of a given network over time.",
    """Infer the states of the nodes of a given network, at and between the measurements.

    \b
    Example:
      asterism infer cells.csv --network network.json -o RUN
    """,
)
_add(
    "simulate",
    o.SimulateOptions,
    "Simulate measurements of a network.",
    """Simulate measurements of a network.

    \b
    Examples:
      asterism simulate network.json -o data.csv --trajectories 50
      asterism simulate --glauber tree:14 -o data.csv --save-truth edges.csv
      asterism simulate --random 5 -o paths.csv --paths
    """,
)
_add(
    "report",
    o.ReportOptions,
    "Write the report page of a run, and figures.",
    """Write the report page of a results folder, and figures for papers.

    \b
    Example:
      asterism report RUN --figures
      asterism report RUN --threshold 0.8 --node GAL4 --format pdf,svg
    """,
    "make_report",
)
_add(
    "compare",
    o.CompareOptions,
    "Set runs side by side on one page.",
    """Compare runs with the first: edges gained, lost and changed, and how sure that is.

    \b
    Example:
      asterism compare CONTROL TREATED -o COMPARED
    """,
)
_add(
    "reproduce",
    o.ReproduceOptions,
    "Make a figure or table of the paper again.",
    """Make a figure or table of the paper again, beside its printed numbers.

    \b
    Example:
      asterism reproduce irma --quick --data DATA -o OUT
    """,
)
_add(
    "convert",
    o.ConvertOptions,
    "Convert files of other tools.",
    f"""Convert files of other tools.

    Formats: {", ".join(FORMATS)}.

    \b
    Examples:
      asterism convert trajectories.csv paths.csv --from pyagrum
      asterism convert DATA.mat likelihoods.csv --nodes SWI5,CBF1,GAL4,GAL80,ASH1
      asterism convert network.json graph.graphml
    """,
)
_add(
    "app",
    o.AppOptions,
    "Learn, watch and compare on a page in the browser.",
    """Open a page in the browser: drop a table, mend how it is read, learn, compare.

    The address that is printed holds a token; nobody gets in without it. Needs asterism[app].

    \b
    Example:
      asterism app --folder runs
    """,
)
_add(
    "warm-up",
    o.WarmUpOptions,
    "Compile everything now, for containers and clusters.",
    """Compile now what the first commands would compile.

    Machine code is kept beside the package, or in NUMBA_CACHE_DIR if that is set.

    \b
    Example:
      NUMBA_CACHE_DIR=/opt/asterism-cache asterism warm-up --quiet
    """,
)


if __name__ == "__main__":
    main()
