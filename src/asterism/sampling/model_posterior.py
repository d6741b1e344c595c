"""Owns a whole run of chains over everything unknown: burn-in, draws, when to stop, checkpoints.

The sweeps at which the draws are judged are fixed beforehand, so that without a limit of time the
same seed stops at the same place on every machine. An interruption keeps what was drawn.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.data.files import write_atomically
from asterism.errors import Advice, AsterismError, Sentence, Setting
from asterism.numerics.resources import current_limit
from asterism.sampling._graphs import DrawAverages, DrawnModels
from asterism.sampling.diagnose import Diagnosis
from asterism.sampling.interruption import Interruption
from asterism.sampling.model_chains import (
    AdvancedChain,
    ChainTask,
    GivenPaths,
    begin_with,
    chain_arrays,
    forget_averages,
    hold_graph,
    restore_chain,
    run_model_chains,
    start_model_chain,
)
from asterism.sampling.model_setup import ModelSetup
from asterism.sampling.rounds import Pace
from asterism.sampling.sampler_arrays import FloatArray, IntArray
from asterism.sampling.sound_chains import are_sound_draws, is_sound_chain

#: part of the burn-in during which chains keep the graph that they begin from
_HELD = 0.2
#: part of a limit of time that the burn-in may take
_BURN_IN_SHARE = 0.25
_FIRST_JUDGED = 500
_JUDGED_FACTOR = 1.6
#: what is noted each time
_HISTORY = ("draws", "largest_error", "worst_r_hat", "smallest_effective_size")
#: bytes of kept draws, and how many are kept whatever their size
_MEMORY = 400_000_000
_FEWEST_KEPT = 64
#: upper bound on the sweeps that one kept draw stands for
_MOST_THINNED = 2**30


@dataclass(frozen=True)
class RunPlan:
    """How long to draw, and what must be known how well."""

    judge: Callable[[SampledModels], tuple[Diagnosis, bool, str]]
    """The worst figures, whether they suffice, and both in words."""
    n_jobs: int = -1
    seed: Any = 0
    burn_in: int = 400
    max_sweeps: int = 20_000
    seconds: float | None = None
    keep_rates: bool = False
    checkpoint: Path | None = None
    resume: bool = False
    tell: Callable[[float], None] = field(default=lambda share: None)
    """Called with the share of the limit that is used up."""
    spread: Callable[[Any, list[ChainTask]], Iterable[AdvancedChain]] | None = None
    """Runs chains elsewhere and hands them back in order; None runs them on threads here."""


class ChainKind(NamedTuple):
    """What a run asks of its chains. They have ``averages``, and are changed in place."""

    go_on: Callable[[Any, list[Any], int, int, bool, int], list[DrawnModels]]
    """(setup, chains, sweeps, one kept draw of so many, rates too, jobs)"""
    hold: Callable[[Any, bool], None]
    """Whether a chain keeps its graph."""
    forget: Callable[[Any, Any], None]
    """(setup, chain): begin anew with averages."""
    arrays: Callable[[Any], dict[str, Any]]
    """Of a chain, all that it needs to go on as if it had not been stopped."""
    is_sound: Callable[[Any, dict[str, Any], dict[str, Any]], bool]
    """(setup, arrays of a new chain, those of a file)"""
    restore: Callable[[Any, Any, dict[str, Any]], None]
    """(setup, new chain, arrays of a file)"""


MODEL_CHAINS = ChainKind(
    *(run_model_chains, hold_graph, forget_averages),
    *(chain_arrays, is_sound_chain, restore_chain),
)


@dataclass
class SampledModels:
    """Draws of all chains after the burn-in, and how the run ended."""

    setup: Any
    """A :class:`ModelSetup`, or what chains of another kind share."""
    blocks: list[list[DrawnModels]]
    """Per chain, in the order in which they came."""
    averages: list[DrawAverages]
    """Per chain."""
    keep_every: int = 1
    converged: bool = False
    stop_reason: str = ""
    history: list[dict[str, float]] = field(default_factory=list)
    interrupted: bool = False
    n_burned: int = 0

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return len(self.blocks)

    @property
    def n_draws(self) -> int:
        """Per chain."""
        return min(sum(len(b.n_jumps) for b in own) for own in self.blocks)

    def series(self, name: str) -> NDArray[Any]:
        """(chains, draws, …) one field of :class:`DrawnModels`."""
        n = self.n_draws
        return np.stack(
            [np.concatenate([getattr(b, name) for b in own])[:n] for own in self.blocks]
        )

    def thin(self) -> None:
        """Make one draw of every two: average the edges, keep all else of the second."""
        n = self.n_draws // 2 * 2
        for c, own in enumerate(self.blocks):
            whole: Any = DrawnModels._make(np.concatenate(f)[:n] for f in zip(*own))
            second = DrawnModels._make(f[1::2] for f in whole)
            edges = (whole.edges[::2] + whole.edges[1::2]) / np.float32(2.0)
            self.blocks[c] = [second._replace(edges=edges)]
        self.keep_every *= 2

    def family_probabilities(self) -> FloatArray:
        """(families,) averages of P(family | paths) over all chains.

        Each node's sum to one, less what families beyond the candidates have.
        """
        total = np.sum([a.family for a in self.averages], axis=0)
        elsewhere = np.sum([a.elsewhere for a in self.averages], axis=0)
        result: FloatArray = total.copy()
        start = self.setup.candidates.start
        for n, (first, last) in enumerate(pairwise(start.tolist())):
            own = total[first:last].sum() + elsewhere[n]
            result[first:last] = total[first:last] / own if own > 0.0 else 1.0 / (last - first)
        return result

    def edge_probabilities(self) -> FloatArray | None:
        """[chain, parent, child] averages; None where the candidates are all families."""
        if self.setup.lists_all:
            return None
        n_sweeps = [sum(len(b.n_jumps) for b in own) * self.keep_every for own in self.blocks]
        return np.stack([a.pairs.T / max(1, n) for a, n in zip(self.averages, n_sweeps)])

    def mean_averages(self) -> DrawAverages:
        """Sums over all chains."""
        return DrawAverages(
            *(np.sum([getattr(a, f) for a in self.averages], axis=0) for f in DrawAverages._fields)
        )


def sample_models(
    setup: ModelSetup,
    places: list[IntArray],
    plan: RunPlan,
    begun: Sequence[Mapping[int, GivenPaths]] = (),
) -> SampledModels:
    """Run one chain from each graph in ``places`` until the plan is met.

    ``begun``: per chain, paths with which some nodes begin.
    """
    chains = [start_model_chain(setup, plan.seed, c, p) for c, p in enumerate(places)]
    for chain, given in zip(chains, begun):
        begin_with(setup, chain, given)
    each = 4 * len(setup.edges) + 8 * len(setup.initial) + 8 * len(setup.emitted.parameter)
    each += 4 * len(setup.names) * setup.width + (
        8 * int(setup.layout.table_start[-1]) if plan.keep_rates else 0
    )
    bundles = (setup.layout, setup.seen, setup.candidates, setup.others, setup.prior, setup.emitted)
    key = fingerprint([*(value for bundle in bundles for value in bundle), *places], plan)
    return draw_until(setup, chains, plan, each, MODEL_CHAINS, key)


def draw_until(
    setup: Any,
    chains: list[Any],
    plan: RunPlan,
    each: int,
    kind: ChainKind,
    key: str,
) -> SampledModels:
    """Run these chains until the plan is met; a kept draw takes ``each`` bytes.

    ``key`` is the fingerprint by which a checkpoint is known again.
    """
    room = max(_FEWEST_KEPT, _MEMORY // (max(1, each) * len(chains)) // 2 * 2)
    found = SampledModels(setup, [[] for _ in chains], [c.averages for c in chains])
    run = _Run(setup, chains, plan, kind, key, room, found, _Clock(plan.seconds))
    if plan.resume and plan.checkpoint is not None and plan.checkpoint.exists():
        _read_checkpoint(plan.checkpoint, key, chains, kind, found)
    with run.interruption:
        try:
            run.burn_in()
            run.draw()
        except KeyboardInterrupt:
            if found.n_draws < 4:
                raise
            found.interrupted = True
    _, good, words = run.judged()
    found.converged = good and not found.interrupted
    found.stop_reason = _reason(found, plan, run.clock, words)
    if not run.interruption.at_once:
        run.write_down()
    return found


class _Clock(Pace):
    """The time that is left."""

    def __init__(self, seconds: float | None) -> None:
        super().__init__()
        self.limit = seconds
        self.begin = time.monotonic()

    def used(self) -> float:
        """Share of the limit; 0 without one, 1 where somebody asked for the best so far."""
        if current_limit().asked:
            return 1.0
        return 0.0 if self.limit is None else (time.monotonic() - self.begin) / self.limit


@dataclass
class _Run:
    """Chains on their way, and what they have drawn."""

    setup: Any
    chains: list[Any]
    plan: RunPlan
    kind: ChainKind
    key: str
    room: int
    """Draws of a chain that fit into memory."""
    found: SampledModels
    clock: _Clock
    interruption: Interruption = field(default_factory=Interruption)

    def burn_in(self) -> None:
        """Go on without keeping anything, at first with the graphs that the chains begin from."""
        plan, kind, found = self.plan, self.kind, self.found
        held = int(_HELD * plan.burn_in)
        while found.n_burned < plan.burn_in and self.clock.used() < _BURN_IN_SHARE:
            hold = found.n_burned < held
            for chain in self.chains:
                kind.hold(chain, hold)
            n = self.clock.sweeps((held if hold else plan.burn_in) - found.n_burned)
            self._go_on(n, 0)
            found.n_burned += n
            self._look(found.n_burned)
        if not any(found.blocks):
            for chain in self.chains:
                kind.hold(chain, False)
                kind.forget(self.setup, chain)
        found.n_burned = plan.burn_in

    def draw(self) -> None:
        """Draw until the plan is met; where there is no room, every second draw is kept."""
        plan, clock, found = self.plan, self.clock, self.found
        judged = _FIRST_JUDGED
        is_judged = bool(found.history) and found.history[-1]["draws"] == found.n_draws
        is_full = found.n_draws * found.keep_every >= plan.max_sweeps
        if is_judged and (self.judged()[1] or is_full):
            return  # what was loaded was judged here before, and was enough
        while True:
            done = found.n_draws * found.keep_every
            while judged <= done:
                judged = int(judged * _JUDGED_FACTOR)
            goal = min(judged, plan.max_sweeps)
            while done < goal and (clock.used() < 1.0 or done == 0):
                if found.n_draws >= self.room:
                    found.thin()
                unit = found.keep_every
                most = min((goal - done) // unit, self.room - found.n_draws)
                n = max(unit, clock.sweeps(max(1, most) * unit, unit))
                for own, block in zip(found.blocks, self._go_on(n, unit)):
                    own.append(block)
                done += n
                self._look(plan.burn_in + done)
            figures, good, _ = self.judged()
            found.history.append(dict(zip(_HISTORY, (float(found.n_draws), *figures))))
            self.write_down()
            if good or done >= plan.max_sweeps or clock.used() >= 1.0:
                return

    def judged(self) -> tuple[Diagnosis, bool, str]:
        """What the plan says of the draws so far."""
        self.found.averages = [c.averages for c in self.chains]
        return self.plan.judge(self.found)

    def write_down(self) -> None:
        """Write a checkpoint if the plan asks for one."""
        if self.plan.checkpoint is not None:
            _write_checkpoint(self.plan.checkpoint, self.key, self.chains, self.kind, self.found)

    def _go_on(self, n_sweeps: int, keep_every: int) -> list[DrawnModels]:
        """The next sweeps of all chains, wherever they run."""
        keep_rates = self.plan.keep_rates and keep_every > 0

        def run(n: int) -> list[DrawnModels]:
            asked = (n, keep_every, keep_rates)
            if self.plan.spread is None:
                return self.kind.go_on(self.setup, self.chains, *asked, self.plan.n_jobs)
            found = []
            tasks = [ChainTask(chain, *asked) for chain in self.chains]
            for chain, (advanced, drawn) in zip(self.chains, self.plan.spread(self.setup, tasks)):
                vars(chain).update(vars(advanced))
                found.append(drawn)
            return found

        drawn: list[DrawnModels] = self.clock.run(run, n_sweeps)
        return drawn

    def _look(self, n_sweeps: int) -> None:
        """Between two pieces of work: tell how far it is, and stop if somebody asked for it."""
        whole = self.plan.burn_in + self.plan.max_sweeps
        self.plan.tell(max(self.clock.used(), n_sweeps / whole))
        self.interruption.obey()


def _reason(found: SampledModels, plan: RunPlan, clock: _Clock, words: str) -> str:
    n_sweeps = f"{found.n_draws * found.keep_every:,} sweeps in each of {found.n_chains} chains"
    if found.interrupted:
        return f"Interrupted after {n_sweeps}: {words}."
    if found.converged:
        return f"{n_sweeps} were enough: {words}."
    if clock.used() >= 1.0:
        return (
            f"The time was over after {n_sweeps}: {words}. Allow more time. Another run with the "
            "same seed may stop elsewhere, so the last digits are not reproducible."
        )
    return Sentence(
        f"The limit of {n_sweeps} was reached: {words}. To draw more: ",
        *(Setting("method", "sample"), ", ", Setting("minutes"), "."),
    )


# ---------------------------------------------------------------------- checkpoints
def fingerprint(content: Iterable[Any], plan: RunPlan) -> str:
    """Of arrays that the draws depend on, and of the code that draws."""
    digest = hashlib.blake2b(digest_size=16)
    for value in content:
        digest.update(np.ascontiguousarray(value).tobytes())
    digest.update(f"{plan.seed} {plan.burn_in} {plan.keep_rates}".encode())
    folder = Path(__file__).parent
    for own in (folder, folder.parent / "continuous"):
        for file in sorted(own.glob("*.py")):  # draws of other code are not mixed
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _write_checkpoint(
    path: Path, key: str, chains: list[Any], kind: ChainKind, found: SampledModels
) -> None:
    arrays: dict[str, Any] = {"key": np.array(key), "n_burned": np.array(found.n_burned)}
    arrays["keep_every"] = np.array(found.keep_every)
    noted = np.array([[row[k] for k in _HISTORY] for row in found.history], dtype=np.float64)
    arrays["history"] = noted.reshape(-1, len(_HISTORY))
    for c, chain in enumerate(chains):
        arrays.update({f"{c}/{k}": v for k, v in kind.arrays(chain).items()})
    for name in DrawnModels._fields:
        arrays[f"draws/{name}"] = found.series(name)
    arrays["checksum"] = np.array(_checksum(arrays))

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # given a name, numpy may add an ending to it
            np.savez(file, **arrays)

    write_atomically(path, write)


def _checksum(arrays: Mapping[str, Any]) -> str:
    """Over the names, kinds, shapes and contents of all arrays."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {value.dtype.str} {value.shape} ".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def _damaged(path: Path) -> AsterismError:
    return AsterismError(
        f"The checkpoint {str(path)!r} is damaged and cannot be resumed from; remove it, or ",
        Advice("start without resume.", "start again with --force."),
    )


