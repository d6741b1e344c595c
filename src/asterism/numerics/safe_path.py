"""Where modules may come from: never from the working directory, in which people keep data.

Imports nothing that Python has not loaded already when it starts: what runs before the path is
safe must not be looked for on it.
"""

import os

#: the folder that holds this package: it stays on the path even if one works in it
_HOME = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))


def safe_path(path: list[str]) -> list[str]:
    """The entries of a module path, absolute, without the working directory."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was deleted
        here = ""
    kept = []
    for entry in path:
        where = os.path.realpath(entry) if entry else here  # empty: the working directory
        if where != here or where == _HOME:
            kept.append(os.path.abspath(entry))
    return kept
