"""The command line: reads arguments, calls the library, turns errors into exit codes.

Nothing is computed here, and nothing heavy is imported before a command needs it, so that
``asterism --version`` and ``asterism --help`` answer at once.
"""

from __future__ import annotations

from pathlib import Path

import click

from asterism import __version__

BAD_DATA = 3


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="asterism")
def main() -> None:
    """Learn who influences whom from sparse, noisy, incomplete time series."""


@main.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("RUN"),
    show_default=True,
    help="Folder for the results; it must not exist yet.",
)
@click.option("--force", is_flag=True, help="Replace the folder if it exists.")
def demo(output: Path, force: bool) -> None:
    """Simulate a small network, observe it with noise, infer it, and draw the result."""
    from asterism.errors import AsterismError
    from asterism.report.demo import run_demo

    try:
        folder = run_demo(output, force=force)
    except FileExistsError as error:
        raise click.UsageError(str(error)) from error
    except AsterismError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(BAD_DATA) from error
    click.echo(f"Results are in {folder}", err=True)
