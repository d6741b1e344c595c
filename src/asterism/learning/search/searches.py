"""The searches over graphs, as data. To add one, write its function and add one entry.

A search is a function of a prepared ``SearchRun`` (``task.py``) and, optionally, of a solved graph
to begin from; it returns the search at its end. Nothing is loaded here, so that ``--help`` can list
the searches at once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Search:
    """One way to look for the graph."""

    name: str
    summary: str
    module: str
    function: str
    screens: bool
    """Whether families are scored by local solves."""


_ENTRIES = (
    Search(
        "exhaustive",
        "Scores every family, the whole network solved for each: small networks.",
        "asterism.learning.search.exhaustive",
        "search_exhaustively",
        screens=False,
    ),
    Search(
        "screened",
        "Scores families of the best candidates by local solves: any size.",
        "asterism.learning.search.screened",
        "screened_search",
        screens=True,
    ),
)

#: every search by its name; "auto" chooses among them by the number of families
SEARCHES: dict[str, Search] = {entry.name: entry for entry in _ENTRIES}
