"""Around a command: where its results go, the journal of its search, the cluster it runs on.

A folder or file that could not be written is refused before anything is computed.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asterism.commands.console import Console
from asterism.commands.exits import Refused, in_flags
from asterism.commands.input_table import file_hash
from asterism.data.files import TEMPORARY
from asterism.data.formats.registry import FORMATS, ReadSettings
from asterism.errors import DataError, quoted, require_known
from asterism.results.lock import LOCK, FolderInUse, only_writer

if TYPE_CHECKING:
    from asterism.data.observations import Observations
    from asterism.data.trajectories import Trajectories
    from asterism.inference.posterior import Posterior
    from asterism.results.run import Run

JOURNAL = "journal.sqlite"
#: where chains of sampling stand; they can always go on
CHECKPOINT = "sampling.npz"


@contextmanager
def writing_to(folder: Path, force: bool, resume: bool = False) -> Iterator[None]:
    """Be the only writer of a results folder; an old run stays unless ``force``.

    Whoever comes second is refused at once. A folder that was made for this and stays empty goes
    again.
    """
    if folder.exists() and not folder.is_dir():
        raise Refused(f"{str(folder)!r} is a file; name a folder for the results with -o.")
    _require_writable(folder)
    with ExitStack() as stack:
        try:
            stack.enter_context(only_writer(folder))
        except FolderInUse as error:
            raise Refused(str(error)) from None
        held = _held(folder)
        _require_free(folder, held, force, resume)
        if force and not resume and "run.json" not in held:
            for name in held:
                if name.startswith(JOURNAL):
                    (folder / name).unlink(missing_ok=True)
        yield


def _require_free(folder: Path, held: set[str], force: bool, resume: bool) -> None:
    """Refuse a folder with an old run unless ``force``."""
    interrupted = (JOURNAL in held and "run.json" not in held) or CHECKPOINT in held
    if resume and not force and "run.json" in held and not interrupted:
        raise Refused(
            f"{str(folder)!r} is finished already, there is nothing to resume; "
            "use --force to learn again."
        )
    if held and interrupted and not (resume or force):
        raise Refused(
            f"{str(folder)!r} holds an interrupted run: go on with --resume, or start again with "
            "--force."
        )
    if held and not (force or (resume and interrupted)):
        raise Refused(
            f"{str(folder)!r} exists already and holds {quoted(sorted(held), 3)}; name another "
            "folder with -o, or use --force."
        )


def _held(folder: Path) -> set[str]:
    """What lies in a folder, without the lock and without what a killed process left behind."""
    names = {path.name for path in folder.iterdir()}
    return {name for name in names if not name.startswith((LOCK, TEMPORARY))}


def require_file(path: Path, force: bool) -> None:
    """A file that may be written; an old one stays unless ``force``."""
    if path.is_dir():
        raise Refused(f"{str(path)!r} is a folder; name a file.")
    if path.exists() and not force:
        raise Refused(f"{str(path)!r} exists already; name another file, or use --force.")
    _require_writable(path.parent)


def _require_writable(folder: Path) -> None:
    """Try it, in the nearest folder that exists: rights are only known for sure by trying."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    try:
        handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=existing)
    except OSError as error:
        raise Refused(f"{str(existing)!r} cannot be written to: {error.strerror}.") from None
    os.close(handle)
    with contextlib.suppress(OSError):
        os.unlink(name)


def effective(command: str, options: Any) -> dict[str, Any]:
    """All settings of a command after flags, file and defaults; for run.json."""
    flat: dict[str, Any] = {}
    for name, value in asdict(options).items():
        flat.update(value if isinstance(value, dict) else {name: value})
    return {"name": command, **{k: str(v) if isinstance(v, Path) else v for k, v in flat.items()}}


def recorded(
    command: Mapping[str, Any],
    data: Observations | Trajectories,
    decisions: Sequence[str],
    **more: Any,
) -> dict[str, Any]:
    """What run.json says of every command: what was asked, decided and read."""
    return {
        "command": command,
        "decisions": decisions,
        "complete": True,
        "time_unit": data.time_unit,
        "data": command["data"],
        "data_hash": file_hash(Path(command["data"])),
        **more,
    }


