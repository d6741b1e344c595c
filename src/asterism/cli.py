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


for _name, _options in (
    ("demo", o.DemoOptions),
    ("check", o.CheckOptions),
    ("learn", o.LearnOptions),
    ("fit", o.FitOptions),
    ("infer", o.InferOptions),
    ("simulate", o.SimulateOptions),
    ("report", o.ReportOptions),
    ("compare", o.CompareOptions),
    ("reproduce", o.ReproduceOptions),
    ("convert", o.ConvertOptions),
    ("app", o.AppOptions),
    ("warm-up", o.WarmUpOptions),
):
    main.add_command(command_of(_options, _name))


if __name__ == "__main__":
    main()