def _checkpoint_arrays(path: Path) -> dict[str, Any]:
    """What a checkpoint holds; nothing in it is executed, and what is damaged is refused."""
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
    except MemoryError:
        raise
    except Exception:  # whatever a broken archive makes numpy raise
        raise _damaged(path) from None
    checksum = arrays.pop("checksum", None)
    if checksum is None or "key" not in arrays or str(checksum) != _checksum(arrays):
        raise _damaged(path)
    return arrays


def _read_checkpoint(
    path: Path, key: str, chains: list[Any], kind: ChainKind, found: SampledModels
) -> None:
    held = _checkpoint_arrays(path)
    if str(held["key"]) != key:
        raise AsterismError(
            f"{path.name} belongs to a run with other data, settings or program: ",
            Advice("start without resume.", "start again with --force."),
        )
    drawn: list[Any] = [held.get(f"draws/{name}") for name in DrawnModels._fields]
    kept = np.asarray(held.get("keep_every", 0))
    if kept.ndim or kept.dtype.kind != "i" or not 1 <= kept <= _MOST_THINNED:
        raise _damaged(path)
    history = np.asarray(held.get("history", 0.0))
    if history.ndim != 2 or history.shape[1] != len(_HISTORY) or history.dtype.kind != "f":
        raise _damaged(path)
    if any(block is None or len(block) != len(chains) for block in drawn):
        raise _damaged(path)
    for c, chain in enumerate(chains):
        prefix = f"{c}/"
        arrays = {k[len(prefix) :]: held[k] for k in held if k.startswith(prefix)}
        draws = DrawnModels(*(block[c] for block in drawn))
        fresh = kind.arrays(chain)
        if not (kind.is_sound(found.setup, fresh, arrays) and are_sound_draws(found.setup, draws)):
            raise _damaged(path)
        kind.restore(found.setup, chain, arrays)
        found.blocks[c].append(draws)
    found.n_burned, found.keep_every = int(held["n_burned"]), int(kept)
    found.history = [dict(zip(_HISTORY, row)) for row in history.tolist()]
