"""The results folder: one run as files that other tools can read, and back.

``network.json``, ``edges.csv``, ``families.csv``, ``posterior.nc``, ``graph.graphml`` with
``graph_style.xml``,
``observations.csv``, ``history.csv``, ``truth.csv``, ``run.json`` and ``report.html``. This is the
only writer of such folders and their only reader, for the learners' ``save`` and for the commands.
Every file is written beside its place and renamed; ``run.json`` comes last, marks a finished run
and lists size and hash of every file (:mod:`asterism.results.manifest`), which reading compares.
Only one process at a time writes (:mod:`asterism.results.lock`). ``journal.sqlite`` belongs to the
search and is never touched here.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Collection, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.data.columns import exact_numbers, require_columns
from asterism.data.files import TEMPORARY, write_bytes, write_table
from asterism.data.labels import as_names
from asterism.data.table_file import unescaped
from asterism.errors import Advice, DataError, first_few
from asterism.model.network import Network
from asterism.results import courses
from asterism.results.edge_effects import effect
from asterism.results.lock import LOCK, only_writer
from asterism.results.manifest import (
    FILES,
    RECORD,
    STYLE,
    complete_record,
    read_record,
    verify_files,
    write_record,
)
from asterism.results.posterior_file import read_posterior, write_posterior
from asterism.results.ranking import likely
from asterism.results.run import (
    EDGE_COLUMNS,
    FAMILY_COLUMNS,
    FIT_TABLES,
    NOT_SCORED,
    OBSERVATION_COLUMNS,
    RATE_COLUMNS,
    Run,
    join_names,
)

if TYPE_CHECKING:
    import xarray

log = logging.getLogger(__name__)

#: what may already lie in a folder that counts as new: the search wrote it during this run
SEARCH_FILES = ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm")

#: columns of tables that hold names, whatever these look like
_LABELS = frozenset(
    ("node", "configuration", "from", "to", "state", "note", "kind", "parameter", "transitions",
     "covariate", "trajectory", "stimulus", "parent", "child", "transition", "against", "others")
)  # fmt: skip

#: characters that XML cannot hold in any form
_NOT_XML = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF], "\ufffd")


def save_run(
    run: Run,
    folder: str | Path,
    force: bool = False,
    page: Callable[[Run, Path], object] | None = None,
) -> Path:
    """Write everything; refuses a folder that holds something already, unless ``force``.

    ``page`` writes the report page of a run to a path (``report.page.write_report``); without it
    the folder has none.
    """
    folder = Path(folder)
    require_new(folder, force)
    with only_writer(folder):
        require_new(folder, force)
        # a folder without run.json is unfinished, also while an old run is being replaced
        (folder / RECORD).unlink(missing_ok=True)
        notices = list(run.run.get("notices", []))
        written = {"network.json", "edges.csv", "graph.graphml", STYLE}
        run.network.save(folder / "network.json")
        for name, table in _tables(run).items():
            write_table(folder / name, table)
            written.add(name)
        if run.posterior is not None:
            notices += _write_courses(folder / "posterior.nc", run.posterior, run.network)
            written.add("posterior.nc")
        _write_graphml(folder / "graph.graphml", run)
        write_bytes(folder / STYLE, (resources.files("asterism.results") / STYLE).read_bytes())
        for name in FILES:  # of an older run: they must not stay
            if name not in written:
                (folder / name).unlink(missing_ok=True)
        record = complete_record(run, notices)
        if page is not None:
            page(Run(**{**vars(run), "run": record}), folder / "report.html")
        write_record(folder, record)
    return folder


def load(folder: str | Path, verify: bool = True) -> Run:
    """Read a results folder, whether ``asterism learn`` or a learner's ``save`` wrote it.

    Every file is compared with the size and hash that its run noted; ``verify=False`` reads what
    is there, on purpose.
    """
    return read_run(Path(folder), FILES if verify else ())


def read_run(folder: Path, verified_files: Sequence[str]) -> Run:
    """:func:`load` that compares only these files; the page that is renewed need not fit."""
    if not (folder / "network.json").is_file():
        what = "does not exist"
        if folder.exists():
            what = "holds no network.json" if folder.is_dir() else "is not a folder"
        raise DataError(f"{str(folder)!r} {what}, so it is not a results folder.")
    record = read_record(folder, verify=bool(verified_files))
    verified = bool(verified_files) and _verify(folder, record, verified_files)
    families = _read_table(
        folder / "families.csv", FAMILY_COLUMNS, ["score", "probability"], ("node", "parents")
    )
    edges = _read_table(
        folder / "edges.csv", EDGE_COLUMNS, ["probability"], (*EDGE_COLUMNS, "effect", "caveat")
    )
    if edges is not None:
        edges["in_graph"] = [text.strip().lower() in ("true", "1") for text in edges["in_graph"]]
    tables = {name: _read_table(folder / f"{name}.csv") for name in FIT_TABLES}
    truth = _read_table(folder / "truth.csv", ["parent", "child"])
    history = _read_table(folder / "history.csv", labels=())
    return Run(
        network=Network.load(folder / "network.json"),
        edges=edges,
        families=families,
        posterior=read_posterior(folder / "posterior.nc", verified),
        run=record,
        observations=_read_observations(folder / "observations.csv"),
        history=record.get("history") if history is None else history,
        truth=None if truth is None else list(zip(truth["parent"], truth["child"])),
        rates=_read_table(folder / "rates.csv", RATE_COLUMNS),
        tables={name: table for name, table in tables.items() if table is not None},
    )


def _verify(folder: Path, record: dict[str, Any], names: Sequence[str]) -> bool:
    """Whether every file is the one that was written; an unfinished run is refused."""
    if record:
        verified = verify_files(folder, record, names)
        if not verified:
            log.warning(
                "%s was written by an older version, which noted no checksums: nothing verified.",
                folder,
            )
        return verified
    others = [name for name in FILES if name != "network.json" and (folder / name).is_file()]
    if others:
        raise DataError(
            f"{str(folder)!r} holds {others[0]} but no run.json, so its run is not finished. "
            "Finish it, or read what is there with ",
            Advice("verify=False.", "--unverified."),
        )
    return False


def require_new(folder: Path, force: bool) -> None:
    """Refuse a path that is a file, or a folder with results in it."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{str(folder)!r} is a file; name a folder for the results.")
    if folder.is_dir() and not force:
        # not the search's files, the lock, or what a killed process left half-written
        passing = (*SEARCH_FILES, LOCK, TEMPORARY)
        held = sorted(p.name for p in folder.iterdir() if not p.name.startswith(passing))
        if held:
            raise DataError(
                f"The folder {str(folder)!r} already holds {first_few(held, 3)}; name "
                "another folder, or overwrite it with force."
            )


