"""Owns what is said about rates before data are seen: which can differ from zero, and how large.

:class:`GammaPrior` is the prior of the rates: independent Gamma distributions, one per transition
and configuration. ``shape`` α counts imagined transitions, ``rate`` β the time they took. "auto"
asks the learner for a β that suits the data's unit of time: minutes and hours must give the same
graph. "by node" asks for one that suits each node, where some are faster than others.

:class:`Transitions` says which transitions a node can make, in the names of its states: a list such
as ``"1>2, 2>3"``, states that are never left, or "only to later states". Anything that takes
``allowed_transitions`` accepts one of these, the text alone, or a matrix of booleans, and turns it
into the matrix with :func:`as_mask`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from asterism.data.labels import encode
from asterism.data.numbers import as_number
from asterism.errors import ModelError
from asterism.numerics.arrays import BoolArray, FloatArray

Pair = tuple[str, str]

PROGRESSIVE = "progressive"
BY_NODE: Literal["by node"] = "by node"
#: rates that differ from the usual one by more are not believed; see :func:`automatic_rate`
_RUNAWAY = 10.0


@dataclass(frozen=True)
class GammaPrior:
    """Gamma(shape α, rate β) for every rate; β is a number, "auto" or "by node"."""

    shape: float = 5.0
    rate: float | Literal["auto", "by node"] = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _positive("shape", self.shape))
        if not (isinstance(self.rate, str) and self.rate in ("auto", BY_NODE)):
            object.__setattr__(self, "rate", _positive("rate", self.rate, ', "auto" or "by node"'))

    @property
    def is_auto(self) -> bool:
        """Whether β still has to be found from the data."""
        return isinstance(self.rate, str)

    @property
    def rate_value(self) -> float:
        """β as a number; an error while it is "auto"."""
        if isinstance(self.rate, str):
            raise ModelError(f'The prior\'s rate is "{self.rate}": resolve it from data first.')
        return self.rate

    def resolved(self, rate: float) -> GammaPrior:
        """The prior with ``rate`` in place of a word; unchanged if it already has a number."""
        return GammaPrior(self.shape, rate) if self.is_auto else self

    def for_paths(self) -> GammaPrior:
        """The prior for complete paths: the same, unless it is the default prior."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """For files: shape and rate by name."""
        return {"shape": self.shape, "rate": self.rate}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> GammaPrior:
        """The prior that ``to_dict`` wrote."""
        return cls(shape=content["shape"], rate=content["rate"])


def automatic_rate(shape: float, time: FloatArray, transitions: FloatArray) -> float:
    """β for "auto": α ΣT/ΣM over the nodes, each fitted alone by maximum likelihood.

    ``time`` and ``transitions`` are per node: time in states that can be left, and transitions. ΣM
    counts as one at least. A node whose measurements look drawn anew each time is fitted by ever
    faster rates: it says nothing about the time scale and would outweigh all others. So nodes that
    jump ``_RUNAWAY`` times as often as the median node are left out. Every learner and every kind
    of data uses this rule.
    """
    lasts = time > 0.0  # nodes whose path is given, or whose states cannot be left, say nothing
    if not lasts.any():
        raise ModelError(
            'The prior\'s rate "auto" needs a node that can jump and trajectories that last some '
            "time; give the rate as a number."
        )
    time, transitions = time[lasts], transitions[lasts]
    usual = float(np.median(transitions / time))
    counts = (transitions <= _RUNAWAY * usual * time) | (usual == 0.0)
    return shape * float(time[counts].sum()) / max(1.0, float(transitions[counts].sum()))


def rates_by_node(shape: float, time: FloatArray, transitions: FloatArray) -> FloatArray:
    """β of every node for "by node": the prior mean is as fast as the node itself seems to be.

    ``transitions`` as for :func:`automatic_rate`; ``time`` here counts a state as often as there
    are transitions out of it, so that M/T is the usual rate of one of them. A node of which little
    is known is expected to be as fast as the others, and none to be more than ``_RUNAWAY`` times
    faster or slower than these.
    """
    usual = 1.0 / automatic_rate(1.0, time, transitions)
    return shape / _mixed(shape, usual, time, transitions)


def rates_by_transition(
    shape: float,
    by_node: FloatArray,
    dwell: FloatArray,
    transitions: FloatArray,
    sizes: Sequence[int],
) -> FloatArray:
    """β of every transition, flat (S, S) blocks: as fast as it seems to be in its own node.

    The same rule as between nodes. A transition that never happens, such as one that skips a level,
    is expected to be rare; otherwise every configuration of the parents would have to show anew
    that it does not happen, and parents would look improbable.
    """
    result = []
    state = pair = 0
    for beta, size in zip(by_node, sizes):
        time = dwell[state : state + size][:, None]
        moves = transitions[pair : pair + size * size].reshape(size, size)
        state, pair = state + size, pair + size * size
        result.append((shape / _mixed(shape, shape / beta, time, moves)).ravel())
    return np.concatenate(result)


def _mixed(shape: float, usual: float, time: FloatArray, transitions: FloatArray) -> FloatArray:
    """Expected rates: M/T after ``shape`` more transitions at the usual rate, within bounds."""
    expected = (shape + transitions) / (shape / usual + time)
    result: FloatArray = np.clip(expected, usual / _RUNAWAY, usual * _RUNAWAY)
    return result


def totals_of_nodes(
    allowed: Sequence[BoolArray],
    dwell: FloatArray,
    transitions: FloatArray,
    per_transition: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Per node the time in states that can be left, and the transitions, from flat statistics.

    The nodes have no parents: node n has S values in ``dwell`` and S × S in ``transitions``;
    ``allowed[n]`` is its (S, S) mask. ``per_transition``: time counts once for every transition
    that may end it.
    """
    time, jumps = np.zeros(len(allowed)), np.zeros(len(allowed))
    state = pair = 0
    for n, mask in enumerate(allowed):
        size = len(mask)
        ways = mask.sum(axis=1) if per_transition else mask.any(axis=1)
        time[n] = (dwell[state : state + size] * ways).sum()
        jumps[n] = transitions[pair : pair + size * size].reshape(size, size)[mask].sum()
        state, pair = state + size, pair + size * size
    return time, jumps


