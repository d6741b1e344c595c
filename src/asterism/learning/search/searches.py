"""The searches over graphs, as data. To add one, write its function and add one entry.

A search is a function of a prepared ``SearchRun`` (``task.py``) and, optionally, of a solved graph
to begin from; it returns the search at its end. Nothing is loaded here, so that ``--help`` can list
the searches at once.
"""

from __future__ import annotations

from typing import NamedTuple


class SearchFunction(NamedTuple):
    """Where a search is, and what it needs."""

    module: str
    function: str
    screens: bool
    """Whether families are scored by local solves."""


#: every search by its name; "auto" chooses among them by the number of families
SEARCHES = {
    "exhaustive": SearchFunction(
        "asterism.learning.search.exhaustive", "search_exhaustively", screens=False
    ),
    "screened": SearchFunction(
        "asterism.learning.search.screened", "screened_search", screens=True
    ),
}
