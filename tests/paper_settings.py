"""The learner of the paper, for tests of searches and scores that do not ask about the defaults."""

from __future__ import annotations

from typing import Any

import asterism as am
from tests.flat_settings import regrouped

#: every family equally probable beforehand, shape 5, best families, probabilities as they are
PAPER_SETTINGS: dict[str, Any] = {
    "prior": am.GammaPrior(5.0),
    "edge_log_odds": None,
    "graph": "map",
    "method": "star",
    "tempering": 1.0,
}


def paper_learner(*args: Any, **settings: Any) -> am.StructureLearner:
    """A learner with the paper's settings, except those given."""
    given = {**dict(zip(_ARGUMENTS, args)), **settings}
    return am.StructureLearner(**regrouped(**{**PAPER_SETTINGS, **given}))


#: the order of arguments without names
_ARGUMENTS = ("emission", "max_parents", "prior", "method", "search")
