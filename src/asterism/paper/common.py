"""What all reproductions share: saved rows, so that a run can go on, files in a folder, the page.

A reproduction is a list of cases. Each case is a small dictionary of settings, and its result a
small dictionary of numbers. Finished cases are lines of ``rows.jsonl``; the next run with the same
settings and the same version reads them instead of computing them again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import asterism
from asterism.data.files import as_json, parse_json, write_atomically, write_text
from asterism.errors import DataError
from asterism.learning.learner_settings import Accuracy
from asterism.learning.tasks import ProgressListener, Silent
from asterism.report.page_frame import templates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = "rows.jsonl"
#: the paper's learner: every family equally probable beforehand, the best family of each node
#: shown, probabilities as the star gives them
PAPER: dict[str, Any] = {
    "method": "star",
    "structure_prior": "uniform",
    "graph": "map",
    "accuracy": Accuracy(tempering=1.0),
}
Case = dict[str, Any]


class SavedRows:
    """The finished cases of one folder, one JSON object per line."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / ROWS
        self._known: dict[str, Case] = {}
        whole = b""
        if self.path.exists():
            content = self.path.read_bytes()
            # an interrupted run may have left half a line
            whole = content[: content.rfind(b"\n") + 1]
            if len(whole) < len(content):
                write_atomically(self.path, lambda temporary: temporary.write_bytes(whole))
        n_damaged = 0
        for line in whole.splitlines():
            try:
                record = parse_json(line.decode("utf-8"))
                if record.pop("checksum", None) != _checksum(record):
                    n_damaged += 1  # an older version had no checksums: its rows are old too
                    continue
                self._known[_name(record["case"], record["version"])] = record["result"]
            except (ValueError, KeyError, TypeError):
                raise DataError(
                    f"{str(self.path)!r} is not a file of saved rows; delete it or choose another "
                    "folder."
                ) from None

        if n_damaged:
            warnings.warn(
                f"{n_damaged} saved row{'' if n_damaged == 1 else 's'} of {str(self.path)!r} "
                "cannot be trusted and will be computed again.",
                stacklevel=2,
            )

    def get(self, case: Mapping[str, Any]) -> Case | None:
        """The row of a case that was computed before; None if there is none."""
        return self._known.get(_name(case, asterism.__version__))

    def add(self, case: Mapping[str, Any], result: Mapping[str, Any]) -> Case:
        """Append one line; read back as the next run will read it."""
        record = as_json({"case": case, "result": result, "version": asterism.__version__})
        line = json.dumps({**record, "checksum": _checksum(record)}, sort_keys=True) + "\n"
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:  # a full disk does not say which file it was
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        kept: Case = json.loads(line)["result"]
        self._known[_name(case, asterism.__version__)] = kept
        return kept


def _checksum(record: Mapping[str, Any]) -> str:
    """Of what a row says, however it is spaced and ordered."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def every(**values: Iterable[Any]) -> list[Case]:
    """One case for every combination of the values; the last setting changes first."""
    return [dict(zip(values, one)) for one in product(*values.values())]


def for_each(
    folder: Path,
    cases: Iterable[Case],
    compute: Callable[[Case], Mapping[str, Any]],
    what: str,
    progress: ProgressListener | None = None,
) -> list[Case]:
    """Results of all cases, in order, each joined with its settings; finished ones are read."""
    saved, listener = SavedRows(folder), progress or Silent()
    wanted = list(cases)
    listener.start(len(wanted), what)
    results = []
    for case in wanted:
        found = saved.get(case)
        if found is None:
            found = saved.add(case, compute(case))
        results.append({**case, **found})
        listener.advance()
    listener.finish()
    return results


def data_file(folder: Path | None, name: str) -> Path:
    """A file of the data folder, or an error that says what is missing."""
    if folder is None:
        raise DataError(
            f"This reproduction reads measurements that asterism does not ship; give the folder "
            f"that holds {name!r} with --data."
        )
    path = folder / name
    if not path.is_file():
        raise DataError(f"The data folder {str(folder)!r} has no file {name!r}.")
    return path


def write_table(folder: Path, name: str, table: pd.DataFrame) -> Path:
    """``name.csv`` with six significant digits, which is what documents quote."""
    path = folder / f"{name}.csv"
    write_text(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    return path


def records(table: pd.DataFrame) -> list[Case]:
    """The rows of a table, each by its column names."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def write_figure(folder: Path, name: str, figure: Figure) -> None:
    """``name.png`` and ``name.svg``."""
    for suffix in ("png", "svg"):
        write_atomically(folder / f"{name}.{suffix}", partial(_save, figure, suffix))


def draw_matrix(
    ax: Axes,
    matrix: Any,
    nodes: Sequence[str],
    framed: Mapping[tuple[str, str], str],
    colours: str = "viridis",
) -> None:
    """Edge probabilities as a picture; ``framed`` are edges with the colour of their frame."""
    from matplotlib.patches import Rectangle

    ax.imshow(np.asarray(matrix, dtype=np.float64), cmap=colours, vmin=0, vmax=1)
    for (parent, child), colour in framed.items():
        at = (nodes.index(child) - 0.5, nodes.index(parent) - 0.5)
        ax.add_patch(Rectangle(at, 1, 1, fill=False, linewidth=1.8, edgecolor=colour))
    ax.set(xlabel="child", ylabel="parent")
    ax.set_xticks(range(len(nodes)), nodes, fontsize=7, rotation=45, ha="right")
    ax.set_yticks(range(len(nodes)), nodes, fontsize=7)


def mean_and_errors(values: Iterable[float]) -> tuple[float, float, float]:
    """Mean, standard deviation and standard error; the last two are 0 for a single value."""
    numbers = np.asarray(list(values), dtype=np.float64)
    spread = float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0
    return float(numbers.mean()), spread, spread / float(np.sqrt(len(numbers)))


def _save(figure: Figure, suffix: str, path: Path) -> None:
    # neither the date nor random ids: the same numbers give the same file
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "asterism"}):
        metadata = {"Date": None} if suffix == "svg" else None
        figure.savefig(path, format=suffix, dpi=150, metadata=metadata)


def _name(case: Mapping[str, Any], version: str) -> str:
    return json.dumps([version, as_json(case)], sort_keys=True)


# ---- the page: text, tables and figures in one HTML file that needs nothing else -----------------


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

    def image(name: str) -> str:
        content = base64.b64encode((folder / name).read_bytes()).decode("ascii")
        return f"data:image/png;base64,{content}"

    template = templates("asterism.paper", "").get_template("page.html.j2")
    path = folder / "index.html"
    write_text(path, template.render(page=page, cell=cell, image=image))
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
