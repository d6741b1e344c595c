"""What both learners share: settings, and tasks with one large input.

Settings follow scikit-learn's contract, without importing scikit-learn: ``__init__`` only stores
its arguments under their own names, and what ``fit`` finds ends in ``_``. ``get_params`` and
``set_params`` follow from the fields of the class, which is all that ``sklearn.base.clone`` and its
searches over settings ask for.

Tasks run in threads: these need no copies of the input, the kernels release the interpreter lock,
and they start at once. Under ``joblib.parallel_config(backend="dask")`` the input goes to every
worker once and the tasks go to the cluster. Tasks of a lost worker or of a scheduler that was
restarted are repeated. Results come back in the order of the tasks.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, ClassVar, TypeVar

from asterism.errors import ModelError
from asterism.learning.learner_settings import (
    KINDS,
    MOVED,
    Shown,
    as_object,
    new_name,
    refuse_old_names,
)
from asterism.notebook_card import MOST_ROWS, card
from asterism.numerics.arrays import BoolArray, FloatArray
from asterism.numerics.progress import ProgressListener as ProgressListener
from asterism.numerics.progress import Silent as Silent
from asterism.numerics.resources import n_threads
from asterism.star._buffers import Problem

Result = TypeVar("Result")

#: how often in a row all copies of the input may be lost before a search gives up
MAX_LOSSES = 5

#: seconds to wait for new workers when none is left
PATIENCE = 300.0


@dataclass(frozen=True)
class SharedInput:
    """What all local solves of one stage have in common."""

    problem: Problem
    table: FloatArray
    initial: FloatArray
    geometric: bool
    moments: FloatArray
    single_rates: tuple[FloatArray, ...]
    allowed: tuple[BoolArray, ...]
    shape: float
    rate: FloatArray
    digamma: bool
    stop: BoolArray
    """(1,) set when the time is over; a worker of a cluster has a copy that is never set."""


def map_tasks(
    work: Callable[..., Result],
    shared: Any,
    tasks: Sequence[tuple[Any, ...]],
    n_jobs: int,
    progress: ProgressListener,
) -> Iterator[Result]:
    """``work(shared, *task)`` of every task, in order."""
    client = dask_client()
    if client is not None:
        yield from _map_on_cluster(client, work, shared, tasks, progress)
        return

    def one(i: int) -> Result:
        result = work(shared, *tasks[i])
        progress.advance(_size(tasks[i]))
        return result

    yield from in_order(one, len(tasks), n_jobs)


def in_order(work: Callable[[int], Result], n_tasks: int, n_jobs: int) -> Iterator[Result]:
    """``work(i)`` of every task in threads, each result handed over as soon as its turn comes.

    The threads see the caller's time limit.
    """
    threads = min(n_threads(n_jobs), n_tasks)
    if threads <= 1:
        yield from map(work, range(n_tasks))
        return
    pool = ThreadPoolExecutor(threads)
    try:
        context = copy_context()
        yield from pool.map(lambda i: context.copy().run(work, i), range(n_tasks))
    finally:
        # on an interruption: finish what is running, start nothing more
        pool.shutdown(wait=True, cancel_futures=True)


def _size(task: tuple[Any, ...]) -> int:
    """Families in a task, for the progress display."""
    return sum(len(f) for f in task[1]) if len(task) > 1 else 1


def dask_client() -> Any:
    """The client of the Dask backend that joblib is set to use, or None."""
    if "distributed" not in sys.modules:
        return None
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend()
    return getattr(backend, "client", None)


def _map_on_cluster(
    client: Any,
    work: Callable[..., Result],
    shared: Any,
    tasks: Sequence[tuple[Any, ...]],
    progress: ProgressListener,
) -> Iterator[Result]:
    """Dask repeats a lost worker's tasks, but not an input that only lost workers held.

    It calls the tasks that need such an input cancelled; they are sent again with a new copy.
    """
    from concurrent.futures import CancelledError

    futures: list[Any] = [None] * len(tasks)
    done = losses = 0
    try:
        while done < len(tasks):
            try:
                _submit_unfinished(client, work, shared, tasks, futures, done)
                while done < len(tasks):
                    result = futures[done].result()
                    losses = 0
                    progress.advance(_size(tasks[done]))
                    done += 1
                    yield result
            except (CancelledError, OSError) as error:
                losses += 1
                _require_cluster(client, losses, error)
    finally:
        if client.status == "running":
            client.cancel([future for future in futures if future is not None])


def _submit_unfinished(
    client: Any,
    work: Callable[..., Result],
    shared: Any,
    tasks: Sequence[tuple[Any, ...]],
    futures: list[Any],
    done: int,
) -> None:
    """Send the input, and all tasks from ``done`` on that have no result waiting."""
    everywhere = client.scatter(shared, broadcast=True, hash=False)
    for i in range(done, len(tasks)):
        if futures[i] is None or futures[i].status != "finished":
            futures[i] = client.submit(work, everywhere, *tasks[i], pure=False)


def _require_cluster(client: Any, losses: int, error: BaseException) -> None:
    """Wait until there are workers; give up where there are none or all of them fail.

    A client that loses its scheduler tries to reach it again, and closes if it cannot.
    """
    deadline = time.monotonic() + PATIENCE
    while client.status == "connecting" and time.monotonic() < deadline:
        time.sleep(0.1)
    if client.status != "running":
        raise ConnectionError("The connection to the Dask scheduler was lost.") from error
    if losses > MAX_LOSSES:
        raise ConnectionError(
            f"The Dask workers were lost {losses} times in a row before they returned a result; "
            "their logs should say why (often: too little memory)."
        ) from error
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise ConnectionError(
            f"All Dask workers were lost, and none came back within {PATIENCE:g} seconds."
        ) from error


# ---- settings of a learner --------------------------------------------------------------------


Learner = TypeVar("Learner", bound="Estimator")

#: settings that are objects with settings of their own
SETTINGS: tuple[Any, ...] = tuple(KINDS.values())


class Estimator(Shown):
    """Settings as named arguments, kept as attributes: the fields of a dataclass."""

    #: names that arguments had before -> argument and field that took their place
    _moved: ClassVar[Mapping[str, tuple[str, str]]] = MOVED

    @classmethod
    def _setting_names(cls) -> list[str]:
        return [one.name for one in fields(cls)]  # type: ignore[arg-type]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name; with ``deep`` also those of their objects: sampling__minutes."""
        own = {name: getattr(self, name) for name in self._setting_names()}
        if not deep:
            return own
        inner = {
            f"{name}__{one.name}": getattr(value, one.name)
            for name, value in own.items()
            if isinstance(value, SETTINGS)
            for one in fields(value)
        }
        return {**own, **inner}

    def set_params(self: Learner, **settings: Any) -> Learner:
        """Change some settings; what was learned stays until the next ``fit``."""
        known = self._setting_names()
        changed = dict(self.get_params(deep=False))
        # whole objects first, so that a field given beside its object wins
        for name, value in sorted(settings.items(), key=lambda item: "__" in item[0]):
            base, _, inner = name.partition("__")
            if base not in known:
                moved = self._moved.get(name)
                hint = f"; say {new_name(*moved)}" if moved else f"; it has {', '.join(known)}"
                raise ModelError(f"{type(self).__name__} has no setting {name!r}{hint}.")
            if inner:
                whole = as_object(base, changed[base])
                names = [one.name for one in fields(whole)] if isinstance(whole, SETTINGS) else []
                if inner not in names:
                    raise ModelError(
                        f"{base} has no setting {inner!r}; it has {', '.join(names) or 'none'}."
                    )
                value = replace(whole, **{inner: value})
            changed[base] = value
        for name, value in changed.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's cross-validation asks of an estimator."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    _fitted: ClassVar[frozenset[str]] = frozenset()
    """Private attributes that a fit leaves."""

    def _forget(self) -> None:
        """Take away what was fitted: a fit that is interrupted leaves no answer of older data.

        And import beforehand what adds a warning filter when it is imported: a fit adds none.
        """
        if "scipy.sparse" not in sys.modules:
            with warnings.catch_warnings():
                importlib.import_module("scipy.sparse")
        # scikit-learn keeps attributes of its own on an estimator: those stay
        for name in [name for name in vars(self) if name in self._fitted or name[-1:] == "_"]:
            delattr(self, name)

    def _require_fitted(self, attribute: str) -> None:
        if attribute not in vars(self):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} has learned nothing yet; call fit.")

    def _repr_html_(self) -> str:
        """Settings, and of a fitted learner how it ended and its surest edges."""
        fitted = vars(self)
        if "stop_reason_" not in fitted:
            return card(repr(self), [("not fitted:", "call fit")])
        network, converged = getattr(self, "network_", None), getattr(self, "converged_", None)
        stop = str(getattr(self, "stop_reason_", ""))
        facts = []
        if network is not None:
            n_edges = sum(map(len, network.parents.values()))
            facts = [("nodes", f"{network.n_nodes:,}"), ("edges", f"{n_edges:,}")]
        if fitted.get("log_evidence_") is not None:
            facts.append(("log evidence", f"{float(fitted['log_evidence_']):.6g}"))
        if converged:
            facts.append(("converged:", stop) if stop else ("converged", ""))
        warning = f"Not converged. {stop}" if converged is False else ""
        edges = getattr(self, "edges_", None)
        if edges is None or not len(edges):
            return card(repr(self), facts, warning=warning)
        names = [n for n in ("parent", "child", "probability", "effect") if n in edges.columns]
        top = edges[names].head(MOST_ROWS)
        rows = [
            [f"{v:.3f}" if isinstance(v, float) else v for v in row]
            for row in top.itertuples(index=False)
        ]
        return card(repr(self), facts, names, rows, len(edges), warning)


def estimator(kind: type[Learner]) -> type[Learner]:
    """A dataclass as a learner: old names of arguments are refused with the new ones."""
    own = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    moved = kind._moved.items()
    kind._moved = {n: to for n, to in moved if n not in own and to[0] in own}
    plain = kind.__init__

    @wraps(plain)
    def checked(self: Any, *given: Any, **settings: Any) -> None:
        refuse_old_names(settings, kind._moved)
        plain(self, *given, **settings)

    kind.__init__ = checked  # type: ignore[method-assign]
    return kind
