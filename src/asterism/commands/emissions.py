"""Emissions in words, and the emission of every measured node where nothing was asked for.

Text is a state; a few whole numbers are states; other numbers are a noisy level of a hidden state,
whose Gaussian is learned. Every choice is said in a sentence that names its flag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from asterism.commands.exits import Refused
from asterism.data.labels import encode, letters
from asterism.data.measurements import NodeMeasurements
from asterism.data.numbers import as_number
from asterism.data.observations import Observations
from asterism.errors import DataError, counted, quoted, require_known
from asterism.learning.kinds import (
    are_numbered_states,
    count_levels,
    decide_kinds,
    has_normal_noise,
    kind_record,
)
from asterism.learning.levels import LevelChoice, choose_levels, measured_while_free
from asterism.learning.offsets import offset_words, with_offset
from asterism.model.emission_continuous import Continuous
from asterism.model.emission_kinds import kinds_for_flags
from asterism.model.emission_numeric import PER_STATE
from asterism.model.emissions import (
    Categorical,
    Exact,
    Gaussian,
    Likelihood,
    Poisson,
    StudentT,
    Threshold,
    emission_class,
)

#: a column with more different texts than this holds notes rather than states
MOST_TEXT_STATES = 20

#: values beyond this, or differences below its inverse, are beyond floating point once squared
LARGEST = 1e100


#: kinds that words on the command line have a meaning of their own for, and their parameters
_MOST = {"gaussian": 2, "t": 3, "poisson": 1, "categorical": 1, "threshold": 2, "exact": 0}
_MOST |= {"likelihood": 0, "continuous": 0}
#: kinds with levels, and the parameters without which they are learned
_LEVELS = {"gaussian": 2, "t": 2, "poisson": 1}

#: chance that a reported label is wrong, where learning of a confusion matrix starts
ERROR_RATE = 0.1


def parse_emission(text: str, n_states: int, n_labels: int | None = None) -> Any:
    """An emission from words: ``gaussian``, ``gaussian:-1,1:0.2``, ``categorical:0.05``, …"""
    kind, *parameters = [part.strip() for part in text.strip().split(":")]
    kind = kind.lower()
    learn = "learn" in parameters
    per_state = PER_STATE in parameters
    parameters = [p for p in parameters if p and p not in ("learn", PER_STATE)]
    if per_state and kind != "gaussian":
        raise Refused(f"--emission {text!r}: {PER_STATE} is for gaussian.")
    kinds = kinds_for_flags()
    if kind not in kinds:
        raise Refused(f"--emission {text!r} is unknown; the kinds are {', '.join(kinds)}.")
    values = [_numbers(p, text) for p in parameters]
    if len(values) > _MOST.get(kind, len(values)):
        raise Refused(f"--emission {text!r} has more than {counted(_MOST[kind], 'parameter')}.")
    if kind == "categorical":
        size = max(n_labels or n_states, 2)
        wrong = values[0][0] if values else ERROR_RATE
        if not 0.0 <= wrong < 1.0:
            raise Refused(f"--emission {text!r}: the chance of an error must lie in [0, 1).")
        confusion = np.full((size, size), wrong / (size - 1))
        np.fill_diagonal(confusion, 1.0 - wrong)
        return Categorical(confusion.tolist(), learn=learn or not values)
    given: list[Any] = [tuple(group) if len(group) > 1 else group[0] for group in values]
    settings: dict[str, Any] = {"learn": True} if learn and kind not in _MOST else {}
    if kind in _LEVELS:  # what is left open is learned
        settings["learn"] = learn or len(values) < _LEVELS[kind]
        given[:1] = values[:1]
        if per_state and len(values) < 2:
            settings["scale"] = PER_STATE
        if kind == "t" and len(values) > 2:
            settings["df"] = given.pop()
    try:
        return emission_class(kind)(*given, **settings)
    except TypeError as error:
        raise Refused(f"--emission {text!r} does not suit {kind}: {error}.") from None


def as_flag(emission: Any) -> str | None:
    """What to write behind ``--emission NODE=`` to get this emission; None if nothing does."""
    match emission:
        case Gaussian(means=means, scale=scale) if means is not None and scale is not None:
            scales = scale if isinstance(scale, Sequence) else (scale,)
            words = f"{_listed_numbers(means)}:{_listed_numbers(scales)}"
            if isinstance(emission, StudentT):
                return f"t:{words}:{emission.df:g}"
            return f"gaussian:{words}"
        case Poisson(means=means) if means is not None:
            return f"poisson:{_listed_numbers(means)}"
    return None


def _listed_numbers(values: Any) -> str:
    return ",".join(f"{float(v):.6g}" for v in values)


def _numbers(text: str, whole: str) -> list[float]:
    found = [as_number(part) for part in text.split(",")]
    numbers = [number for number in found if number is not None]
    if len(numbers) < len(found):
        raise Refused(f"--emission {whole!r}: {text!r} is not a list of numbers.")
    return numbers


# ---- one emission per node ---------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """Emissions, the names of hidden states, and what was decided."""

    emission: dict[str, Any]
    states: dict[str, list[str]]
    nodes: list[str]
    decisions: list[str]
    levels: dict[str, Any] = field(default_factory=dict)
    """For run.json: per node how many levels were counted, and how clearly."""
    kinds: dict[str, Any] = field(default_factory=dict)
    """For run.json: whether columns of numbers jump or move continuously, and how clearly."""
    shifted: dict[str, LevelChoice] = field(default_factory=dict)
    """Nodes whose values are shifted in each trajectory: the shifts are to be subtracted."""


def choose_emissions(
    observations: Observations,
    specifications: Sequence[str] = (),
    n_states: int | str = "auto",
    keep: Sequence[str] = (),
    known_states: Mapping[str, Sequence[Any]] | None = None,
    learned: Mapping[str, Any] | None = None,
    may_move: bool = False,
    exogenous: Sequence[str] = (),
    offset: str = "none",
) -> Choice:
    """One emission per node; columns without information are left out unless in ``keep``.

    ``n_states`` is that of hidden states behind numbers; "auto" counts the levels of each node,
    and, where they ``may_move``, asks whether they rather move continuously; "continuous" says so.
    ``known_states`` are those of a given network: values that are among them are states.
    ``learned`` are emissions that came with that network. ``offset`` says whether trajectories may
    be shifted: "auto" by evidence, "trajectory" that they are.
    """
    measured = observations.measurements
    everywhere, by_node = _asked(specifications, list(measured))
    for node, kind in by_node.items():  # what does not suit is refused before levels are counted
        _made(kind, node, measured[node], 2, None)
    emission: dict[str, Any] = {}
    states: dict[str, list[str]] = {}
    groups: dict[str, list[str]] = {}
    levels: dict[str, Any] = {}
    all_move = n_states == "continuous"
    open_columns: dict[str, tuple[NodeMeasurements, LevelChoice]] = {}
    shifted: dict[str, LevelChoice] = {}
    for node, record in measured.items():
        asked = by_node.get(node, everywhere)
        known = None if known_states is None else known_states.get(node)
        if learned is not None and node in learned:
            emission[node] = learned[node]
            how = as_flag(learned[node]) or type(learned[node]).__name__.lower()
            groups.setdefault(f"As learned with the network (--emission), {how}", []).append(node)
            continue
        kind = asked or _guess(record, known)
        if kind.startswith("left out"):
            if node not in keep and known is None:
                groups.setdefault(kind, []).append(node)
                continue
            kind = "exact" if record.holds_labels else "gaussian"
        if all_move and not asked and kind == "gaussian" and known is None:
            kind = "continuous"
        size = len(known) if known is not None else 2 if isinstance(n_states, str) else n_states
        emission[node] = _made(kind, node, record, size, known)
        count = n_states == "auto"
        if known is None and (count or offset != "none") and _has_open_levels(emission[node]):
            free = measured_while_free(observations, node)
            if len(np.unique(free.value)) > 2:
                own = "none" if stands_still(free) else offset
                if count and not asked:
                    choice = count_levels(node, free, own)
                else:
                    number = "auto" if count else size
                    choice = choose_levels(node, free, replace(emission[node], levels=number))
                    if own != "none":
                        choice = with_offset(free, choice, own == "trajectory")
                if choice.offset is not None:
                    shifted[node] = choice
                if count and not asked and has_normal_noise(choice):
                    open_columns[node] = (free, choice)
                if count or choice.offset is not None:
                    emission[node], size = choice.emission, choice.n_levels
                    levels[node] = choice.to_dict()
        if not isinstance(emission[node], Exact | Categorical | Likelihood | Continuous):
            states[node] = hidden_names(emission[node].n_states or size)
        flags = "--states, --emission" if known is None else "--emission"
        words = f"As asked, {kind}" if asked else _in_words(emission[node], size, flags)
        if node in levels and levels[node]["chosen"]:
            words += f", {size} levels counted" if asked else ", as many levels as the data show"
        groups.setdefault(words, []).append(node)
    kinds: dict[str, Any] = {}
    said: list[str] = []
    if may_move and open_columns:
        moving, kinds, said = _by_evidence(observations, emission, open_columns, exogenous)
        for node in moving:
            emission[node] = Continuous()
            for told in (states, levels, shifted):
                told.pop(node, None)
        groups = {words: [n for n in own if n not in moving] for words, own in groups.items()}
        groups[_in_words(Continuous(), 0, "--states, --emission")] = moving
    said += [
        f"{words[0].upper()}{words[1:]}: {quoted(nodes)}."
        for words, nodes in groups.items()
        if nodes
    ]
    counted_here = {node: record for node, record in levels.items() if record["chosen"]}
    if counted_here:
        said.append(_least_clear(counted_here))
    if shifted:
        words = offset_words(list(shifted.values()))
        said.append(f"{words} (--offset none takes the values as they are).")
    return Choice(emission, states, list(emission), said, levels, kinds, shifted)


def _by_evidence(
    observations: Observations,
    emission: Mapping[str, Any],
    open_columns: Mapping[str, tuple[NodeMeasurements, LevelChoice]],
    exogenous: Sequence[str],
) -> tuple[list[str], dict[str, Any], list[str]]:
    """Which columns of numbers move continuously by their evidence, for run.json, in sentences."""
    decision = decide_kinds(
        observations,
        {node: record for node, (record, _) in open_columns.items()},
        {node: levels for node, (_, levels) in open_columns.items()},
        may_mix=observations.stimuli is None,
    )
    kinds, said = kind_record(decision.choices), decision.sentences
    others = [
        node
        for node, one in emission.items()
        if node not in open_columns
        and not isinstance(one, Continuous)
        and not (isinstance(one, Exact) and node in exogenous)
    ]
    likely = any(isinstance(one, Likelihood) for one in emission.values())
    if decision.continuous and others and (likely or observations.stimuli is not None):
        beside = "likelihoods" if likely else "stimuli (--stimuli)"
        blocked = (
            f"{said[0]} But {quoted(others)} cannot move, and beside {beside} all nodes are taken "
            "as one kind so far: all jump (--states continuous, --nodes)."
        )
        return [], {}, [blocked]
    said = [*said[:-1], f"{said[-1].removesuffix('.')} (--states N or continuous sets the kind)."]
    return decision.continuous, kinds, said


def _least_clear(levels: dict[str, Any]) -> str:
    """How sure the numbers of levels are, by the least sure of them."""
    hasty = [name for name, record in levels.items() if not record["complete"]]
    if hasty:
        return (
            f"There was no time to compare every number of levels of {quoted(hasty)}: the best of "
            "those tried was taken (--minutes, --states sets the number)."
        )
    node = min(levels, key=lambda name: float(levels[name]["probability"]))
    return (
        f"The number of levels is least clear for {node!r}: {levels[node]['levels']}, with a "
        f"probability of {levels[node]['probability']:.2f} (--states sets the number)."
    )


def _has_open_levels(emission: Any) -> bool:
    """Whether it is still open how many levels a node has."""
    return isinstance(emission, Gaussian | Poisson) and emission.means is None


def hidden_names(n_states: int) -> list[str]:
    """Names for levels that only the measurements' size tells apart."""
    few = {2: ["low", "high"], 3: ["low", "mid", "high"]}
    return few.get(n_states) or [f"level {i + 1}" for i in range(n_states)]


