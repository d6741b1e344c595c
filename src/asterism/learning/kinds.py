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
from asterism.model.emissions import Gaussian

FloatArray = NDArray[np.float64]

#: nats below which all columns of a table are given one kind
CLOSE_CALL = 3.0
#: a column of whole numbers with no more different ones than this holds states
MOST_NUMBERED_STATES = 5
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


def decide_kinds(
    data: Observations,
    records: Mapping[str, NodeMeasurements],
    levels: Mapping[str, LevelChoice] | None = None,
) -> KindDecision:
    """One kind for these columns of a table, by their evidence, known stimuli in both kinds.

    Where no stimulus is told, the end of an unknown one is looked for. ``levels`` are those that
    were counted already.
    """
    stimuli: list[Stimulus] = []
    if data.stimuli is not None:
        stimuli = stimuli_from_frame(data.stimuli, data.trajectories)
    elif len(records) <= _MOST_WITH_SWITCH:
        stimuli = _unknown_stimulus(data, list(records))
    choices = choose_kinds(records, stimuli, levels)
    smooth = [c for c in choices if c.kind == "continuous"]
    jumping = [c for c in choices if c.kind == "jumps"]
    close = [c.node for c in choices if abs(c.continuous - c.jumps) < CLOSE_CALL]
    common = "continuous" if len(smooth) > len(jumping) else "jumps"
    said = [_in_words(common, choices)]
    if smooth and jumping:
        others = jumping if common == "continuous" else smooth
        one = "s" if len(others) == 1 else ""
        does = f"jump{one}" if common == "continuous" else f"move{one} continuously"
        said.append(
            f"By their evidence {first_few([c.node for c in others])} {does}, unlike the other "
            f"{counted(len(choices) - len(others), 'column')}; all are taken as one kind unless "
            "emissions by node say otherwise."
        )
    if close and len(choices) > 1:
        said.append(
            f"For {first_few(close)} both kinds are about as likely (less than {CLOSE_CALL:g} "
            "nats): taken as the rest of the table."
        )
    return KindDecision([replace(c, kind=common) for c in choices], said)


def may_be_either(record: NodeMeasurements) -> bool:
    """Whether a column holds numbers whose kind is open: no labels, and no few whole numbers."""
    if record.holds_labels or record.likelihood is not None or not len(record):
        return False
    return not are_numbered_states(record.value)


def are_numbered_states(values: Any) -> bool:
    """A few whole numbers that come back: they are states, not quantities."""
    different = np.unique(values)
    whole = bool(np.all(different == np.round(different)))
    return whole and len(different) <= MOST_NUMBERED_STATES and len(values) >= 3 * len(different)


def _in_words(kind: str, choices: Sequence[KindChoice]) -> str:
    """What was decided, and how clear the least clear column of this kind is."""
    own = [c for c in choices if c.kind == kind]
    least = min(own, key=lambda c: c.gain)
    does = "moving continuously" if kind == "continuous" else "jumping between levels"
    other = "levels" if kind == "continuous" else "continuous movement"
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
    """The kind of every column of numbers; close calls follow the evidence of all columns."""
    counted_before = levels or {}
    found = [
        choose_kind(node, record, stimuli, counted_before.get(node))
        for node, record in records.items()
    ]
    whole = sum(float(np.clip(c.continuous - c.jumps, -50.0, 50.0)) for c in found)
    common = "continuous" if whole > 0.0 else "jumps"
    return [replace(c, kind=common) if abs(c.gain) < CLOSE_CALL else c for c in found]


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
    jumps = float(np.logaddexp.reduce(scores))
    column = Column(spread.trajectory, spread.time, spread.value)
    # long records are judged on the stretches that the levels were counted on
    if len(LevelRows.of(spread).values) == len(spread):
        # beneath shifts a stimulus is not looked for
        for stimulus in stimuli if levels.offset is None else ():
            jumps = float(np.logaddexp(jumps, _pushed(spread, levels, column, stimulus)))
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