def summary_of(result: Run, folder: Path, **more: Any) -> dict[str, Any]:
    """What ``--json`` says of every command that leaves a run."""
    record = result.run
    return {
        "data": record["data"],
        "output": str(folder),
        "report": str(folder / "report.html"),
        "converged": record["converged"],
        "stop_reason": in_flags(record["stop_reason"]),
        "decisions": record["decisions"],
        **more,
    }


def read_truth(path: Path, nodes: Sequence[str]) -> list[tuple[str, str]]:
    """True edges for ``--truth``; refused where they cannot be compared with these nodes."""
    edges = read_edges(path)
    if not edges:
        raise DataError(f"--truth {str(path)!r} holds no edges.")
    ends = [end for edge in edges for end in edge]
    require_known(ends, nodes, f"--truth {str(path)!r} names", error=DataError)
    return edges


def read_edges(path: Path) -> list[tuple[str, str]]:
    """Edges from a CSV with parent,child or source,target, a GraphML file or a network."""
    form = {".graphml": "graphml", ".json": "network"}.get(path.suffix.lower(), "edges")
    _, edges = FORMATS[form].load().read(path, ReadSettings()).require("graph", form)
    return list(edges)


def say_accuracy(posterior: Posterior | None, console: Console) -> str | None:
    """Compare a few trajectories with a better method where that is quick, and say the result."""
    from asterism.inference.accuracy import must_compile, quick_sentence

    if posterior is None or not any(posterior.network.parents.values()):
        return None
    what = "Comparing with a better method"
    if must_compile(posterior):
        what += ", which is compiled first (once, about 20 s)"
    with console.busy(what):
        found = quick_sentence(posterior)
    if found is None:
        return None
    sentence = in_flags(found[0])
    (console.warn if found[1] else console.say)(sentence)
    return sentence


# ---- around a search while it runs: its journal, the compiler, the cluster -------------------


#: seconds to wait for a scheduler, and for its first worker
PATIENCE = 20


@contextmanager
def scored_in(folder: Path, console: Console) -> Iterator[None]:
    """The folder in which the search keeps its journal.

    Whatever ends a search early (Ctrl-C, a full disk, too little memory, a lost cluster), the
    scores in the journal stay, and it is said how to go on. A journal without scores goes again.
    """
    from asterism.learning.search.journal import n_scores

    journal = folder / JOURNAL
    existed = journal.exists()
    try:
        yield
    except BaseException as error:
        # of a lost cluster or a disk that fails we cannot ask what it holds
        kept = journal.exists() and (isinstance(error, OSError) or n_scores(journal) > 0)
        if not kept and not existed:
            for path in folder.glob(f"{JOURNAL}*"):
                path.unlink(missing_ok=True)
        if kept and not isinstance(error, ConnectionError):  # which says so itself
            what = "Interrupted. " if isinstance(error, KeyboardInterrupt) else ""
            console.warn(
                f"{what}What was scored is kept in {str(journal)!r}: the same command with "
                "--resume goes on from there."
            )
        elif isinstance(error, KeyboardInterrupt):
            console.warn("Interrupted; nothing was written.")
        raise


@contextmanager
def on_cluster(address: str | None, alone: str, console: Console) -> Iterator[None]:
    """Families are scored by the workers of a dask scheduler, if there is one.

    ``alone`` says why they are not; "" if they are.
    """
    if address is None:
        yield
        return
    try:
        import joblib
        from distributed import Client
    except ImportError:
        raise Refused("--scheduler needs dask: pip install 'asterism[dask]'.") from None
    try:
        # not everybody's: what else dask is asked for must not depend on this cluster
        client = Client(address, timeout=PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise Refused(f"No scheduler answers at {address!r}: {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise Refused(f"The scheduler at {address!r} has no workers; start some.") from None
        n = len(client.scheduler_info()["workers"])
        console.say(f"Cluster: {n} worker{'' if n == 1 else 's'} at {address}.")
        if alone:
            console.warn(alone)
        with joblib.parallel_config(backend="dask", client=client):
            yield


def say_if_compiling(console: Console, how_long: str = "up to a minute") -> None:
    """Before a command that would otherwise be silent for a while."""
    from asterism.numerics._jit import is_on_disk
    from asterism.star._solve import iterate

    if not is_on_disk(iterate):
        console.say(
            f"First run on this machine: compiling takes {how_long}, once "
            "(asterism warm-up does it ahead of time)."
        )
