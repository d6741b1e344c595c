"""``--minutes``: how far ``learn`` goes within a budget of time.

The star search comes first, whatever it takes. Where time is left for it, the posterior of graphs,
rates and paths is then sampled, from the star's graph, until it is known well enough or the time is
over. Otherwise the star's probabilities stay, tempered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asterism.commands.console import Console
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.inference.methods import METHODS

if TYPE_CHECKING:
    from asterism.learning.search.structure_learner import StructureLearner

#: seconds below which sampling is not worth its start
LEAST_SECONDS = 15.0


def sampled_within(
    learner: StructureLearner,
    data: Observations | Trajectories,
    minutes: float,
    seconds_used: float,
    console: Console,
) -> tuple[StructureLearner, str]:
    """The learner to believe, and a sentence that says which it is."""
    if isinstance(data, Trajectories):
        return learner, "Complete paths are scored exactly, so --minutes has nothing to decide."
    if not METHODS[learner.method].has_evidence:  # it draws
        return learner, "The posterior was sampled as asked."
    # sampling begins with the star's search once more
    left = 60.0 * minutes - 2.0 * seconds_used
    if left < LEAST_SECONDS:
        return learner, (
            f"The star search took {seconds_used:.0f} s, which leaves too little of {minutes:g} "
            f"minutes for sampling: its probabilities stay, tempered by {learner.tempering_:g} "
            "(--minutes)."
        )
    settings = {**learner.get_params(), "method": "sample", "minutes": left / 60.0}
    settings |= {"journal": None, "resume": False, "tempering": "auto"}
    console.say(f"Sampling for up to {left / 60.0:.1f} minutes (--minutes).")
    with console.progress() as progress:
        sampled = type(learner)(**settings).fit(data, progress=progress)
    return sampled, "The probabilities are those of the sampled posterior (--minutes)."