def _asked(
    specifications: Sequence[str], nodes: Sequence[str]
) -> tuple[str | None, dict[str, str]]:
    everywhere: str | None = None
    by_node: dict[str, str] = {}
    for text in specifications:
        node, equals, kind = text.rpartition("=")
        if not equals:
            everywhere = kind
        else:
            require_known([node], nodes, f"--emission {text!r} names", error=Refused)
            by_node[node] = kind
        parse_emission(kind, 2)  # misspelt kinds are told before anything is computed
    return everywhere, by_node


#: gaps between measurements from which a column that never changes within a trajectory is no course
#: (one that changed in a tenth of them would have shown it with a probability of 88 %)
_ENOUGH_GAPS = 20


def stands_still(record: NodeMeasurements) -> bool:
    """Whether every trajectory has its own value and keeps it, as the sex of patients."""
    if record.likelihood is not None:
        return False
    order = np.lexsort((record.time, record.trajectory))
    value, trajectory = record.value[order], record.trajectory[order]
    inside = trajectory[1:] == trajectory[:-1]
    if int(inside.sum()) < _ENOUGH_GAPS:
        return False
    return not np.any((value[1:] != value[:-1]) & inside) and bool(np.any(value != value[0]))


def _guess(record: NodeMeasurements, known: Sequence[Any] | None) -> str:
    if record.likelihood is not None:
        return "likelihood"
    if len(record) == 0:
        return "left out because nothing was measured"
    if known is not None and bool(np.all(encode(record.value, list(known)) >= 0)):
        return "exact"
    if record.holds_labels:
        n_different = len({letters(v) for v in record.value})
        if n_different > MOST_TEXT_STATES:
            return f"left out because of more than {MOST_TEXT_STATES} different texts"
        return "left out because the value never changes" if n_different < 2 else "exact"
    different = np.unique(record.value)
    if len(different) < 2:
        return "left out because the value never changes"
    if are_numbered_states(record.value):
        return "exact"
    if stands_still(record):
        return "left out because each trajectory keeps its number"
    return "gaussian"


