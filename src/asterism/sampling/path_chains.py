"""Owns chains over the paths of a known network: how they start, and how they run.

A chain must start from paths that can happen. Each node first gets a path that explains its own
evidence. Where rates or joint likelihoods of zero make such paths impossible together, zeros are
raised to a floor, and the floor is lowered until the paths are possible without it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from asterism.errors import DataError
from asterism.evidence.arrays import Evidence
from asterism.model.compiled import CompiledGraph
from asterism.numerics._random_stream import new_stream
from asterism.numerics.resources import n_threads
from asterism.sampling._gibbs import (
    Record,
    draw_first_paths,
    impossible_measurement,
    new_work,
    present_statistics,
    run_paths,
    skip_paths,
)
from asterism.sampling.sampler_arrays import Families, FloatArray, Layout, Paths, Rates, Seen, Work
from asterism.sampling.sampler_setup import (
    diagonal_places,
    families_of,
    layout_of,
    places_for_first_jumps,
    rates_of,
    seen_of,
)

#: floors of zero rates, in units of a typical rate, and of zero likelihoods
_FLOORS = tuple(10.0 ** (-k / 2) for k in range(0, 17))
_SWEEPS_PER_FLOOR = 4


@dataclass(frozen=True)
class PathModel:
    """Everything that is known: families, their rates, the evidence."""

    layout: Layout
    seen: Seen
    families: Families
    rates: Rates

    @classmethod
    def of(
        cls, graph: CompiledGraph, table: FloatArray, initial: FloatArray, evidence: Evidence
    ) -> PathModel:
        layout = layout_of(graph, evidence)
        return cls(
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
    work: Work


def chain_streams(seed: Any, chain: int, n_streams: int, purpose: int = 0) -> Any:
    """(n_streams, 4) random streams of one chain."""
    root = np.random.SeedSequence(seed)
    words = np.random.SeedSequence(root.entropy, spawn_key=(chain, purpose))
    key = words.generate_state(2, np.uint64)
    streams = np.empty((n_streams, 4), dtype=np.uint64)
    for i in range(n_streams):
        streams[i] = new_stream(key, i)
    return streams


def start_chain(model: PathModel, seed: Any, number: int, labels: Any, nodes: Any) -> PathChain:
    """A chain whose paths can happen; refuses evidence for which none are found."""
    layout, seen, families = model.layout, model.seen, model.families
    width = families.parents.shape[1] + 1
    streams = chain_streams(seed, number, len(layout.start))
    failed = -1
    for floor in (0.0, *_FLOORS):
        # from scratch at the first floor; then on from where the higher floor led
        rates, likelihoods = model.rates, seen
        if floor > 0.0:
            rates, likelihoods = _floored(model, floor)
        if floor == 0.0 or floor == _FLOORS[0]:
            paths = places_for_first_jumps(layout, seen)
            work = new_work(64, int(layout.n_states.max()), width)
            paths, work, failed = draw_first_paths(
                layout, likelihoods, families, rates, paths, work, streams
            )
        for _ in range(_SWEEPS_PER_FLOOR if floor > 0.0 else 1):
            if failed < 0 and _can_happen(model, paths, work):
                return PathChain(streams, paths, work)
            if floor > 0.0 and failed < 0:
                paths, work, failed = skip_paths(
                    1, layout, likelihoods, families, rates, paths, work, streams
                )
    where = _place_of_trouble(model, paths, work, failed)
    d, n = divmod(where, len(layout.n_states))
    raise DataError(
        f"Trajectory {labels[d]!r}, node {nodes[n]!r}: no path was found that agrees with the "
        "evidence and with the rates and likelihoods that are zero; check both, or allow more."
    )


def run_chain(model: PathModel, chain: PathChain, n_sweeps: int, keep: bool) -> Record | None:
    """Go on with a chain; the draws if they are to be kept."""
    arrays = (model.layout, model.seen, model.families, model.rates)
    record = None
    if keep:
        chain.paths, chain.work, failed, record = run_paths(
            n_sweeps, *arrays, chain.paths, chain.work, chain.streams
        )
    else:
        chain.paths, chain.work, failed = skip_paths(
            n_sweeps, *arrays, chain.paths, chain.work, chain.streams
        )
    if failed >= 0:
        raise RuntimeError("A sampled path became impossible; this is an error of the sampler.")
    return record


def run_chains(
    model: PathModel, chains: list[PathChain], n_sweeps: int, keep: bool, n_jobs: int
) -> list[Record | None]:
    """Go on with several chains, on threads; results do not depend on how many."""
    threads = min(n_threads(n_jobs), len(chains))
    if threads <= 1:
        return [run_chain(model, chain, n_sweeps, keep) for chain in chains]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda chain: run_chain(model, chain, n_sweeps, keep), chains))


def _floored(model: PathModel, floor: float) -> tuple[Rates, Seen]:
    rate = model.rates.rate
    typical = float(np.median(rate[rate > 0.0])) if (rate > 0.0).any() else 1.0
    raised = np.where(rate > 0.0, rate, floor * typical)
    seen = model.seen._replace(joint_log=np.maximum(model.seen.joint_log, 2.0 * np.log(floor) - 1))
    initial = model.rates.initial
    return rates_of(model.layout, model.families.n_configs, raised, initial), seen


def _forbidden_jumps(model: PathModel, paths: Paths, work: Work) -> Any:
    table = np.zeros(len(model.rates.rate))
    present_statistics(model.layout, model.families, paths, work, table)
    forbidden = (table > 0.0) & (model.rates.rate == 0.0)
    for n in np.flatnonzero(model.layout.is_given):
        forbidden[model.layout.table_start[n] : model.layout.table_start[n + 1]] = False
    forbidden[diagonal_places(model.layout, model.families.n_configs)] = False
    return forbidden


def _can_happen(model: PathModel, paths: Paths, work: Work) -> bool:
    if impossible_measurement(model.layout, model.seen, paths) >= 0:
        return False
    return not _forbidden_jumps(model, paths, work).any()


def _place_of_trouble(model: PathModel, paths: Paths, work: Work, failed: int) -> int:
    """A pair to name in the message."""
    if failed >= 0:
        return failed
    forbidden = np.flatnonzero(_forbidden_jumps(model, paths, work))
    if len(forbidden):
        return int(np.searchsorted(model.layout.table_start, forbidden[0], side="right")) - 1
    i = int(impossible_measurement(model.layout, model.seen, paths))
    row = int(np.flatnonzero(model.seen.joint_index == i)[0])
    return int(np.searchsorted(model.seen.joint_start, row, side="right")) - 1
