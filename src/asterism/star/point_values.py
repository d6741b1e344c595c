"""What a solved batch says: messages, marginals at any time, and values at the measurements.

Learning an emission needs the last between two solutions of a batch: the probability of every state
at every measurement goes out, new likelihoods of the same measurements come in.
"""

from __future__ import annotations

import numpy as np

from asterism.engine._outcome import IMPOSSIBLE
from asterism.engine.batch import Outcome
from asterism.errors import AsterismError, DataError, Sentence, Setting
from asterism.numerics.resources import require_memory
from asterism.star._between_points import marginals_at
from asterism.star._buffers import INITIAL, SQUARES
from asterism.star._kept_messages import AT_POINTS, MESSAGES, Messages, Reading
from asterism.star.batch import (
    NO_READING,
    Batch,
    Control,
    addresses_for,
    new_outcome,
    sweep,
)
from asterism.star.problem import Parameters
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    messages_too_extreme,
    with_log_likelihood,
)
from asterism.timeline.timeline import put_likelihoods


def point_marginals(batch: Batch, parameters: Parameters, n_jobs: int = 1) -> FloatArray:
    """P(state | data) at every measurement of a solved batch, about the cost of one sweep.

    Flat, with the layout of ``batch.evidence.points.log_likelihood``. A measurement at the time of
    a recorded jump sees the state after it.
    """
    found = np.zeros(len(batch.problem.likelihood))
    outcome = new_outcome(batch.n_trajectories, 1)
    reading = NO_READING._replace(kind=AT_POINTS, at_points=found)

    def read_chunk(first: int, last: int) -> None:
        _read(batch, parameters, (first, last), outcome, reading)

    batch.share(read_chunk, n_jobs)
    if (outcome.status == IMPOSSIBLE).any():
        raise AsterismError(
            "The probabilities at the measurements left the range of finite numbers: rates or "
            "likelihoods are too extreme, or the data are impossible under these rates."
        )
    return found


def _read(
    batch: Batch,
    parameters: Parameters,
    which: tuple[int, int],
    outcome: Outcome,
    reading: Reading,
) -> None:
    """One sweep that leaves the moments as they are."""
    still = Control(damping=0.0)
    sweep(
        *(batch.problem, parameters, batch.moments, which, outcome), control=still, reading=reading
    )


def set_log_likelihoods(batch: Batch, log_likelihood: FloatArray) -> None:
    """Replace the likelihoods of a batch's measurements, in place.

    ``log_likelihood`` has the layout of ``batch.evidence.points.log_likelihood``. The grid and the
    moments stay, so that an iteration continues from where it was; ``batch.evidence`` follows.
    """
    points = batch.evidence.points
    if np.shape(log_likelihood) != points.log_likelihood.shape:
        raise DataError(
            f"The new log-likelihoods have shape {np.shape(log_likelihood)}; the measurements of "
            f"this batch need {points.log_likelihood.shape}."
        )
    if not len(points.offset):
        return
    values = np.array(log_likelihood, dtype=np.float64)
    _require_possible(batch.evidence, np.maximum.reduceat(values, points.offset))
    batch.evidence = with_log_likelihood(batch.evidence, values)
    # a mark's first columns are those of an entry of the timeline
    problem = batch.problem
    put_likelihoods(batch.evidence.points, problem.mark, problem.likelihood, problem.mark_scale)


def _require_possible(evidence: Evidence, largest: FloatArray) -> None:
    """A measurement needs a finite likelihood under some state (NaN in any state shows here)."""
    bad = np.flatnonzero(~np.isfinite(largest))
    if len(bad):
        i, points = int(bad[0]), evidence.points
        d = int(points.trajectory[i])
        raise DataError(
            f"trajectory {evidence.label(d)!r}, time {points.time[i]:g}, node number "
            f"{int(points.node[i])}: the measurement's log-likelihoods must be numbers below +inf, "
            "and not −inf for all states"
        )


def messages_of(batch: Batch, index: int, parameters: Parameters) -> Messages:
    """Messages of every node along one trajectory of a solved batch."""
    if batch.moments.dtype != np.float64:
        batch, index = batch.select(np.array([index])), 0
    steps = int(batch.grid.step_start[index + 1] - batch.grid.step_start[index])
    node = batch.problem.node
    n_nodes = len(node) - 1
    squares, states = int(node[-1, SQUARES]), int(node[-1, INITIAL])
    require_memory(
        8.0 * (squares * steps + (2 * states + n_nodes) * (steps + 1)),
        f"the messages of {n_nodes} nodes on {steps} steps",
        Sentence("a larger ", Setting("time_step"), " or ", Setting("tolerance")),
    )
    messages = Messages(
        np.zeros(squares * steps),
        np.zeros(states * (steps + 1)),
        np.zeros(states * (steps + 1)),
        np.full((n_nodes, steps), -1, dtype=np.int32),
        np.full((n_nodes, steps + 1), -1, dtype=np.int32),
    )
    outcome = new_outcome(batch.n_trajectories, 1)
    reading = NO_READING._replace(kind=MESSAGES, messages=messages)
    _read(batch, parameters, (index, index + 1), outcome, reading)
    if outcome.status[index] == IMPOSSIBLE:
        raise messages_too_extreme(batch.evidence, index)
    return messages


def flat_marginals(
    batch: Batch, index: int, parameters: Parameters, times: FloatArray
) -> FloatArray:
    """(times, Σ S) marginals of one trajectory at times between its start and its end."""
    messages = messages_of(batch, index, parameters)
    grid = batch.grid
    width = grid.width[grid.step_start[index] : grid.step_start[index + 1]]
    step, inside = grid.locate(index, times)
    found = np.zeros((len(times), int(batch.problem.node[-1, INITIAL])))
    kinks = grid.is_event_time(index)
    table = addresses_for(batch.problem)
    if not marginals_at(batch.problem, index, messages, width, kinks, step, inside, found, table):
        raise messages_too_extreme(batch.evidence, index)
    return found
