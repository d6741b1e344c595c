"""The one way in which we start another Python: without the working directory on its path.

Python puts the working directory on the path of ``python -m module``. A file ``numpy.py`` beside
somebody's data would then be executed. A child gets this process's path instead, without the
working directory, and another directory to work in.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import Any

from asterism.numerics.safe_path import safe_path

_PROGRAM = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "sys.argv[:] = sys.argv[2:]; runpy.run_module(sys.argv[0], run_name='__main__')"
)


def child_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module of ours in another Python."""
    # -I: neither the working directory nor PYTHON… variables count; the path is handed over
    given = json.dumps(safe_path(sys.path))
    return [sys.executable, "-I", "-c", _PROGRAM, given, module, *arguments]


def start_child(module: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a module of ours in another Python, in an empty corner of the disk."""
    options.setdefault("cwd", tempfile.gettempdir())
    return subprocess.Popen(child_command(module, *arguments), **options)


#: seconds of computing after which a child that parses a file is stopped
PARSE_SECONDS = 300


class ChildFailed(Exception):
    """A child process failed or ended early; the text says which."""


def parse_in_child(module: str, content: bytes) -> bytes:
    """What a module makes of a file's content: parsers that may crash run in another process.

    The module reads the content from stdin and writes what it found to stdout; what is wrong with
    the content it says on stderr, with exit code 1.
    """
    child = start_child(
        module, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        found, said = child.communicate(content, timeout=10 * PARSE_SECONDS)
    except BaseException:
        child.kill()
        child.wait()
        raise
    if child.returncode == 0:
        return found
    if child.returncode < 0:
        raise ChildFailed("the file made its reader crash; it is damaged")
    lines = said.decode("utf-8", "replace").strip().splitlines() or ["it cannot be read"]
    raise ChildFailed(lines[-1][:300])


def limit_this_process() -> None:
    """For a child: no more memory than there is, no endless loop, no dump of a crash."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    from asterism.numerics.resources import available_bytes

    memory = available_bytes()
    limits = {resource.RLIMIT_CORE: 0.0, resource.RLIMIT_CPU: float(PARSE_SECONDS)}
    if memory < float("inf"):
        limits[resource.RLIMIT_AS] = memory
    for which, limit in limits.items():
        hard = resource.getrlimit(which)[1]
        amount = int(limit) if hard == resource.RLIM_INFINITY else min(int(limit), hard)
        resource.setrlimit(which, (amount, hard))
