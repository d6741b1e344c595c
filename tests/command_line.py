"""The command line as the tests call it, and what a refusal must look like."""

from __future__ import annotations

import signal
from typing import Any

from click.testing import CliRunner, Result

from asterism.cli import main


def invoke(*arguments: Any) -> Result:
    """Run a command in this process; an exception that escapes it is never right."""
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def obey_ctrl_c() -> None:
    """Let a child process obey Ctrl-C: what a shell starts in the background ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def assert_refused(result: Result, code: int, *words: str) -> None:
    """One paragraph on stderr, and nothing like a traceback."""
    assert result.exit_code == code, result.output
    assert result.stderr.startswith(("Error: ", "Usage: ")), result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr
