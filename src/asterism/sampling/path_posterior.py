"""Owns ``infer(method="sample")``: paths given a network, drawn until known well enough."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from asterism.errors import AsterismError, Sentence, Setting
from asterism.model.network import Network
from asterism.numerics.progress import advance, stage
from asterism.numerics.resources import current_limit
from asterism.sampling._gibbs import Record
from asterism.sampling.diagnose import Diagnosis, diagnose, typical_autocorrelation
from asterism.sampling.kept_draws import KeptDraws
from asterism.sampling.locked import locked_groups, merge, split_draws
from asterism.sampling.path_chains import path_model, run_chains, start_chain
from asterism.sampling.sampled_posterior import SampledPosterior
from asterism.sampling.sampler_arrays import PathModel
from asterism.timeline.evidence import Evidence, FloatArray

#: "auto" stops at this Monte Carlo error of every marginal, and this R̂
ERROR_GOAL = 0.01
R_HAT_GOAL = 1.01
#: draws per chain at which "auto" gives up
MOST_DRAWS = 20_000
_FIRST_DRAWS = 500
_BURN_IN = 300
#: bytes of kept draws
_MEMORY = 1_000_000_000
#: draws that are made whatever the limit of time: Monte Carlo errors need some
_FEWEST = 50
#: seconds of drawing between two messages about progress
_PIECE = 1.0
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
    check_draws(n_chains, n_draws, burn_in, max_draws)
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
    n_burned = _BURN_IN if burn_in is None else burn_in
    with stage(n_burned, "Burn-in of the chains"):
        for _ in _in_pieces(sampled, chains, n_burned, False, n_jobs):
            pass
    draws = KeptDraws(model, [[] for _ in chains], seed)
    times = _watched_times(evidence, network)
    watched: list[NDArray[np.int8]] = []
    limit = max_draws if n_draws == "auto" else int(n_draws)
    limit = min(limit, _fitting_draws(model, n_chains, chains))
    history: list[dict[str, float]] = []
    goal = min(limit, _FIRST_DRAWS) if n_draws == "auto" else limit
    while True:
        fresh = KeptDraws(model, [[] for _ in chains], seed)
        before = draws.n_draws
        with stage(goal, "Drawing paths"):
            advance(before)
            for drawn in _in_pieces(sampled, chains, goal - before, True, n_jobs):
                for c, record in enumerate(drawn):
                    assert record is not None
                    if merged is not None:
                        record = split_draws(record, merged, compiled.graph)
                    draws.blocks[c].append(record)
                    fresh.blocks[c].append(record)
        watched.append(_indicators(fresh, times))
        series = np.concatenate(watched, axis=1)
        found = diagnose(series)
        history.append(
            {
                "draws": float(draws.n_draws),
                "largest_error": found.error,
                "worst_r_hat": found.r_hat,
            }
        )
        settled = found.error <= ERROR_GOAL and found.r_hat <= R_HAT_GOAL
        out_of_time = draws.n_draws < goal
        goal = draws.n_draws
        if settled or goal >= limit or out_of_time:
            break
        goal = next_goal(goal, found, limit)
    draws.slowness = max(1.0, typical_autocorrelation(series))
    return SampledPosterior(
        network=network,
        evidence=evidence,
        draws=draws,
        converged=settled,
        stop_reason=(f"{current_limit().sentence}. " if out_of_time and not settled else "")
        + stop_sentence(found, n_chains, goal, n_draws == "auto", settled),
        n_sweeps=goal,
        history=history,
    )


def _in_pieces(
    model: PathModel, chains: list[Any], n_sweeps: int, keep: bool, n_jobs: int
) -> Iterator[list[Record | None]]:
    """Go on with the chains, about a second at a time; how they are cut changes no draw.

    Ends early where the call's time is over, but not before a few draws.
    """
    left, piece, limit = n_sweeps, 1, current_limit()
    while left > 0 and not (n_sweeps - left >= _FEWEST and limit.stops()):
        piece = min(piece, left)
        begin = time.monotonic()
        yield run_chains(model, chains, piece, keep, n_jobs)
        advance(piece)
        left -= piece
        taken = max(time.monotonic() - begin, 1e-6)
        piece = max(1, int(piece * min(16.0, _PIECE / taken)))


def check_draws(n_chains: Any, n_draws: Any, burn_in: Any, max_draws: Any) -> None:
    """Refuse numbers of chains and draws that cannot be."""
    numbers = (("n_chains", n_chains, 2), ("max_draws", max_draws, 4), ("burn_in", burn_in, 0))
    for name, value, least in numbers:
        if value is None and name == "burn_in":
            continue
        if not isinstance(value, Integral) or value < least:
            raise AsterismError(
                Setting(name), f" is {value!r}; it must be a whole number ≥ {least}."
            )
    if n_draws != "auto" and (not isinstance(n_draws, Integral) or n_draws < 4):
        raise AsterismError(
            Setting("n_draws"), f" is {n_draws!r}; valid are a whole number ≥ 4 and 'auto'."
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


def next_goal(n: int, found: Diagnosis, limit: int) -> int:
    """Draws per chain after the next round: errors shrink with the square root."""
    factor = (found.error / ERROR_GOAL) ** 2 * 1.1 if np.isfinite(found.error) else 3.0
    if found.r_hat > R_HAT_GOAL:
        factor = max(factor, 2.0)
    return min(limit, int(n * float(np.clip(factor, 1.2, 3.0))) + 1)


def stop_sentence(found: Diagnosis, n_chains: int, n_draws: int, auto: bool, settled: bool) -> str:
    """Why drawing ended, and how well marginals are known."""
    drawn = f"{n_draws:,} draws in each of {n_chains} chains"
    figures = (
        f"the largest Monte Carlo error of a marginal is {found.error:.2g} (goal {ERROR_GOAL}), "
        f"the largest R̂ {found.r_hat_words} (goal {R_HAT_GOAL})"
    )
    if settled:
        return f"{drawn} were enough: {figures}."
    if auto:
        remedy = Sentence("Raise ", Setting("max_draws"), ".")
        return Sentence(f"The limit of {drawn} was reached: {figures}. ", remedy)
    remedy = Sentence("Raise ", Setting("n_draws"), ", or use ", Setting("n_draws", "auto"), ".")
    return Sentence(f"{drawn} were made, as asked: {figures}. ", remedy)
