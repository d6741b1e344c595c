"""Owns the choice whether a column of numbers jumps between levels or moves continuously.

Both are judged by their evidence on the same rows in the same units: 2 to 5 levels as
``levels.py`` counts them, and one Ornstein–Uhlenbeck process with noise
(``continuous/column_evidence.py``). Trajectories may be shifted in both (``offsets.py``). Known
stimuli take part in both: they change how often a jumping node is in each level, and move the
resting level of a continuous one. A column that was
rounded is spread evenly within its rounding step, so that no model gains from repeated values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.continuous.column_evidence import Column, column_evidence, time_on
from asterism.continuous.series import Stimulus, series_from_observations, stimuli_from_frame
from asterism.continuous.switching import NAME, find_switching_time
from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.errors import DataError, counted, first_few
from asterism.learning.level_moves import Pushed, Redrawn
from asterism.learning.levels import LevelChoice, LevelRows, choose_levels, climb, with_outliers
from asterism.learning.offsets import with_offset
from asterism.model.emissions import Gaussian, Poisson

FloatArray = NDArray[np.float64]

#: nats below which a column is taken as the rest of its table
CLOSE_CALL = 3.0
#: Share of a table's columns below which those that clearly differ from the rest are not believed.
#: All of DREAM4's genes move, but one of ten and some of a hundred look like jumps by ten nats and
#: more: they answer to a stimulus in one trajectory, or in steps. With that one gene taken as
#: jumping the mean AUPR of the networks of ten falls from .69 to .66. Of columns simulated as one
#: kind or the other, hardly any is clearly wrong (benchmarks/kinds.py).
_FEWEST_UNLIKE = 0.2
#: a column of whole numbers with no more different ones than this holds states
MOST_NUMBERED_STATES = 5
#: What the prior of the noise adds to jumping, in nats. Levels are told from each other: up to this
#: share of their distance any noise is as probable, beyond it a nat less for every twentieth.
#: Chosen on seeds 0 to 149 of benchmarks/kinds.py, where many other values did as well. In five
#: trajectories of 21 points 91 % of the jumps between two levels were right without it, 95 % with
#: it; of processes with much noise, whose "levels" overlap, 97 % and 95 % (20 × 11: 93 and 98 %).
_CLEAR_LEVELS, _LARGEST_NOISE, _PER_NOISE, _MOST_LOST = 1.25, 0.4, 20.0, 10.0
#: columns up to which a time at which an unknown stimulus ended is looked for first
_MOST_WITH_SWITCH = 200
#: columns rounded more finely than this, in standard deviations, are compared as they are
_FINE_ROUNDING = 0.02


@dataclass(frozen=True)
class KindChoice:
    """What kind of node a column is, and how clearly."""

    node: str
    kind: str
    """"jumps" or "continuous"."""
    continuous: float
    """ln evidence of moving continuously."""
    jumps: float
    """ln evidence of jumping: every number of levels is as probable beforehand as continuous."""
    levels: LevelChoice

    @property
    def gain(self) -> float:
        """Nats by which the kind chosen beats the other; negative where the table decided."""
        difference = self.continuous - self.jumps
        return difference if self.kind == "continuous" else -difference


@dataclass(frozen=True)
class KindDecision:
    """The kind of every column that was compared, and what to say about it."""

    choices: list[KindChoice]
    sentences: list[str]

    @property
    def continuous(self) -> list[str]:
        """The columns that move continuously."""
        return [c.node for c in self.choices if c.kind == "continuous"]

    @property
    def jumping(self) -> list[KindChoice]:
        """The choices of the columns that jump."""
        return [c for c in self.choices if c.kind == "jumps"]


def decide_kinds(
    data: Observations,
    records: Mapping[str, NodeMeasurements],
    levels: Mapping[str, LevelChoice] | None = None,
    may_mix: bool = True,
) -> KindDecision:
    """The kinds of these columns of a table, by their evidence, known stimuli in both kinds.

    Where no stimulus is told, the end of an unknown one is looked for. ``levels`` are those that
    were counted already. Unless they ``may_mix``, all columns get the kind of most.
    """
    stimuli: list[Stimulus] = []
    if data.stimuli is not None:
        stimuli = stimuli_from_frame(data.stimuli, data.trajectories)
    elif len(records) <= _MOST_WITH_SWITCH:
        stimuli = _unknown_stimulus(data, list(records))
    found = choose_kinds(records, stimuli, levels)
    common = _common_kind(found)
    unlike = [c for c in found if c.kind != common]
    mixed = may_mix and len(unlike) >= _FEWEST_UNLIKE * len(found)
    choices = found if mixed else [replace(c, kind=common) for c in found]
    said = [_in_words(found, common)]
    if unlike:
        does = _what_it_does(unlike[0].kind, len(unlike))
        rest = counted(len(found) - len(unlike), "column")
        line = f"By their evidence {first_few([c.node for c in unlike])} {does}, unlike the other "
        line += rest if mixed else f"{rest}; all are taken as one kind"
        said.append(f"{line}{'' if mixed else ' unless emissions by node say otherwise'}.")
    close = [c.node for c in found if abs(c.continuous - c.jumps) < CLOSE_CALL]
    if close and len(choices) > 1:
        said.append(
            f"For {first_few(close)} both kinds are about as likely (less than {CLOSE_CALL:g} "
            "nats): taken as the rest of the table."
        )
    return KindDecision(choices, said)


def _what_it_does(kind: str, number: int) -> str:
    one = "s" if number == 1 else ""
    return f"jump{one}" if kind == "jumps" else f"move{one} continuously"


def may_be_either(record: NodeMeasurements) -> bool:
    """Whether a column holds numbers whose kind is open: no labels, and no few whole numbers."""
    if record.holds_labels or record.likelihood is not None or not len(record):
        return False
    return not are_numbered_states(record.value)


def count_levels(node: str, record: NodeMeasurements, offset: str = "auto") -> LevelChoice:
    """How many levels a column has if it jumps, with which noise, and whether it is shifted.

    Numbers from counting may have Poisson noise. ``offset``: "auto", "none" or "trajectory".
    """
    choice = choose_levels(node, record, Gaussian(levels="auto", learn=True))
    if _are_counts(record.value):
        counts = choose_levels(node, record, Poisson(levels="auto", learn=True))
        choice = max(choice, counts, key=lambda one: one.scores[one.n_levels])
    choice = with_outliers(record, choice)
    return choice if offset == "none" else with_offset(record, choice, offset == "trajectory")


def has_normal_noise(choice: LevelChoice) -> bool:
    """Whether a column whose levels were counted may move instead: what counts jumps."""
    return isinstance(choice.emission, Gaussian)


def _are_counts(values: Any) -> bool:
    """Whole numbers from zero on, whose noise may be that of counting."""
    return bool(np.all(values >= 0) and np.all(values == np.round(values)))


def are_numbered_states(values: Any) -> bool:
    """A few whole numbers that come back: they are states, not quantities."""
    different = np.unique(values)
    whole = bool(np.all(different == np.round(different)))
    return whole and len(different) <= MOST_NUMBERED_STATES and len(values) >= 3 * len(different)


def _in_words(choices: Sequence[KindChoice], common: str) -> str:
    """What was decided, and how clear the least clear column of this kind is."""
    own = [c for c in choices if c.kind == common]
    least = min(own, key=lambda c: c.gain)
    does = "moving continuously" if common == "continuous" else "jumping between levels"
    other = "levels" if common == "continuous" else "continuous movement"
    return (
        f"The evidence of {len(own)} of {counted(len(choices), 'column')} of numbers is for {does} "
        f"rather than {other}, least clearly for {least.node!r} "
        f"(by {max(least.gain, 0.0):.1f} nats)."
    )


def _unknown_stimulus(data: Observations, nodes: list[str]) -> list[Stimulus]:
    """One that acted from the start until a common time, where the data show it."""
    try:
        found = find_switching_time(series_from_observations(data.select(nodes=nodes), nodes))
    except DataError:  # nothing was measured twice
        return []
    if found is None or not found.is_taken:
        return []
    n = data.n_trajectories
    return [Stimulus(NAME, np.arange(n), np.full(n, -np.inf), np.full(n, found.time))]


def choose_kinds(
    records: Mapping[str, NodeMeasurements],
    stimuli: Sequence[Stimulus] = (),
    levels: Mapping[str, LevelChoice] | None = None,
) -> list[KindChoice]:
    """The kind of every column of numbers; close calls are taken as most columns are."""
    counted_before = levels or {}
    found = [
        choose_kind(node, record, stimuli, counted_before.get(node))
        for node, record in records.items()
    ]
    common = _common_kind(found)
    return [replace(c, kind=common) if abs(c.gain) < CLOSE_CALL else c for c in found]


def _common_kind(choices: Sequence[KindChoice]) -> str:
    """The kind of most columns; if both have as many, that with more evidence in all."""
    smooth = sum(c.kind == "continuous" for c in choices)
    if 2 * smooth != len(choices):
        return "continuous" if 2 * smooth > len(choices) else "jumps"
    whole = sum(float(np.clip(c.continuous - c.jumps, -50.0, 50.0)) for c in choices)
    return "continuous" if whole > 0.0 else "jumps"


def choose_kind(
    node: str,
    record: NodeMeasurements,
    stimuli: Sequence[Stimulus] = (),
    levels: LevelChoice | None = None,
) -> KindChoice:
    """Compare 2 to 5 levels with continuous movement; times of stimuli as in the record.

    ``levels`` are those counted on the record as it is.
    """
    spread, is_spread = _spread_within_rounding(record)
    if levels is None or is_spread:
        levels = choose_levels(node, spread, Gaussian(levels="auto", learn=True))
        levels = with_offset(spread, with_outliers(spread, levels))
    scores = np.array(list(levels.scores.values()))
    jumps = float(np.logaddexp.reduce(scores)) + _told_apart(levels.emission)
    column = Column(spread.trajectory, spread.time, spread.value)
    # long records are judged on the stretches that the levels were counted on
    if len(LevelRows.of(spread).values) == len(spread):
        # beneath shifts a stimulus is not looked for
        for stimulus in stimuli if levels.offset is None else ():
            pushed = _pushed(spread, levels, column, stimulus) + _told_apart(levels.emission)
            jumps = float(np.logaddexp(jumps, pushed))
        jumps -= float(np.log(1 + len(stimuli)))
        continuous = column_evidence(column, stimuli)
    else:
        rows = LevelRows.of(spread)
        pieces = np.cumsum(rows.is_first).astype(np.int64)
        begins = np.flatnonzero(rows.is_first)
        time = np.concatenate([gap.cumsum() for gap in np.split(rows.gap, begins[1:])])
        continuous = column_evidence(Column(pieces, time, rows.values))
    kind = "continuous" if continuous > jumps else "jumps"
    return KindChoice(node, kind, continuous, jumps, levels)


def _told_apart(emission: Gaussian) -> float:
    """ln prior of the noise, by how far it reaches from one level to the next."""
    assert emission.means is not None
    assert emission.scale is not None
    apart = float(np.diff(np.sort(emission.means)).min())
    noise = float(np.max(emission.scale))
    beyond = max(noise / max(apart, 1e-300) - _LARGEST_NOISE, 0.0)
    return _CLEAR_LEVELS - min(_PER_NOISE * beyond, _MOST_LOST)


def kind_frame(choices: Sequence[KindChoice]) -> pd.DataFrame:
    """node, kind, levels and the log evidence of each kind."""
    return pd.DataFrame(
        [
            {
                "node": c.node,
                "kind": c.kind,
                "levels": c.levels.n_levels if c.kind == "jumps" else 0,
                "log_evidence_continuous": c.continuous,
                "log_evidence_jumps": c.jumps,
            }
            for c in choices
        ],
        columns=["node", "kind", "levels", "log_evidence_continuous", "log_evidence_jumps"],
    )


def kind_record(choices: Sequence[KindChoice]) -> dict[str, Any]:
    """For run.json: per node its kind, by how many nats, and the log evidence of both."""
    return {
        c.node: {"kind": c.kind, "gain": c.gain, "continuous": c.continuous, "jumps": c.jumps}
        for c in choices
    }


def rounding_step(values: FloatArray) -> float:
    """The smallest difference of two values if all are its multiples; else 0."""
    distinct = np.unique(values)
    if len(distinct) < 2:
        return 0.0
    step = float(np.diff(distinct).min())
    counts = (distinct - distinct[0]) / step
    return step if np.abs(counts - counts.round()).max() < 1e-3 else 0.0


def _spread_within_rounding(record: NodeMeasurements) -> tuple[NodeMeasurements, bool]:
    """The noisy rows in order, and whether they were spread within a coarse rounding step."""
    noisy = record.take(np.flatnonzero(record.noisy))
    values = noisy.value.astype(np.float64)
    step = rounding_step(values)
    is_coarse = step > _FINE_ROUNDING * float(values.std())
    order = np.lexsort((noisy.time, noisy.trajectory))
    if is_coarse:
        rng = np.random.default_rng(len(values))
        values = values + step * rng.uniform(-0.5, 0.5, len(values))
    return replace(noisy.take(order), value=values[order]), is_coarse


def _pushed(
    record: NodeMeasurements, levels: LevelChoice, column: Column, stimulus: Stimulus
) -> float:
    """The score of the chosen number of levels with a stimulus that changes their frequencies."""
    rows = LevelRows.of(record)
    gap = np.concatenate([[0.0], np.diff(column.time)])
    is_on = time_on(column, stimulus)[:, 0] > 0.5 * gap
    # a trajectory that begins inside the stimulus begins in its levels
    begins = np.flatnonzero(column.is_first)
    is_on[begins] = is_on[np.minimum(begins + 1, len(is_on) - 1)]
    if is_on.all() or not is_on.any():
        return -np.inf
    same = Redrawn(np.full(levels.n_levels, 1.0 / levels.n_levels), 0.5)
    return climb(rows, levels.emission, Pushed(same, same, is_on)).score