def _positive(name: str, value: Any, alternative: str = "") -> float:
    number = as_number(value)
    if number is None or not (math.isfinite(number) and number > 0.0):
        raise ModelError(
            f"The prior's {name} must be a positive number{alternative}, got {value!r}."
        )
    return number


@dataclass(frozen=True)
class LearnersPrior(GammaPrior):
    """What learning a graph assumes about rates unless told otherwise.

    From measurements shape 5, as fast as each node seems to be (``benchmarks/pipeline.py``). From
    complete paths shape 1 and one rate for all nodes (``benchmarks/priors.py``).
    """

    shape: float = 5.0
    rate: float | Literal["auto", "by node"] = BY_NODE

    def for_paths(self) -> GammaPrior:
        """Shape 1, one rate for all nodes."""
        return GammaPrior(1.0, "auto")


LEARNERS_PRIOR = LearnersPrior()


@dataclass(frozen=True)
class Transitions:
    """Which transitions a node can make.

    ``allowed``: ``"1>2, 2>3"``, or pairs (from, to); None allows all. ``absorbing``: states that
    are never left. ``progressive``: only later states can be entered, in the order of the node's
    states, so the last one is never left.
    """

    allowed: Any = None
    absorbing: Sequence[Any] = ()
    progressive: bool = False

    def mask(self, node: str, states: Sequence[Any]) -> BoolArray:
        """(S, S) booleans, from row to column; the diagonal is False."""
        size = len(states)
        result = ~np.eye(size, dtype=np.bool_)
        if self.allowed is not None:
            result = np.zeros((size, size), dtype=np.bool_)
            for before, after in transition_pairs(self.allowed):
                x, y = (state_number(node, label, states) for label in (before, after))
                if x == y:
                    raise ModelError(
                        f"allowed_transitions of node {node!r} lists {before}>{after}, which is no "
                        "transition; a state need not be allowed to stay."
                    )
                result[x, y] = True
        if self.progressive:
            result &= np.triu(np.ones((size, size), dtype=np.bool_), 1)
        given = [self.absorbing] if isinstance(self.absorbing, str) else self.absorbing
        for label in given:
            result[state_number(node, label, states)] = False
        return result


def as_mask(node: str, given: Any, states: Sequence[Any]) -> BoolArray:
    """The (S, S) booleans that a user's ``allowed_transitions`` of one node mean."""
    size = len(states)
    if given is None:
        return ~np.eye(size, dtype=np.bool_)
    if isinstance(given, str):
        if given.strip().lower() == PROGRESSIVE:
            given = Transitions(progressive=True)
        else:
            given = Transitions(allowed=given)
    if isinstance(given, Transitions):
        return given.mask(node, states)
    array = np.asarray(given)
    if array.shape != (size, size):
        raise ModelError(
            f"allowed_transitions of node {node!r} has shape {array.shape}, expected "
            f"({size}, {size}): from, to; or write the transitions, such as '1>2, 2>3'."
        )
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise ModelError(f"allowed_transitions of node {node!r} must hold True and False only.")
    return array.astype(np.bool_) & ~np.eye(size, dtype=np.bool_)


def names_transitions(given: Any) -> bool:
    """Whether a user's ``allowed_transitions`` of one node say which transitions can happen."""
    if isinstance(given, Transitions):
        return given.allowed is not None
    return given is not None and not (
        isinstance(given, str) and given.strip().lower() == PROGRESSIVE
    )


def transition_pairs(given: Any) -> list[Pair]:
    """``"1>2, 2>3"`` (also ``1->2`` and ``1→2``), or pairs, as a list of pairs of texts."""
    if not isinstance(given, str):
        return [_checked_pair(pair) for pair in given]
    result = []
    for text in given.replace("->", ">").replace("→", ">").split(","):
        before, arrow, after = (part.strip() for part in text.partition(">"))
        if not (arrow and before and after) or ">" in after:
            raise ModelError(f"{text.strip()!r} is not a transition; write FROM>TO, such as 1>2.")
        result.append((before, after))
    return result


def _checked_pair(pair: Any) -> Pair:
    if isinstance(pair, str):
        return transition_pairs(pair)[0]
    if not isinstance(pair, Iterable) or len(list(pair)) != 2:
        raise ModelError(f"{pair!r} is not a transition; give a pair (from, to), or '1>2'.")
    before, after = pair
    return str(before), str(after)


def state_number(node: str, label: Any, states: Sequence[Any]) -> int:
    """The position of a state, named as the user would write it."""
    number = int(encode([label], states)[0])
    if number >= 0:
        return number
    raise ModelError(
        f"Node {node!r} has no state {str(label)!r}; its states are "
        f"{', '.join(repr(str(s)) for s in states)}."
    )
