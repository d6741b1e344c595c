"""The results folder: one run as files that other tools can read, and back.

``network.json``, ``edges.csv``, ``families.csv``, ``posterior.nc``, ``graph.graphml``,
``observations.csv``, ``history.csv``, ``truth.csv``, ``run.json`` and ``report.html``. Every file
is written beside its place and renamed; ``run.json`` comes last and so marks a finished run.
``journal.sqlite`` belongs to the search and is never touched here.
"""

from __future__ import annotations

import json
import logging
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.errors import DataError
from asterism.model.network import Network
from asterism.results import courses
from asterism.results.effects import effect
from asterism.results.files import join_names, split_names, write_atomically, write_text
from asterism.results.run import EDGE_COLUMNS, FAMILY_COLUMNS, OBSERVATION_COLUMNS, Run

if TYPE_CHECKING:
    import xarray

log = logging.getLogger(__name__)

FORMAT_VERSION = 1

#: what may already lie in a folder that counts as new: the search wrote it during this run
SEARCH_FILES = ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm")

OPTIONAL_FILES = ("families.csv", "posterior.nc", "observations.csv", "history.csv", "truth.csv")

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
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"Cannot make the folder {str(folder)!r}: {error}.") from None
    # a folder without run.json is unfinished, also while an old run is being replaced
    (folder / "run.json").unlink(missing_ok=True)
    notices = list(run.run.get("notices", []))

    run.network.save(folder / "network.json")
    _write_table(folder / "edges.csv", run.edge_table)
    if run.families is not None:
        listed = run.families.assign(parents=[join_names(p) for p in run.families["parents"]])
        _write_table(folder / "families.csv", listed)
    if run.observations is not None:
        _write_table(folder / "observations.csv", run.observations)
    if run.history is not None:
        _write_table(folder / "history.csv", run.history)
    if run.truth is not None:
        _write_table(folder / "truth.csv", pd.DataFrame(run.truth, columns=["parent", "child"]))
    if run.posterior is not None:
        notices += _write_posterior(folder / "posterior.nc", run.posterior)
    _write_graphml(folder / "graph.graphml", run)
    _remove_stale(folder, run)

    record = complete_record(run, notices)
    if page is not None:
        page(Run(**{**vars(run), "run": record}), folder / "report.html")
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False, default=_as_json)
    write_text(folder / "run.json", text + "\n")
    return folder


def load(folder: str | Path) -> Run:
    """Read a results folder, whether ``asterism learn`` or a learner's ``save`` wrote it."""
    folder = Path(folder)
    if not (folder / "network.json").is_file():
        what = "does not exist"
        if folder.exists():
            what = "holds no network.json" if folder.is_dir() else "is not a folder"
        raise DataError(f"{str(folder)!r} {what}, so it is no results folder.")
    families = _read_table(folder / "families.csv", FAMILY_COLUMNS, ["score", "probability"])
    if families is not None:
        families["parents"] = pd.Series(
            [split_names(text) for text in families["parents"]], dtype=object
        )
    edges = _read_table(folder / "edges.csv", EDGE_COLUMNS, ["probability"])
    if edges is not None:
        edges["in_graph"] = [text.strip().lower() in ("true", "1") for text in edges["in_graph"]]
    truth = _read_table(folder / "truth.csv", ["parent", "child"], [])
    record = _read_record(folder / "run.json")
    return Run(
        network=Network.load(folder / "network.json"),
        edges=edges,
        families=families,
        posterior=_read_posterior(folder / "posterior.nc"),
        run=record,
        observations=_read_observations(folder / "observations.csv"),
        history=_read_history(folder / "history.csv", record),
        truth=None if truth is None else list(zip(truth["parent"], truth["child"])),
    )


