"""The tables of ``asterism demo`` and of the tutorials, simulated so that the truth is known.

Eight genes in 12 replicates, noisy, a fifth of the values missing, and the edges that made them
(``examples/make_demo_data.py``); patients with four conditions (``examples/make_patients.py``).
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
    patients: Path
    """Visits: patient, years, four conditions, age."""


@contextmanager
def demo_files() -> Iterator[DemoFiles]:
    """The files on disk, also where the package itself is inside an archive."""
    folder = resources.files("asterism.report") / "demo_data"
    with ExitStack() as stack:
        yield DemoFiles(
            data=stack.enter_context(resources.as_file(folder / "cells.csv")),
            truth=stack.enter_context(resources.as_file(folder / "true_edges.csv")),
            patients=stack.enter_context(resources.as_file(folder / "patients.csv")),
        )
