"""The page of a reproduction: text, tables and figures in one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.data.files import write_text
from asterism.paper.common import write_figure, write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass
class Section:
    """A heading with paragraphs, then a table, then a figure (a PNG file of the same folder)."""

    title: str
    paragraphs: Sequence[str] = ()
    table: pd.DataFrame | None = None
    figure: str | None = None
    points: Sequence[str] = ()


@dataclass
class Page:
    """What ``asterism reproduce`` shows."""

    title: str
    lead: str
    sections: list[Section] = field(default_factory=list)
    unspecified: Sequence[tuple[str, str]] = ()
    """(what the paper leaves open, what was chosen here)"""
    quick: bool = False


def write_all(
    folder: Path, page: Page, tables: Mapping[str, pd.DataFrame], figures: Mapping[str, Figure]
) -> Path:
    """Tables and figures by their names, and the page that shows them: the end of every run."""
    for name, table in tables.items():
        write_table(folder, name, table)
    for name, figure in figures.items():
        write_figure(folder, name, figure)
    return write_page(folder, page)


def write_page(folder: Path, page: Page) -> Path:
    """``index.html``, atomically."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_template())
    path = folder / "index.html"
    write_text(
        path, template.render(page=page, cell=cell, image=lambda name: _image(folder / name))
    )
    return path


def cell(value: Any) -> str:
    """Numbers with three significant digits after the point at most; truth values as words."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value != value:  # not a number: nothing to show
            return ""
        return (
            f"{value:.3g}" if 0.0 < abs(value) < 0.001 else f"{value:.3f}".rstrip("0").rstrip(".")
        )
    return "" if value is None else str(value)


def _image(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


def _template() -> str:
    return (resources.files("asterism.paper") / "page.html.j2").read_text(encoding="utf-8")
