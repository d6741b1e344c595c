"""Around a search while it runs: the folder of its journal, and the cluster it may run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asterism.commands.console import Console
from asterism.commands.exits import Refused
from asterism.commands.outputs import JOURNAL

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
def on_cluster(address: str | None, screened: bool, console: Console) -> Iterator[None]:
    """Families are scored by the workers of a dask scheduler, if there is one."""
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
        if not screened:
            console.warn(
                "Only a screened search is shared among workers, and this one is not: it runs on "
                "this machine (--search screened would run on the cluster)."
            )
        with joblib.parallel_config(backend="dask", client=client):
            yield