# ---- writing --------------------------------------------------------------------------------


def _tables(run: Run) -> dict[str, pd.DataFrame]:
    """The tables of a run by the names of their files."""
    tables = {"edges.csv": run.edge_table}
    if run.families is not None:
        joined = [join_names(parents) for parents in run.families["parents"]]
        tables["families.csv"] = run.families.assign(parents=joined)
    if run.observations is not None:
        tables["observations.csv"] = run.observations
    if run.history is not None:
        tables["history.csv"] = run.history
    if run.truth is not None:
        tables["truth.csv"] = pd.DataFrame(run.truth, columns=["parent", "child"])
    if run.rates is not None:
        tables["rates.csv"] = run.rates
    return {**tables, **{f"{name}.csv": table for name, table in run.tables.items()}}


def _write_courses(path: Path, posterior: xarray.Dataset, network: Network) -> list[str]:
    """The state probabilities as files hold them; what was left out when they were gathered."""
    notices = [str(posterior.attrs["notice"])] if "notice" in posterior.attrs else []
    kept = courses.from_dataset(posterior)
    # a posterior may have nodes that the network lacks
    states = network.states if set(kept.nodes) <= set(network.nodes) else None
    write_posterior(path, courses.to_dataset(kept, notices, states))
    return notices


def _write_graphml(path: Path, run: Run) -> None:
    """The graph for Cytoscape and networkx, with likely edges outside it.

    An edge carries all that the table of edges says of it; ``in_graph`` tells the graph's own.
    """
    import networkx

    graph = networkx.DiGraph()
    nodes = run.tables.get("nodes")
    stands_for: dict[str, str] = {}
    if nodes is not None and "stands_for" in nodes:
        stands_for = dict(zip(nodes["node"].astype(str), nodes["stands_for"].fillna("")))
    for node in run.network.nodes:
        states = ";".join(str(s) for s in run.network.states[node])
        graph.add_node(_xml_text(node), states=_xml_text(states))
        if node in run.not_scored:
            graph.nodes[_xml_text(node)]["caveat"] = NOT_SCORED
        if stands_for.get(node):
            graph.nodes[_xml_text(node)]["stands_for"] = _xml_text(stands_for[node])
    for row in likely(run.edge_table).to_dict("records"):
        parent, child = row.pop("parent"), row.pop("child")
        known = {
            str(name): _xml_text(value) if isinstance(value, str) else value
            for name, value in row.items()
            if value != "" and not pd.isna(value)
        }
        if "effect" not in known and parent in run.network.parents[child]:
            known["effect"] = effect(run.network, child, parent)
        graph.add_edge(_xml_text(parent), _xml_text(child), **known)
    buffer = io.BytesIO()
    networkx.write_graphml(graph, buffer)
    write_bytes(path, buffer.getvalue())


def _xml_text(text: str) -> str:
    return text.encode("utf-8", errors="replace").decode("utf-8").translate(_NOT_XML)


# ---- reading --------------------------------------------------------------------------------


def _read_table(
    path: Path,
    columns: Sequence[str] = (),
    numbers: Sequence[str] = (),
    labels: Collection[str] = _LABELS,
) -> pd.DataFrame | None:
    """A table that must have these columns, some of them numbers; None where there is no file.

    ``labels`` are columns of names: a node may be called NA, 1 or 007. All others hold numbers if
    every cell that is not empty is one.
    """
    if not path.is_file():
        return None
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except (ValueError, OverflowError) as error:  # pandas' own errors are of this kind
        raise DataError(f"Cannot read {str(path)!r}: {error}.") from None
    table = unescaped(table)
    require_columns(table, columns, repr(str(path)))
    for name in numbers:
        try:
            table[name] = table[name].replace("", np.nan).astype(np.float64)
        except ValueError as error:
            raise DataError(f"Column {name!r} of {str(path)!r}: {error}.") from None
    for name in [one for one in table.columns if one not in (*numbers, *labels)]:
        found = exact_numbers(table[name])
        if (found.notna() | (table[name].str.strip() == "")).all():
            table[name] = found
    return table


def _read_observations(path: Path) -> pd.DataFrame | None:
    table = _read_table(path, OBSERVATION_COLUMNS, ["time"], OBSERVATION_COLUMNS)
    if table is None:
        return None
    table["trajectory"] = as_names(table["trajectory"].to_numpy(dtype=object))
    values = exact_numbers(table["value"])
    # a node whose values are all numbers gets numbers, the others keep their labels
    texts = set(table.loc[values.isna(), "node"])
    table["value"] = [
        text if node in texts else number
        for node, text, number in zip(table["node"], table["value"], values)
    ]
    return table
