"""Owns chains over everything unknown: how they start, run, are written down and read again."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from asterism.numerics.arrays import offsets
from asterism.numerics.resources import chunks
from asterism.sampling._along import MOST_SPANS, N_KINDS
from asterism.sampling._factors import N_CELLS, draw_factors
from asterism.sampling._gibbs import EVERYWHERE, SKIP, new_work, run_paths
from asterism.sampling._graphs import (
    DrawAverages,
    DrawnModels,
    Room,
    draw_nodes,
    draw_shape,
    keep_present,
    list_children,
    set_shape,
)
from asterism.sampling.model_setup import ModelSetup
from asterism.sampling.path_chains import (
    chain_streams,
    on_threads,
    require_possible,
    start_chain,
    sweep_on_threads,
)
from asterism.sampling.sampler_arrays import (
    Candidates,
    Choices,
    Emitted,
    Families,
    FloatArray,
    IntArray,
    PathModel,
    Paths,
    RatePrior,
    Rates,
    SamplerWork,
    Seen,
    Streams,
    Trial,
)
from asterism.sampling.sampler_setup import add_terms, arranged_paths, rates_of

_NODES = 1
"""Purpose of the streams that draw families, rates, starts and emissions."""


@dataclass
class ModelChain:
    """One chain and its present graph, parameters and paths."""

    seen: Seen
    """Its own likelihoods, where emissions are learned."""
    emitted: Emitted
    prior: RatePrior
    """Its own shape."""
    families: Families
    rates: Rates
    paths: Paths
    work: SamplerWork
    streams: Streams
    room: Room
    averages: DrawAverages
    n_sweeps: int = 0

    def model(self, setup: ModelSetup) -> PathModel:
        """What the paths depend on, with the present parameters."""
        return PathModel(setup.layout, self.seen, self.families, self.rates)


def start_model_chain(setup: ModelSetup, seed: Any, number: int, place: IntArray) -> ModelChain:
    """A chain that begins from a graph: ``place[n]`` is the row of node n's family.

    Rates begin at their prior mean; paths at some that explain the evidence.
    """
    layout, candidates, prior = setup.layout, setup.candidates, _copy(setup.prior)
    seen = setup.seen._replace(log_likelihood=setup.seen.log_likelihood.copy())
    emitted = setup.emitted._replace(parameter=setup.emitted.parameter.copy())
    families = _families_at(setup, place, candidates.parents[place])
    table = np.zeros(int(layout.table_start[-1]))
    for n, size in enumerate(layout.n_states.tolist()):
        own = slice(int(prior.allowed_start[n]), int(prior.allowed_start[n + 1]))
        block = table[layout.table_start[n] : layout.table_start[n + 1]].reshape(-1, size * size)
        block[:] = prior.shape[0] / prior.rate[own] * prior.allowed[own]
    rates = rates_of(layout, families.n_configs, table, setup.initial)
    if setup.factors is not None:
        n_pairs = len(layout.n_states) * len(layout.start)
        rates = rates._replace(factor=np.ones(2 * MOST_SPANS * n_pairs))
    model = PathModel(layout, seen, families, rates)
    largest = int(max(3 * layout.n_states.max(), np.diff(emitted.start).max(initial=0), 1))
    begun = start_chain(model, seed, number, setup.labels, setup.names, largest)
    n_families = len(candidates.n_parents)
    begin = int(np.abs(setup.shapes.shape - prior.shape).argmin())
    return ModelChain(
        seen=seen,
        emitted=emitted,
        prior=prior,
        families=families,
        rates=rates,
        paths=begun.paths,
        work=begun.work,
        streams=Streams(
            begun.streams, chain_streams(seed, number, len(layout.n_states) + 2, _NODES)
        ),
        room=Room(
            table=np.zeros(int(candidates.table_start[-1])),
            probability=np.zeros(n_families),
            log_gamma=setup.shapes.log_gamma[begin].copy(),
            place=place.astype(np.int64).copy(),
            hold=np.zeros(1, dtype=np.bool_),
            kept=np.array([-1, 1, 0], dtype=np.int64),
        ),
        averages=_no_averages(setup),
    )


class GivenPaths(NamedTuple):
    """Paths of one node in all trajectories, one after the other."""

    initial: IntArray
    n_jumps: IntArray
    """(D,)"""
    time: FloatArray
    state: IntArray
    """The state entered."""


def begin_with(setup: ModelSetup, chain: ModelChain, given: Mapping[int, GivenPaths]) -> None:
    """Let nodes without evidence of their own begin with these paths."""
    arrays, n_trajectories = chain_arrays(chain), len(setup.layout.start)
    initial, n_jumps = arrays["paths.initial"].copy(), arrays["paths.n_jumps"].copy()
    first = offsets(n_jumps)[::n_trajectories]
    times, states = (np.split(arrays[f"paths.{f}"], first[1:-1]) for f in ("time", "state"))
    for node, paths in given.items():
        own = slice(node * n_trajectories, (node + 1) * n_trajectories)
        initial[own], n_jumps[own] = paths.initial, paths.n_jumps
        times[node], states[node] = paths.time, paths.state
    chain.paths = arranged_paths(
        initial,
        n_jumps,
        np.concatenate(times),
        np.concatenate(states).astype(np.int16),
        n_trajectories,
    )


def run_model_chain(
    setup: ModelSetup,
    chain: ModelChain,
    n_sweeps: int,
    keep_every: int,
    keep_rates: bool,
    pool: Executor | None = None,
) -> DrawnModels:
    """Go on with a chain; ``keep_every`` 0 keeps nothing. A pool shares nodes and trajectories."""
    drawn = _no_draws(setup, chain, n_sweeps // keep_every if keep_every else 0, keep_rates)
    room = chain.room
    room.kept[1] = max(1, keep_every)
    model = chain.model(setup)
    choices = Choices(setup.candidates, setup.others, chain.prior, chain.emitted)
    pieces = chunks(len(model.layout.n_states), len(chain.paths.used) if pool is not None else 1)
    works = [
        new_work(2, 2, len(chain.work.place), len(chain.work.totals)) for _ in range(len(pieces))
    ]
    trials = [_trial(setup) for _ in pieces]

    def draw(piece: tuple[int, int], work: SamplerWork, trial: Trial) -> None:
        draw_nodes(
            *piece, model, choices, chain.paths, work, trial, chain.streams.nodes, room,
            chain.averages, drawn.edges,
        )  # fmt: skip

    for sweep in range(n_sweeps):
        kept = sweep // int(room.kept[1])
        room.kept[0] = kept if kept < len(drawn.n_jumps) else -1
        room.kept[2] = chain.n_sweeps + sweep
        if len(setup.shapes.shape) > 1:
            draw_shape(
                model, choices, setup.shapes, chain.paths, works[0], room, chain.streams.nodes[-2]
            )
        list((map if pool is None else pool.map)(draw, pieces, works, trials))
        list_children(model.families)
        if setup.factors is not None:
            draw_factors(
                model, chain.paths, works[0], setup.factors, chain.streams.nodes[-1],
                room.kept[0] >= 0, chain.averages.factor, chain.averages.residual,
            )  # fmt: skip
        if room.kept[0] >= 0 and (sweep + 1) % int(room.kept[1]) == 0:
            keep_present(kept, model, choices.emitted, chain.paths, drawn)
        if pool is not None:
            sweep_on_threads(model, chain, pool)
            continue
        chain.paths, chain.work, ended, _ = run_paths(
            1, SKIP, EVERYWHERE, model, chain.paths, chain.work, chain.streams.paths
        )
        require_possible(ended.pair)
    chain.n_sweeps += n_sweeps
    return drawn


class ChainTask(NamedTuple):
    """One chain and how far it is to go: a piece of work that can be sent elsewhere."""

    chain: Any
    n_sweeps: int
    keep_every: int
    keep_rates: bool


AdvancedChain = tuple[Any, DrawnModels]


def advanced(setup: ModelSetup, task: ChainTask) -> AdvancedChain:
    """The chain after its sweeps, and what was drawn."""
    return task.chain, run_model_chain(setup, *task)


def run_model_chains(
    setup: ModelSetup,
    chains: list[ModelChain],
    n_sweeps: int,
    keep_every: int,
    keep_rates: bool,
    n_jobs: int,
) -> list[DrawnModels]:
    """Go on with all chains, on threads; an interruption lets those that run finish."""

    def go_on(chain: ModelChain, pool: Executor | None) -> DrawnModels:
        return run_model_chain(setup, chain, n_sweeps, keep_every, keep_rates, pool)

    return on_threads(go_on, chains, n_jobs, len(setup.layout.start))


def forget_averages(setup: ModelSetup, chain: ModelChain) -> None:
    """Begin anew with averages: the burn-in is over."""
    chain.averages = _no_averages(setup)


def hold_graph(chain: ModelChain, hold: bool) -> None:
    """Whether families stay as they are."""
    chain.room.hold[0] = hold


# ---------------------------------------------------------------------- checkpoints
_BUNDLES = ("rates", "averages")


def chain_arrays(chain: ModelChain) -> dict[str, Any]:
    """Everything that a chain needs to go on exactly as if it had not been stopped.

    What follows from the rest is left out: tables of families, and where paths lie in memory.
    """
    families, paths = chain.families, chain.paths
    n_jumps = paths.n_jumps
    is_used = np.arange(families.parents.shape[1]) < families.n_parents[:, None]
    taken = np.repeat(paths.slot - np.cumsum(n_jumps) + n_jumps, n_jumps)
    taken += np.arange(len(taken))
    arrays: dict[str, Any] = {
        "streams": chain.streams.paths,
        "node_streams": chain.streams.nodes,
        "place": chain.room.place,
        "parents": np.where(is_used, families.parents, -1),
        "hold": chain.room.hold,
        "shape": chain.prior.shape,
        "parameter": chain.emitted.parameter,
        "log_likelihood": chain.seen.log_likelihood,
        "n_sweeps": np.array(chain.n_sweeps),
        "paths.initial": paths.initial,
        "paths.n_jumps": n_jumps,
        "paths.time": paths.time[taken],
        "paths.state": paths.state[taken],
    }
    for name in _BUNDLES:
        bundle = getattr(chain, name)
        arrays.update({f"{name}.{f}": getattr(bundle, f) for f in bundle._fields})
    return arrays


def restore_chain(setup: ModelSetup, chain: ModelChain, arrays: dict[str, Any]) -> None:
    """Put a freshly started chain where another one was written down."""
    chain.streams.paths[:] = arrays["streams"]
    chain.streams.nodes[:] = arrays["node_streams"]
    chain.room.place[:] = arrays["place"]
    chain.room.hold[:] = arrays["hold"]
    shapes = setup.shapes
    nearest = int(np.abs(shapes.shape - arrays["shape"]).argmin())
    set_shape(nearest, shapes, chain.prior, chain.room)
    chain.emitted.parameter[:] = arrays["parameter"]
    chain.seen.log_likelihood[:] = arrays["log_likelihood"]
    chain.n_sweeps = int(arrays["n_sweeps"])
    chain.families = _families_at(setup, arrays["place"], arrays["parents"])
    chain.paths = arranged_paths(
        arrays["paths.initial"],
        arrays["paths.n_jumps"],
        arrays["paths.time"],
        arrays["paths.state"],
        len(setup.layout.start),
    )
    for name in _BUNDLES:
        bundle = getattr(chain, name)
        own = {f: np.ascontiguousarray(arrays[f"{name}.{f}"]) for f in bundle._fields}
        setattr(chain, name, type(bundle)(**own))


# ---------------------------------------------------------------------- beginnings
def _copy(prior: RatePrior) -> RatePrior:
    """With arrays of its own where a chain writes."""
    own = {name: getattr(prior, name).copy() for name in ("shape", "rate", "log_rate")}
    return prior._replace(**own)


def _no_averages(setup: ModelSetup) -> DrawAverages:
    n_families = len(setup.candidates.n_parents)
    return DrawAverages(
        family=np.zeros(n_families),
        elsewhere=np.zeros(len(setup.names)),
        pairs=np.zeros(setup.others.edge.shape),
        rates=np.zeros(int(setup.candidates.table_start[-1])),
        statistics=np.zeros(int(setup.candidates.table_start[-1])),
        weight=np.zeros(n_families),
        factor=np.zeros(
            (len(setup.names), N_KINDS, 1 if setup.factors is None else len(setup.factors.shape))
        ),
        residual=np.zeros(
            (len(setup.names), 0 if setup.factors is None else len(setup.layout.start), N_CELLS, 2)
        ),
    )


def _no_draws(setup: ModelSetup, chain: ModelChain, n_kept: int, keep_rates: bool) -> DrawnModels:
    return DrawnModels(
        edges=np.zeros((n_kept, len(setup.edges)), dtype=np.float32),
        parents=np.zeros((n_kept, *chain.families.parents.shape), dtype=np.int32),
        rates=np.zeros((n_kept, len(chain.rates.rate) if keep_rates else 0)),
        initial=np.zeros((n_kept, len(chain.rates.initial))),
        emission=np.zeros((n_kept, len(chain.emitted.parameter))),
        n_jumps=np.zeros(n_kept),
    )


def _families_at(setup: ModelSetup, place: IntArray, parents: IntArray) -> Families:
    """The candidates in these rows; where a row is −1, the family with these parents."""
    candidates, sizes = setup.candidates, setup.layout.n_states
    n_nodes, width, like = len(sizes), setup.width, candidates.parents.shape[1]

    def zeros(*shape: int) -> IntArray:
        return np.zeros(shape, dtype=np.int64)

    found = Families(
        n_parents=candidates.n_parents[place],
        parents=zeros(n_nodes, width),
        term=zeros(n_nodes, width, candidates.term.shape[2]),
        n_configs=candidates.n_configs[place],
        child_start=zeros(n_nodes + 1),
        child=zeros(n_nodes * width),
        child_slot=zeros(n_nodes * width),
    )
    found.parents[:, :like] = candidates.parents[place]
    found.term[:, :like] = candidates.term[place]
    for n in np.flatnonzero(place < 0):
        own = parents[n][parents[n] >= 0]
        found.n_parents[n], found.parents[n, : len(own)] = len(own), own
        found.n_configs[n] = add_terms(sizes, own, found.term[n])
    list_children(found)
    return found


def _trial(setup: ModelSetup) -> Trial:
    """Room for one family, and for the weight of every parent."""
    n_nodes, width = len(setup.names), setup.width
    one, none = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    family = Candidates(
        start=none,
        n_parents=one.copy(),
        parents=np.zeros((1, width + 1), dtype=np.int64),
        term=np.zeros((1, width + 1, setup.candidates.term.shape[2]), dtype=np.int64),
        n_configs=one.copy(),
        log_prior=np.zeros(0),
        edge=none.reshape(0, 0),
        table_start=none,
    )
    is_open = len(setup.others.most) > 0
    room = int(np.diff(setup.layout.table_start).max(initial=0)) if is_open else 0
    return Trial(family, np.zeros(room), np.zeros(n_nodes + 1 if is_open else 0))


def mean_rates(setup: ModelSetup, averages: DrawAverages, f: int, size: int) -> FloatArray:
    """(configurations, S, S) posterior means of the rates given family f; prior mean if unseen."""
    own = slice(int(setup.candidates.table_start[f]), int(setup.candidates.table_start[f + 1]))
    table: FloatArray = averages.rates[own].reshape(-1, size, size).copy()
    if averages.weight[f] > 0.0:
        table /= averages.weight[f]
        return table
    node = int(np.searchsorted(setup.candidates.start, f, side="right")) - 1
    own = slice(*setup.prior.allowed_start[node : node + 2].tolist())
    table[:] = (setup.prior.shape[0] / setup.prior.rate[own]).reshape(size, size)
    return table
