"""The command ``asterism``, and ``python -m asterism``: the first line of ours that runs.

It takes the working directory off the module path before anything else is imported, so that a file
such as ``numpy.py`` beside somebody's data is never executed. matplotlib also looks for settings
there, and settings can name code to load: that file is not looked at either. (numba reads settings
there too: ``numerics/compiler_cache.py`` says what they must not decide.)
"""

import os
import sys

from asterism.numerics.safe_path import safe_path


def run() -> None:
    """Start the command line."""
    sys.path[:] = safe_path(sys.path)
    if os.path.exists("matplotlibrc"):
        _import_elsewhere()
    from asterism.cli import main

    main()


def _import_elsewhere() -> None:
    """Import what reads settings from the working directory while we work in another."""
    here = os.getcwd()
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    try:
        import matplotlib  # noqa: F401  (read once, at import)
    finally:
        os.chdir(here)


if __name__ == "__main__":
    run()
