"""The data behind ``asterism demo``: measurements of eight genes, and the edges that made them.

Simulated by this project (``examples/make_demo_data.py``), so that the truth is known: 12
replicates, noisy, a fifth of the values missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path


@dataclass(frozen=True)
class DemoFiles:
    """Where the bundled files lie."""

    data: Path
    """Measurements: replicate, hours, one column per gene."""
    truth: Path
    """The true edges: parent, child."""


@contextmanager
def demo_files() -> Iterator[DemoFiles]:
    """The files on disk, also where the package itself is inside an archive."""
    folder = resources.files("asterism.report") / "demo_data"
    with ExitStack() as stack:
        yield DemoFiles(
            data=stack.enter_context(resources.as_file(folder / "cells.csv")),
            truth=stack.enter_context(resources.as_file(folder / "true_edges.csv")),
        )
