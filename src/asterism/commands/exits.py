"""How the command line tells what went wrong: exit codes, and the library's sentences in flags.

A user never meets a traceback: what is wrong with the input is said in one paragraph on stderr.
An error of the program itself has exit code 1; ASTERISM_DEBUG=1 shows its traceback.

The library's messages name settings (``errors.Setting``). Here each becomes the flag of the command
that is running; if only another command has it, that command is named too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import click

from asterism.errors import Advice, AsterismError, Front, Named, Setting, current_front, told

OK = 0
BUG = 1
USAGE = 2
BAD_DATA = 3
NOT_CONVERGED = 4
INTERRUPTED = 130


class Refused(click.ClickException):
    """The request itself cannot be carried out: a usage error that needs no usage line."""

    exit_code = USAGE

    def __init__(self, message: str) -> None:
        """Endless words, such as a value in a damaged file, are cut."""
        super().__init__(_with_short_words(message))


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


#: a word longer than this is no word: a damaged file may have names of thousands of letters
_LONGEST_WORD = 300


def _with_short_words(message: str) -> str:
    return re.sub(
        rf"\S{{{_LONGEST_WORD},}}", lambda word: f"{word[0][:60]}…{word[0][-20:]}", message
    )


def _say(message: str, code: int) -> int:
    lines = [line for line in _with_short_words(message).splitlines() if line.strip()]
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


# ---- the library's sentences in flags -------------------------------------------------------


#: settings whose flag has another name
OTHER_NAMES = {
    "random_state": "seed",
    "allowed_transitions": "allowed",
}


def in_flags(text: str, front: Front | None = None) -> str:
    """A sentence of the library in the words of a command, or of the one that is running."""
    return told(text, front or current_front())


def front_of(commands: Mapping[str, click.Command], running: str | None) -> Front:
    """The words of the command called ``running``."""

    def say(named: Named) -> str:
        if isinstance(named, Advice):
            return named.command
        ours = commands.get(running or "")
        others = [(name, one) for name, one in commands.items() if one is not ours]
        others.sort(key=lambda entry: entry[0] != "infer")  # which reads what the others write
        for name, command in [*([(None, ours)] if ours is not None else []), *others]:
            flag = _flag(command, named)
            if flag is not None:
                return flag if name is None else f"asterism {name} {flag}"
        return f"{named.in_python()} (in Python)"

    return say


def _flag(command: click.Command, setting: Setting) -> str | None:
    """The flag of a command, with the value if there is one; None if the command has none."""
    wanted = set(_spellings(setting.name))
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or not wanted & set(parameter.opts):
            continue
        flag = max(parameter.opts, key=len)
        if setting.value in (None, ...) or (parameter.is_flag and setting.value is True):
            return flag
        kind = parameter.type
        if isinstance(kind, click.Choice) and str(setting.value) not in kind.choices:
            return None
        return f"{flag} {setting.value}"
    return None


def _spellings(name: str) -> Iterator[str]:
    """``n_jobs`` may be --n-jobs or --jobs."""
    if name in OTHER_NAMES:
        yield f"--{OTHER_NAMES[name]}"
    yield f"--{name.replace('_', '-')}"
    if name.startswith("n_"):
        yield f"--{name[2:].replace('_', '-')}"