def _made(
    kind: str, node: str, record: NodeMeasurements, size: int, known: Sequence[Any] | None
) -> Any:
    n_labels = None
    if record.likelihood is None:
        different = pd.unique(record.value)
        numbers = different.dtype.kind == "f"  # no two of them have the same letters
        n_labels = len(different) if numbers else len({letters(v) for v in different})
    made = parse_emission(kind, size, len(known) if known is not None else n_labels)
    numeric = isinstance(made, Gaussian | Poisson | Threshold | Continuous)
    if numeric and (record.holds_labels or record.likelihood is not None):
        raise Refused(f"--emission: {node!r} holds {_content(record)}, which is not for {kind}.")
    if isinstance(made, Likelihood) != (record.likelihood is not None):
        raise Refused(f"--emission: {node!r} holds {_content(record)}, which is not for {kind}.")
    if numeric and len(record):
        _require_ordinary_size(node, record.value)
    if known is not None and made.learn and numeric:
        made = made.initialise(record.value[~record.exact], size)
    return made


def _require_ordinary_size(node: str, values: Any) -> None:
    """Squares of the values, and of their differences, must be numbers too."""
    largest, spread = float(np.abs(values).max()), float(np.ptp(values))
    if largest > LARGEST or 0.0 < spread < 1.0 / LARGEST:
        raise DataError(
            f"The values of {node!r} reach {largest:g} and differ by {spread:g}; use a unit in "
            f"which both lie between {1 / LARGEST:g} and {LARGEST:g}."
        )


def _content(record: NodeMeasurements) -> str:
    if record.likelihood is not None:
        return "likelihoods"
    return "text" if record.holds_labels else "numbers"


def _in_words(emission: Any, size: int, flags: str) -> str:
    if isinstance(emission, Exact):
        return "The values are states, seen without error (--emission categorical allows errors)"
    if isinstance(emission, Continuous):
        return f"Numbers are read as noisy values of nodes that move continuously ({flags})"
    if isinstance(emission, Likelihood):
        return "The values are likelihoods of the states"
    if isinstance(emission, Poisson):
        return (
            f"Counts are read as noisy levels of {size} hidden states, with Poisson noise, which "
            f"fits better here than Gaussian, and means learned from the data ({flags})"
        )
    if isinstance(emission, StudentT):
        return (
            f"Numbers are read as noisy levels of {size} hidden states; there are outliers, so the "
            f"noise is Student's t with {emission.df:g} degrees of freedom, its means and scale "
            f"learned from the data ({flags}; --emission gaussian takes normal noise)"
        )
    return (
        f"Numbers are read as noisy levels of {size} hidden states, with means and noise learned "
        f"from the data ({flags})"
    )
