"""Owns chains over the paths of a known network: how they start, and how they run.

A chain must start from paths that can happen. Each node first gets a path that explains its own
evidence. Where rates or joint likelihoods of zero make such paths impossible together, zeros are
raised to a floor, and the floor is lowered until the paths are possible without it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from asterism.errors import DataError
from asterism.numerics._random_stream import new_stream
from asterism.numerics.compiled import CompiledGraph, diagonals
from asterism.numerics.resources import n_threads
from asterism.sampling._gibbs import (
    ARENA_FULL,
    EVERYWHERE,
    FIRST,
    KEEP,
    KEEP_PRESENT,
    SKIP,
    Record,
    arranged,
    draw_statistics,
    impossible_measurement,
    new_work,
    run_paths,
)
from asterism.sampling._path import IMPOSSIBLE
from asterism.sampling.sampler_arrays import FloatArray, PathModel, Paths, SamplerWork
from asterism.sampling.sampler_setup import (
    families_of,
    layout_of,
    places_for_first_jumps,
    rates_of,
    seen_of,
)
from asterism.timeline.evidence import Evidence

#: floors of zero rates, in units of a typical rate, and of zero likelihoods
_FLOORS = tuple(10.0 ** (-k / 2) for k in range(0, 17))
_SWEEPS_PER_FLOOR = 4

Result = TypeVar("Result")


def path_model(
    graph: CompiledGraph, table: FloatArray, initial: FloatArray, evidence: Evidence
) -> PathModel:
    """Everything that is known: families, their rates, the evidence."""
    layout = layout_of(evidence, graph.n_states, graph.n_configurations)
    return PathModel(
        layout=layout,
        seen=seen_of(evidence, graph.n_states),
        families=families_of(graph),
        rates=rates_of(layout, graph.n_configurations, table, initial),
    )


@dataclass
class PathChain:
    """One chain: its random numbers and its present paths."""

    streams: Any
    """(D, 4) one stream per trajectory, so draws do not depend on who draws which."""
    paths: Paths
    work: SamplerWork


def chain_streams(seed: Any, chain: int, n_streams: int, purpose: int = 0) -> Any:
    """(n_streams, 4) random streams of one chain."""
    root = np.random.SeedSequence(seed)
    words = np.random.SeedSequence(root.entropy, spawn_key=(chain, purpose))
    key = words.generate_state(2, np.uint64)
    streams = np.empty((n_streams, 4), dtype=np.uint64)
    for i in range(n_streams):
        streams[i] = new_stream(key, i)
    return streams


def start_chain(
    model: PathModel, seed: Any, number: int, labels: Any, nodes: Any, n_totals: int = 0
) -> PathChain:
    """A chain whose paths can happen; refuses evidence for which none are found."""
    layout, seen, families = model.layout, model.seen, model.families
    width = families.parents.shape[1] + 1
    streams = chain_streams(seed, number, len(layout.start))
    ended: Any = None
    for floor in (0.0, *_FLOORS):
        # from scratch at the first floor; then on from where the higher floor led
        floored = model if floor == 0.0 else _floored(model, floor)
        if floor == 0.0 or floor == _FLOORS[0]:
            paths = places_for_first_jumps(layout, seen)
            work = new_work(64, int(layout.n_states.max()), width, n_totals)
            paths, work, ended, _ = run_paths(1, FIRST, EVERYWHERE, floored, paths, work, streams)
        for _ in range(_SWEEPS_PER_FLOOR if floor > 0.0 else 1):
            if ended.pair < 0 and _can_happen(model, paths, work, streams):
                return PathChain(streams, paths, work)
            if floor > 0.0 and ended.pair < 0:
                paths, work, ended, _ = run_paths(
                    1, SKIP, EVERYWHERE, floored, paths, work, streams
                )
    where = _place_of_trouble(model, paths, work, streams, ended.pair)
    n, d = divmod(where, len(layout.start))
    raise DataError(
        f"Trajectory {labels[d]!r}, node {nodes[n]!r}: no path was found that agrees with the "
        "evidence and with the rates and likelihoods that are zero; check both, or allow more."
    )


def run_chain(
    model: PathModel, chain: PathChain, n_sweeps: int, keep: bool, pool: Executor | None = None
) -> Record | None:
    """Go on with a chain; the draws if they are to be kept. A pool shares the trajectories."""
    if pool is not None:
        records = []
        for _ in range(n_sweeps):
            sweep_on_threads(model, chain, pool)
            if keep:
                records.append(_present(model, chain.paths, chain.work, chain.streams))
        return _joined(records) if keep else None
    chain.paths, chain.work, ended, record = run_paths(
        n_sweeps, KEEP if keep else SKIP, EVERYWHERE, model, chain.paths, chain.work, chain.streams
    )
    require_possible(ended.pair)
    return record if keep else None


def require_possible(failed: int) -> None:
    """Raise if a path could not be drawn: the present one always could be drawn again."""
    if failed >= 0:
        raise RuntimeError("A sampled path became impossible; this is an error of the sampler.")


def run_chains(
    model: PathModel, chains: list[PathChain], n_sweeps: int, keep: bool, n_jobs: int
) -> list[Record | None]:
    """Go on with several chains, on threads; results do not depend on how many."""

    def go_on(chain: PathChain, pool: Executor | None) -> Record | None:
        return run_chain(model, chain, n_sweeps, keep, pool)

    return on_threads(go_on, chains, n_jobs, len(model.layout.start))


def sweep_on_threads(model: PathModel, chain: Any, pool: Executor) -> None:
    """One sweep over all paths of a chain (its ``paths``, ``work``, ``streams``), by chunks."""
    streams = getattr(chain.streams, "paths", chain.streams)
    n_chunks = len(chain.paths.used)
    places, waiting = [0] * n_chunks, list(range(n_chunks))
    while waiting:

        def go_on(c: int) -> Any:
            work = new_work(
                len(chain.work.time),
                len(chain.work.filtered) // (len(chain.work.time) + 1),
                len(chain.work.place),
                0,
            )
            return run_paths(1, SKIP, (c, places[c]), model, chain.paths, work, streams)[2]

        found = dict(zip(waiting, pool.map(go_on, waiting)))
        waiting = []
        for c, ended in found.items():
            places[c] = ended.place
            if ended.trouble == IMPOSSIBLE:
                require_possible(ended.pair)
            if ended.trouble == ARENA_FULL:
                waiting.append(c)
                chain.paths = arranged(chain.paths, chain.paths.first, ended.pair, ended.n_jumps)


def on_threads(
    go_on: Callable[[Any, Executor | None], Result],
    chains: list[Any],
    n_jobs: int,
    n_trajectories: int = 1,
) -> list[Result]:
    """``go_on(chain, pool)`` of every chain; where threads are left, chains get pools of them.

    The paths of each chain are laid out in as many chunks as threads will share it: threads share
    chains with several trajectories.
    """
    threads = n_threads(n_jobs)
    each = max(1, min(threads // len(chains), n_trajectories))
    first = np.array([n_trajectories * i // each for i in range(each + 1)], dtype=np.int64)
    for chain in chains:
        if n_trajectories > 1 and len(chain.paths.used) != each:
            chain.paths = arranged(chain.paths, first, -1, 0)
    if threads == 1:
        return [go_on(chain, None) for chain in chains]
    with ExitStack() as stack:
        outer = stack.enter_context(ThreadPoolExecutor(min(threads, len(chains))))
        pools = [stack.enter_context(ThreadPoolExecutor(each)) for _ in chains if each > 1]
        return list(outer.map(go_on, chains, pools or [None] * len(chains)))


def _joined(records: list[Record]) -> Record:
    """Records of one draw each as one."""
    shift = np.cumsum([0, *(len(r.time) for r in records)])
    return Record(
        np.concatenate([r.initial for r in records]),
        np.concatenate([r.start + s for r, s in zip(records, shift)]),
        np.concatenate([r.time for r in records]),
        np.concatenate([r.state for r in records]),
    )


def _floored(model: PathModel, floor: float) -> PathModel:
    rate = model.rates.rate
    typical = float(np.median(rate[rate > 0.0])) if (rate > 0.0).any() else 1.0
    raised = np.where(rate > 0.0, rate, floor * typical)
    seen = model.seen._replace(joint_log=np.maximum(model.seen.joint_log, 2.0 * np.log(floor) - 1))
    initial = model.rates.initial
    rates = rates_of(model.layout, model.families.n_configs, raised, initial)
    return model._replace(rates=rates, seen=seen)


def _present(model: PathModel, paths: Paths, work: SamplerWork, streams: Any) -> Record:
    """The present paths as one draw."""
    record: Record = run_paths(1, KEEP_PRESENT, EVERYWHERE, model, paths, work, streams)[3]
    return record


def _forbidden_jumps(model: PathModel, paths: Paths, work: SamplerWork, streams: Any) -> Any:
    table = draw_statistics(model, _present(model, paths, work, streams), work)[0]
    forbidden = (table > 0.0) & (model.rates.rate == 0.0)
    for n in np.flatnonzero(model.layout.is_given):
        forbidden[model.layout.table_start[n] : model.layout.table_start[n + 1]] = False
    layout = model.layout
    forbidden[diagonals(layout.table_start, model.families.n_configs, layout.n_states)] = False
    return forbidden


def _can_happen(model: PathModel, paths: Paths, work: SamplerWork, streams: Any) -> bool:
    if impossible_measurement(model, paths) >= 0:
        return False
    return not _forbidden_jumps(model, paths, work, streams).any()


def _place_of_trouble(
    model: PathModel, paths: Paths, work: SamplerWork, streams: Any, failed: int
) -> int:
    """A pair to name in the message."""
    if failed >= 0:
        return failed
    forbidden = np.flatnonzero(_forbidden_jumps(model, paths, work, streams))
    if len(forbidden):
        node = int(np.searchsorted(model.layout.table_start, forbidden[0], side="right")) - 1
        return node * len(model.layout.start)
    i = int(impossible_measurement(model, paths))
    row = int(np.flatnonzero(model.seen.joint_index == i)[0])
    return int(np.searchsorted(model.seen.joint_start, row, side="right")) - 1
