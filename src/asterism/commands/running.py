"""Around a search while it runs: the folder of its journal, and the cluster it may run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from asterism.commands.console import Console
from asterism.commands.exits import Refused
from asterism.commands.outputs import JOURNAL

#: seconds to wait for a scheduler, and for its first worker
PATIENCE = 20


@contextmanager
def scored_in(folder: Path, console: Console) -> Iterator[None]:
    """The folder in which the search keeps its journal.

    Ctrl-C leaves the journal behind and says how to go on, and so does a full disk or a lost
    cluster; any other error takes away what it made.
    """
    existed = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except KeyboardInterrupt:
        if (folder / JOURNAL).exists():
            console.warn(
                f"Interrupted. What was scored is kept in {str(folder / JOURNAL)!r}: the same "
                "command with --resume goes on from there."
            )
        else:
            console.warn("Interrupted; nothing was written.")
            _remove_if_empty(folder, existed)
        raise
    except OSError:
        _remove_if_empty(folder, existed)
        raise
    except Exception:
        if not existed:
            for path in folder.glob(f"{JOURNAL}*"):
                path.unlink(missing_ok=True)
        _remove_if_empty(folder, existed)
        raise


def _remove_if_empty(folder: Path, existed: bool) -> None:
    if not existed:
        with suppress(OSError):
            folder.rmdir()


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
