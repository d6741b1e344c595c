"""The command ``asterism``, and ``python -m asterism``: the first line of ours that runs.

It takes the working directory off the module path before anything else is imported, so that a file
such as ``numpy.py`` beside somebody's data is never executed. Two libraries also look for settings
there, and settings can name code to load: these files are not looked at either.
"""

import os
import sys

from asterism.numerics.safe_path import safe_path


def run() -> None:
    """Start the command line."""
    sys.path[:] = safe_path(sys.path)
    if os.path.exists(".numba_config.yaml") or os.path.exists("matplotlibrc"):
        _import_elsewhere()
    from asterism.cli import main

    main()


def _import_elsewhere() -> None:
    """Import what reads settings from the working directory while we work in another."""
    here = os.getcwd()
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    try:
        import matplotlib  # noqa: F401  (read once, at import)
        from numba.core import config

        # read again by every compilation
        config._config_fname = os.path.abspath("no settings of numba")
    finally:
        os.chdir(here)


if __name__ == "__main__":
    run()
