"""Owns the choice whether a column of numbers jumps between levels or moves continuously.

Both are judged by their evidence on the same rows in the same units: 2 to 5 levels as
``levels.py`` counts them, and one Ornstein–Uhlenbeck process with noise
(``continuous/column_evidence.py``). Known stimuli take part in both: they change how often a
jumping node is in each level, and move the resting level of a continuous one. A column that was
rounded is spread evenly within its rounding step, so that no model gains from repeated values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.continuous.column_evidence import Column, column_evidence, time_on
from asterism.continuous.series import Stimulus
from asterism.data.measurements import NodeMeasurements
from asterism.learning.level_moves import Redrawn
from asterism.learning.levels import LevelChoice, LevelRows, choose_levels, climb
from asterism.model.emissions import Gaussian

FloatArray = NDArray[np.float64]

#: nats below which all columns of a table are given one kind
CLOSE_CALL = 3.0


@dataclass(frozen=True)
class KindChoice:
    """What kind of node a column is, and how clearly."""

    node: str
    kind: str
    """"jumps" or "continuous"."""
    continuous: float
    """ln evidence of moving continuously."""
    jumps: float
    """ln evidence of jumping, 2 to 5 levels equally probable."""
    levels: LevelChoice

    @property
    def gain(self) -> float:
        """Nats by which the kind chosen beats the other; negative where the table decided."""
        difference = self.continuous - self.jumps
        return difference if self.kind == "continuous" else -difference


def choose_kinds(
    records: dict[str, NodeMeasurements], stimuli: Sequence[Stimulus] = ()
) -> list[KindChoice]:
    """The kind of every column of numbers; close calls follow the evidence of all columns."""
    found = [choose_kind(node, record, stimuli) for node, record in records.items()]
    whole = sum(float(np.clip(c.continuous - c.jumps, -50.0, 50.0)) for c in found)
    common = "continuous" if whole > 0.0 else "jumps"
    return [replace(c, kind=common) if abs(c.gain) < CLOSE_CALL else c for c in found]


def choose_kind(
    node: str, record: NodeMeasurements, stimuli: Sequence[Stimulus] = ()
) -> KindChoice:
    """Compare 2 to 5 levels with continuous movement; times of stimuli as in the record."""
    spread = _spread_within_rounding(record)
    levels = choose_levels(node, spread, Gaussian(levels="auto", learn=True))
    scores = np.array(list(levels.scores.values()))
    jumps = float(np.logaddexp.reduce(scores)) - float(np.log(len(scores)))
    column = Column(spread.trajectory, spread.time, spread.value)
    # long records are judged on the stretches that the levels were counted on
    if len(LevelRows.of(spread).values) == len(spread):
        for stimulus in stimuli:
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


def rounding_step(values: FloatArray) -> float:
    """The smallest difference of two values if all are its multiples; else 0."""
    distinct = np.unique(values)
    if len(distinct) < 2:
        return 0.0
    step = float(np.diff(distinct).min())
    counts = (distinct - distinct[0]) / step
    return step if np.abs(counts - counts.round()).max() < 1e-3 else 0.0


def _spread_within_rounding(record: NodeMeasurements) -> NodeMeasurements:
    noisy = record.take(np.flatnonzero(record.noisy))
    values = noisy.value.astype(np.float64)
    step = rounding_step(values)
    rng = np.random.default_rng(len(values))
    order = np.lexsort((noisy.time, noisy.trajectory))
    spread = values + step * rng.uniform(-0.5, 0.5, len(values))
    return replace(noisy.take(order), value=spread[order])


@dataclass(frozen=True)
class _Pushed:
    """Levels are redrawn from other weights, at another rate, while a stimulus is on."""

    off: Redrawn
    on: Redrawn
    is_on: NDArray[np.bool_]
    """Per row, whether the stimulus was on for most of the gap before it."""

    @property
    def initial(self) -> FloatArray:
        return self.on.weights if self.is_on[0] else self.off.weights

    def moves(self, gap: FloatArray) -> FloatArray:
        result: FloatArray = np.where(
            self.is_on[:, None, None], self.on.moves(gap), self.off.moves(gap)
        )
        return result

    def improved(self, gap: FloatArray, pairs: FloatArray, first: FloatArray) -> _Pushed:
        on, off = self.is_on, ~self.is_on
        nobody = first[:0]
        begins_on = bool(on[0])
        return replace(
            self,
            on=self.on.improved(gap[on], pairs[on], first if begins_on else nobody),
            off=self.off.improved(gap[off], pairs[off], nobody if begins_on else first),
        )

    def penalty(self, n_trajectories: int) -> float:
        return self.on.penalty(n_trajectories) + self.off.penalty(n_trajectories)

    def ordered(self, order: Any) -> _Pushed:
        return replace(self, on=self.on.ordered(order), off=self.off.ordered(order))


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
    moves: Any = _Pushed(same, same, is_on)
    return climb(rows, levels.emission, moves).score
