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