def require_new(folder: Path, force: bool) -> None:
    """Refuse a path that is a file, or a folder with results in it."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{str(folder)!r} is a file; name a folder for the results.")
    if folder.is_dir() and not force:
        held = sorted(p.name for p in folder.iterdir() if p.name not in SEARCH_FILES)
        if held:
            raise DataError(
                f"The folder {str(folder)!r} already holds {', '.join(held[:3])}"
                f"{' and more' if len(held) > 3 else ''}; "
                "name another folder, or overwrite it with force."
            )


def complete_record(run: Run, notices: list[str]) -> dict[str, Any]:
    """The content of run.json: what the run recorded, with versions and sizes added."""
    record: dict[str, Any] = {
        "format": "asterism-run",
        "format_version": FORMAT_VERSION,
        "converged": None,
        "stop_reason": None,
        "seed": None,
        "data_hash": None,
        "settings": {},
        **run.run,
        "versions": {**versions(), **run.run.get("versions", {})},
        "n_nodes": len(run.network.nodes),
        "n_edges": int(sum(map(len, run.network.parents.values()))),
        "notices": notices,
    }
    cleaned: dict[str, Any] = json.loads(json.dumps(_finite(record), default=_as_json))
    return cleaned


def versions() -> dict[str, str]:
    """Of everything that the numbers depend on."""
    import numba

    from asterism import __version__

    return {
        "asterism": __version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "scipy": metadata.version("scipy"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


# ---- writing --------------------------------------------------------------------------------


def _write_table(path: Path, table: pd.DataFrame) -> None:
    write_atomically(
        path, lambda temporary: table.to_csv(temporary, index=False, lineterminator="\n")
    )


def _write_posterior(path: Path, posterior: xarray.Dataset) -> list[str]:
    kept, notices = courses.thinned(courses.from_dataset(posterior), courses.LARGEST)
    for notice in notices:
        log.warning("%s", notice)
    earlier = [str(posterior.attrs["notice"])] if "notice" in posterior.attrs else []
    notices = earlier + notices
    data = courses.to_dataset(kept, notices)
    encoding = {"probability": {"zlib": True, "complevel": 4}}

    def write(temporary: Path) -> None:
        with _without_cluster():
            data.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)

    write_atomically(path, write)
    return notices


@contextmanager
def _without_cluster() -> Iterator[None]:
    """xarray asks dask how to write even plain arrays, and a cluster may be gone by now."""
    dask: Any = sys.modules.get("dask")
    if dask is None:
        yield
        return
    with dask.config.set(scheduler="synchronous"):
        yield


def _write_graphml(path: Path, run: Run) -> None:
    """The learned graph for Cytoscape and networkx; edges carry probability and effect."""
    import networkx

    graph = networkx.DiGraph()
    for node in run.network.nodes:
        states = ";".join(str(s) for s in run.network.states[node])
        graph.add_node(_xml_text(node), states=_xml_text(states))
    for parent, child, attributes in run.graph.edges(data=True):
        graph.add_edge(
            _xml_text(parent),
            _xml_text(child),
            probability=attributes.get("probability", 0.0),
            effect=effect(run.network, child, parent),
        )
    write_atomically(path, lambda temporary: networkx.write_graphml(graph, temporary))


def _remove_stale(folder: Path, run: Run) -> None:
    """When a folder is written again, files that this run does not have must not stay."""
    have = (run.families, run.posterior, run.observations, run.history, run.truth)
    for name, value in zip(OPTIONAL_FILES, have):
        if value is None:
            (folder / name).unlink(missing_ok=True)
    (folder / "report.html").unlink(missing_ok=True)


def _xml_text(text: str) -> str:
    return text.encode("utf-8", errors="replace").decode("utf-8").translate(_NOT_XML)


def _as_json(value: Any) -> Any:
    """Settings may hold arrays, paths and model objects: lists where possible, else their text."""
    if isinstance(value, np.generic):
        return _finite(value.item())
    if isinstance(value, np.ndarray):
        return _finite(value.tolist())
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return str(value) if isinstance(value, Path) else repr(value)


def _finite(value: Any) -> Any:
    """JSON knows neither infinity nor NaN: write the first as text and the second as null."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value


# ---- reading --------------------------------------------------------------------------------


def _read_text_table(path: Path) -> pd.DataFrame | None:
    """All cells as text: a node may be called NA, 1 or 007."""
    if not path.is_file():
        return None
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise DataError(f"Cannot read {str(path)!r}: {error}.") from None
    return table.astype(object)


def _read_table(path: Path, columns: list[str], numbers: list[str]) -> pd.DataFrame | None:
    table = _read_text_table(path)
    if table is None:
        return None
    absent = [name for name in columns if name not in table.columns]
    if absent:
        raise DataError(f"{str(path)!r} has no column {', '.join(map(repr, absent))}.")
    for name in numbers:
        try:
            table[name] = table[name].astype(np.float64)
        except ValueError as error:
            raise DataError(f"Column {name!r} of {str(path)!r}: {error}.") from None
    return table


def _read_observations(path: Path) -> pd.DataFrame | None:
    table = _read_table(path, OBSERVATION_COLUMNS, ["time"])
    if table is None:
        return None
    table["trajectory"] = _whole_numbers(table["trajectory"])
    values = pd.to_numeric(table["value"], errors="coerce")
    # a node whose values are all numbers gets numbers, the others keep their labels
    texts = set(table.loc[values.isna(), "node"])
    table["value"] = [
        text if node in texts else number
        for node, text, number in zip(table["node"], table["value"], values)
    ]
    return table


def _whole_numbers(column: pd.Series) -> list[Any]:
    """Labels as integers when all of them are plainly integers."""
    texts = column.tolist()
    plain = all(t.lstrip("-").isdigit() and str(int(t)) == t for t in set(texts))
    return [int(t) for t in texts] if plain else texts


def _read_history(path: Path, record: dict[str, Any]) -> Any:
    table = _read_text_table(path)
    if table is None:
        return record.get("history")
    return table.apply(pd.to_numeric, errors="coerce")


def _read_posterior(path: Path) -> xarray.Dataset | None:
    import xarray

    if not path.is_file():
        return None
    try:
        with xarray.open_dataset(path, engine="h5netcdf") as data:
            return data.load()
    except (OSError, ValueError) as error:
        raise DataError(f"Cannot read {str(path)!r}: {error}.") from None


def _read_record(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"Cannot read {str(path)!r}: {error}.") from None
    if not isinstance(record, dict):
        raise DataError(f"{str(path)!r} holds no settings.")
    return record
