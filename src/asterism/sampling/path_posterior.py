"""Owns ``infer(method="sample")``: paths given a network, drawn until known well enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from asterism.model.network import Network
from asterism.sampling.diagnose import typical_autocorrelation
from asterism.sampling.kept_draws import KeptDraws
from asterism.sampling.locked import locked_groups, merge, split_draws
from asterism.sampling.path_chains import path_model, run_chains, start_chain
from asterism.sampling.rounds import MOST_DRAWS, DrawPlan, draw_in_rounds
from asterism.sampling.sampled_posterior import SampledPosterior
from asterism.sampling.sampler_arrays import PathModel
from asterism.timeline.evidence import Evidence, FloatArray

#: bytes of kept draws
_MEMORY = 1_000_000_000
#: marginals that are watched, at most
_WATCHED = 20_000


def solve(
    network: Network,
    evidence: Evidence,
    n_chains: int = 4,
    n_draws: int | Literal["auto"] = "auto",
    seed: Any = 0,
    n_jobs: int = 1,
    burn_in: int | None = None,
    max_draws: int = MOST_DRAWS,
) -> SampledPosterior:
    """Posterior of the paths by Gibbs sampling; see ``sweep.py`` for what a sweep is.

    ``n_draws`` per chain; "auto" goes on until every marginal has a Monte Carlo error of at most
    .01 and R̂ ≤ 1.01, or to ``max_draws``.
    """
    plan = DrawPlan(n_chains, n_draws, burn_in, max_draws)
    compiled = network.compiled
    model = path_model(compiled.graph, compiled.rates, compiled.initial, evidence)
    labels = evidence.labels or tuple(range(evidence.n_trajectories))
    merged = None
    names: Sequence[str] = network.nodes
    sampled = model
    if groups := locked_groups(compiled, evidence):
        merged = merge(compiled, evidence, groups, network.nodes)
        sampled = path_model(merged.graph, merged.rates, merged.initial, merged.evidence)
        names = [" and ".join(network.nodes[n] for n in own) for own in merged.members]
    chains = [start_chain(sampled, seed, c, labels, names) for c in range(n_chains)]
    draws = KeptDraws(model, [[] for _ in chains], seed)
    fresh = KeptDraws(model, [[] for _ in chains], seed)
    times = _watched_times(evidence, network)
    watched: list[NDArray[np.int8]] = []

    def go_on(n_sweeps: int, keep: bool) -> None:
        for c, record in enumerate(run_chains(sampled, chains, n_sweeps, keep, n_jobs)):
            if record is not None:
                own = record if merged is None else split_draws(record, merged, compiled.graph)
                draws.blocks[c].append(own)
                fresh.blocks[c].append(own)

    def watch() -> NDArray[np.int8]:
        watched.append(_indicators(fresh, times))
        fresh.blocks = [[] for _ in chains]
        return np.concatenate(watched, axis=1)

    ended = draw_in_rounds(plan, go_on, lambda: _fitting_draws(model, n_chains, chains), watch)
    draws.slowness = max(1.0, typical_autocorrelation(ended.series))
    return SampledPosterior(
        network=network,
        evidence=evidence,
        draws=draws,
        converged=ended.settled,
        stop_reason=ended.stop_reason,
        n_sweeps=ended.n_draws,
        history=ended.history,
    )


def _fitting_draws(model: PathModel, n_chains: int, chains: list[Any]) -> int:
    """How many draws per chain fit into memory, at the present number of jumps."""
    jumps = max(int(chain.paths.n_jumps.sum()) for chain in chains)
    each = 12 * jumps + 10 * len(chains[0].paths.n_jumps) + 8 * len(model.rates.rate)
    return max(50, int(_MEMORY / n_chains / max(each, 1)))


def _watched_times(evidence: Evidence, network: Network) -> list[FloatArray]:
    """Per trajectory: times at which marginals are watched."""
    n_indicators = int((network.compiled.graph.n_states - 1).sum())
    each = max(1, _WATCHED // max(1, n_indicators * evidence.n_trajectories))
    result = []
    for d in range(evidence.n_trajectories):
        own = evidence.points.time[evidence.points.trajectory == d]
        even = np.linspace(evidence.start[d], evidence.end[d], 21)
        times = np.unique(np.concatenate([own, even]))
        step = np.linspace(0, len(times) - 1, min(each, len(times))).round().astype(np.int64)
        result.append(times[np.unique(step)])
    return result


def _indicators(draws: KeptDraws, times: list[FloatArray]) -> NDArray[np.int8]:
    """(chains, draws, watched) whether each node is in each state but its first."""
    parts = []
    for d, clock in enumerate(times):
        states = draws.states(d, clock)
        for n, size in enumerate(draws.model.layout.n_states):
            if not draws.model.layout.is_given[n]:
                parts += [states[..., n] == x for x in range(1, int(size))]
    if not parts:
        return np.zeros((draws.n_chains, draws.n_draws, 0), dtype=np.int8)
    return np.concatenate(parts, axis=2).astype(np.int8)
