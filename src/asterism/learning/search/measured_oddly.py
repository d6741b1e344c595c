"""Do measurements have outliers, or shifts of whole trajectories, that their emission has not?

Where the emission of a column is left open, the evidence chooses both (``learning/levels.py``,
``learning/offsets.py``). Where the user gave one, it is used as it is; here the same evidence says
afterwards whether another would have described the column clearly better.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.errors import AsterismError, first_few
from asterism.learning.kinds import may_be_either
from asterism.learning.levels import choose_levels, measured_while_free, with_outliers
from asterism.learning.offsets import with_offset
from asterism.model.emissions import Gaussian, StudentT, emission_for
from asterism.numerics.resources import current_limit

OUTLIERS = "outliers"
SHIFTS = "shifted trajectories"
#: nodes up to which this takes seconds
MOST_NODES = 100


@dataclass(frozen=True)
class OddMeasurements:
    """What another emission would have that the one given has not."""

    what: str
    """``OUTLIERS`` or ``SHIFTS``."""
    node: str
    gain: float
    """Nats by which it describes the node's measurements better."""
    sd: float = 0.0
    """Of shifts: their standard deviation."""

    @property
    def is_likely(self) -> bool:
        """Only what is clearly better is kept."""
        return True

    @property
    def children(self) -> tuple[str, ...]:
        """Nodes whose edges carry the caveat: outliers hide edges, shifts look like them."""
        return (self.node,) if self.what == SHIFTS else ()

    @property
    def caveat(self) -> str:
        """For edges into the node."""
        return "could be shifted trajectories"


def measured_oddly(
    emission: Any, observations: Observations, decided: Collection[str]
) -> list[OddMeasurements]:
    """Columns whose given Gaussian noise does not do; ``decided`` ones are left out."""
    found: list[OddMeasurements] = []
    if len(observations.measurements) > MOST_NODES:
        return found
    for node in observations.measurements:
        if node in decided or current_limit().stops():
            continue
        if isinstance(emission, Mapping) and node not in emission:
            continue
        record = measured_while_free(observations, node)
        if isinstance(emission_for(emission, node), Gaussian) and may_be_either(record):
            found += _of_node(node, record, isinstance(emission_for(emission, node), StudentT))
    return sorted(found, key=lambda one: -one.gain)


def _of_node(node: str, record: NodeMeasurements, has_outliers: bool) -> list[OddMeasurements]:
    try:
        plain = choose_levels(node, record, Gaussian(levels="auto", learn=True))
        best = with_outliers(record, plain)
        final = with_offset(record, best)
    except AsterismError:  # too few values
        return []
    found = []
    if final.offset is not None:
        found.append(OddMeasurements(SHIFTS, node, final.offset.gain, final.offset.sd))
    # shifts that were found may have been taken for outliers
    if isinstance(final.emission, StudentT) and not has_outliers:
        gain = best.scores[best.n_levels] - plain.scores[plain.n_levels]
        found.append(OddMeasurements(OUTLIERS, node, gain))
    return found


def odd_sentences(found: Sequence[OddMeasurements]) -> list[str]:
    """What was found in words: at most one sentence of outliers, and one of shifts."""
    said = []
    if outliers := [one for one in found if one.what == OUTLIERS]:
        said.append(
            f"Could it be something else? {first_few([one.node for one in outliers])} "
            f"{_have(outliers)} outliers: noise with heavy tails describes the measurements better "
            f"(by {outliers[0].gain:.1f} nats for {outliers[0].node!r}). Outliers hide edges; "
            "leave --emission out, or use --emission t."
        )
    if shifts := [one for one in found if one.what == SHIFTS]:
        said.append(
            f"Could it be something else? All values of a trajectory are shifted in "
            f"{first_few([one.node for one in shifts])} (with a standard deviation of "
            f"{shifts[0].sd:.2g} in {shifts[0].node!r}, clearer by {shifts[0].gain:.1f} nats). "
            "Shifts that nodes share look like edges; leave --emission out, or give it without "
            "parameters, so that they are subtracted (--offset)."
        )
    return said


def _have(found: Sequence[OddMeasurements]) -> str:
    return "has" if len(found) == 1 else "have"
