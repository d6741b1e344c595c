"""What the scores of sets of parents say beyond edge probabilities: effects, and stimuli's targets.

``learning/search/continuous_search.py`` chooses the sets and turns their scores into probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from asterism.continuous.effects import (
    EdgeEffect,
    FamilyDraws,
    draw_family,
    edge_effect,
    likeliest_with,
)
from asterism.continuous.family_score import FamilyScorer
from asterism.continuous.series import FloatArray, IntArray
from asterism.continuous.switching import SwitchingTime
from asterism.errors import first_few

#: The power of the likelihood in the probabilities of families. Chosen among .5, .6, .65, .7, .75,
#: .8 and 1 on simulated networks (seeds 1000 to 1019 of benchmarks/continuous.py): the largest that
#: claimed at most half an edge per network where there were none, with and without a stimulus.
LEARNING_RATE = 0.75


@dataclass(frozen=True)
class Families:
    """Scored sets of parents of one child."""

    parents: IntArray
    """(F, k) node numbers, padded with −1."""
    by_strength: FloatArray
    """(F, C) ln evidence for each strength of the stimuli (``FamilyScorer.rhos``)."""
    log_prior: FloatArray
    """(F,)"""
    learning_rate: float = 1.0
    """The power of the likelihood in ``probabilities``."""

    @property
    def evidence(self) -> FloatArray:
        """(F,) ln evidence, the stimuli summed out."""
        scores = self.by_strength
        result: FloatArray = np.logaddexp.reduce(scores, axis=1) - np.log(scores.shape[1])
        return result

    @property
    def probabilities(self) -> FloatArray:
        """(F,) the posterior."""
        logs = self.learning_rate * self.evidence + self.log_prior
        weights = np.exp(logs - logs.max())
        result: FloatArray = weights / weights.sum()
        return result

    def hit_probabilities(self, rhos: FloatArray) -> FloatArray:
        """(K,) probability that each stimulus acts on this child, one half beforehand.

        Nodes below a target are easily named too: parents count as constant between measurements,
        so that what a stimulus moves in between looks as if it acted on their children.
        """
        logs = self.learning_rate * self.by_strength
        given = np.exp(logs - logs.max(axis=1, keepdims=True))
        # the grid of strengths has several values for "hit" and one for "not hit"
        several = [max(1, len(np.unique(column)) - 1) for column in rhos.T]
        given *= np.prod(np.where(rhos > 0.0, 1.0 / np.array(several), 1.0), axis=1)
        given /= given.sum(axis=1, keepdims=True)
        result: FloatArray = self.probabilities @ given @ (rhos > 0.0)
        return result


@dataclass(frozen=True)
class ContinuousFit:
    """What was learned about the continuous nodes of a data set."""

    scorer: FamilyScorer
    families: dict[int, Families]
    """By number of the child."""
    switching: SwitchingTime | None
    """The end of an unknown stimulus that was looked for; used if ``switching.is_taken``."""
    learning_rate: float
    threshold: float = 0.5
    seed: int = 0
    """Of the draws that effects are read from."""
    _draws: dict[tuple[int, tuple[int, ...]], FamilyDraws] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all nodes."""
        return self.scorer.series.names

    @property
    def jumping(self) -> list[int]:
        """Numbers of the nodes that jump."""
        return [n for n, node in enumerate(self.scorer.series.nodes) if not node.is_continuous]

    def draws(self, child: int, family: tuple[int, ...]) -> FamilyDraws:
        """Posterior draws of the numbers of one family, made once."""
        if (child, family) not in self._draws:
            self._draws[child, family] = draw_family(self.scorer, child, family, seed=self.seed)
        return self._draws[child, family]

    def effect(self, parent: int, child: int) -> EdgeEffect:
        """The effect of one edge, in the most probable family that holds it."""
        table = self.families[child]
        family = likeliest_with(table.parents, table.probabilities, parent)
        return edge_effect(self.scorer, self.draws(child, family), family, parent)

    def targets(self) -> pd.DataFrame:
        """stimulus, node, probability: whom each stimulus hits."""
        stimuli = self.scorer.series.stimuli
        lines = [
            {"stimulus": stimulus.name, "node": self.names[child], "probability": chance}
            for child, table in self.families.items()
            for stimulus, chance in zip(stimuli, table.hit_probabilities(self.scorer.rhos))
        ]
        return pd.DataFrame(lines, columns=["stimulus", "node", "probability"])

    def switching_sentence(self) -> str:
        """Says that something acts and on whom; "" where nothing was found."""
        if self.switching is None or not self.switching.is_taken:
            return ""
        table = self.targets()
        hit = table.loc[table["probability"] >= self.threshold, "node"].tolist()
        names = first_few(hit, 10) or "some nodes"
        return f"Something acts on {names} until {self.switching.time:g}."
