"""Exit codes, and the one place where errors become them.

A user never meets a traceback: what is wrong with the input is said in one paragraph on stderr.
An error of the program itself is told apart by exit code 1; ASTERISM_DEBUG=1 shows its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import click

from asterism.commands.flags import front_of, in_flags
from asterism.errors import AsterismError

OK = 0
BUG = 1
USAGE = 2
BAD_DATA = 3
NOT_CONVERGED = 4
INTERRUPTED = 130


class Refused(click.ClickException):
    """The request itself cannot be carried out: a usage error that needs no usage line."""

    exit_code = USAGE


class CommandGroup(click.Group):
    """A click group whose commands return exit codes and whose errors follow the table above."""

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
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        if not standalone_mode:
            return run()
        sys.exit(exit_code(run))

    def invoke(self, ctx: click.Context) -> Any:
        """As click does, but what the library says is said in flags."""
        try:
            return super().invoke(ctx)
        except AsterismError as error:
            # in place: not every error can be made anew from a sentence
            front = front_of(self.commands, ctx.invoked_subcommand)
            error.args = (in_flags(error.sentence, front),)
            raise


def exit_code(command: Callable[[], Any]) -> int:
    """Run a command; say on stderr what went wrong, if anything, and return the exit code."""
    try:
        return int(_flushed(command()) or OK)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:  # click turns Ctrl-C into this
        click.echo("Interrupted.", err=True)
        return INTERRUPTED
    except AsterismError as error:
        return _say(str(error), BAD_DATA)
    except BrokenPipeError:
        # the reader, such as head, has gone: nobody is left to be told
        _forget_stdout()
        return OK
    except MemoryError:
        return _say("There is not enough memory for this much data.", BAD_DATA)
    except ConnectionError as error:
        kept = "What was scored is kept: the same command with --resume goes on."
        return _say(f"{error} {kept}", USAGE)
    except OSError as error:
        return _say(f"{error.strerror or error}: {error.filename or 'a file'}.", USAGE)
    except RecursionError:
        return _say("A file is nested too deeply to be read.", BAD_DATA)
    except Exception as error:
        if "cannot cache function" in str(error):  # numba: neither the installation nor home
            return _say(
                "There is no folder to keep compiled code in; name one that can be written to in "
                "the environment variable NUMBA_CACHE_DIR.",
                USAGE,
            )
        if os.environ.get("ASTERISM_DEBUG"):
            raise
        return _say(
            f"This is an error of asterism itself, not of your data: {type(error).__name__}: "
            f"{error}. Please report it with the traceback that ASTERISM_DEBUG=1 shows.",
            BUG,
        )


def _say(message: str, code: int) -> int:
    lines = [line for line in message.splitlines() if line.strip()]
    with suppress(OSError, ValueError):  # nobody listens
        click.echo("Error: " + "\n".join(lines), err=True)
    return code


def _flushed(result: Any) -> Any:
    """The result, once everything printed is out; stdout may be closed, or full."""
    if sys.stdout is None:
        return result
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _forget_stdout()
        raise OSError(error.errno, error.strerror, "stdout (the results are written)") from None
    return result


def _forget_stdout() -> None:
    """Nothing more is to go there; Python would try again when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
