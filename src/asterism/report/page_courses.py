"""Courses on the report page, and how well every node fits its measurements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.results import courses as course_data
from asterism.results.measured import Levels, Measured, Measurements, levels, measurements
from asterism.results.run import Run

FloatArray = NDArray[np.float64]
Number = float | None

#: state probabilities embedded in the page
COURSE_VALUES = 400_000
#: small pictures in the panel that shows the fit of all nodes
FIT_NODES = 48
#: share of the measurements that the band should hold
BAND = 0.9
#: a node fits poorly when a share this low would happen by chance once in a thousand nodes
POOR = 1e-3


def courses_and_fit(
    run: Run, notices: list[str]
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Probabilities in thousandths, [trajectory][node][state][time], with the measurements.

    Beside them, per node of the panel of fits, how many measurements lie where they should.
    """
    if run.posterior is None:
        return None, []
    states = run.network.states
    found = course_data.from_dataset(run.posterior)
    n_before = len(found.trajectories)
    column = {name: i for i, name in enumerate(found.nodes) if name in states}
    seen = measurements(run.observations, run.network, found.trajectories)
    level = [levels(seen, found, name, len(states[name])) for name in column]
    fit = [
        {"node": place, **_fit_of(seen, found, name, column[name], level[place])}
        for place, name in enumerate(column)
    ]
    found, cuts = course_data.thinned(found, COURSE_VALUES)
    if cuts:
        notices.append(
            f"Courses are shown for {len(found.trajectories):,} of {n_before:,} trajectories, "
            f"at up to {max(map(len, found.times))} times each; posterior.nc holds more."
        )
    places = range(len(found.trajectories))
    return {
        "trajectories": [str(label) for label in found.trajectories],
        "nodes": [run.network.node_index(name) for name in column],
        "times": [significant_digits(own, 6) for own in found.times],
        "p": [
            [_thousandths(found.of(t, i, len(states[name]))[1]) for name, i in column.items()]
            for t in places
        ],
        "measured": [
            [_measured(seen.of(found.trajectories[t], name)) for name in column] for t in places
        ],
        "levels": [_levels(found_level) for found_level in level],
    }, _worst(fit, notices)


def _fit_of(
    seen: Measurements,
    found: course_data.Courses,
    node: str,
    column: int,
    level: Levels | None,
) -> dict[str, Any]:
    """How many measurements of a node lie inside the band, or show the likeliest state."""
    from scipy.special import bdtr

    weights, values = [], []
    for number, label in enumerate(found.trajectories):
        own = seen.of(label, node)
        times, block = found.times[number], found.probabilities[number][:, column]
        if len(own.times) and len(times):
            block = block[:, np.isfinite(block).any(axis=0)]
            weights.append([np.interp(own.times, times, line) for line in block.T])
            values.append(own.values)
    if not values:
        return {"inside": 0, "total": 0, "poor": False, "states": level is None}
    y, w = np.concatenate(values), np.concatenate(weights, axis=1).T
    if level is None:
        inside = int((w.argmax(axis=1) == y).sum())
    else:
        low, high = (level.quantile(w, 0.5 + side * BAND / 2) for side in (-1, 1))
        inside = int(((low <= y) & (y <= high)).sum())
    total = len(y)
    poor = level is not None and float(bdtr(inside, total, BAND)) < POOR
    return {"inside": inside, "total": total, "poor": bool(poor), "states": level is None}


def fit_sentence(fit: list[dict[str, Any]]) -> str:
    """How to read the shares of the panel, and which nodes stand out."""
    numbers = [entry for entry in fit if not entry["states"] and entry["total"]]
    labels = [entry for entry in fit if entry["states"] and entry["total"]]
    said = []
    if numbers:
        said.append("The band should hold about 90 % of a node's measurements.")
        poor = sum(entry["poor"] for entry in numbers)
        said.append(
            f"{poor} node{'s' * (poor != 1)} hold{'s' * (poor == 1)} clearly fewer: "
            "there the model misses something."
            if poor
            else "No node holds clearly fewer."
        )
    if labels:
        said.append("For measured states, the share that shows the likeliest state is given.")
    return " ".join(said)


def _worst(fit: list[dict[str, Any]], notices: list[str]) -> list[dict[str, Any]]:
    """All nodes in their order, or of many the worst fits, worst first."""
    if len(fit) <= FIT_NODES:
        return fit
    notices.append(f"The panel of fits shows the {FIT_NODES} worst of {len(fit):,} nodes.")
    share = [entry["inside"] / entry["total"] if entry["total"] else 1.0 for entry in fit]
    return [fit[i] for i in np.argsort(share, kind="stable")[:FIT_NODES]]


def _measured(own: Measured) -> list[list[float]]:
    return [significant_digits(own.times, 6), significant_digits(own.values, 5)]


def _levels(found: Levels | None) -> dict[str, list[float]] | None:
    if found is None:
        return None
    return {"mean": significant_digits(found.mean, 5), "sd": significant_digits(found.spread, 5)}


def _thousandths(block: np.ndarray[Any, Any]) -> list[list[int]]:
    """(K, S) probabilities as whole thousandths, one list per state."""
    whole = np.rint(1000 * np.nan_to_num(block)).astype(int)
    return [column.tolist() for column in whole.T]


def significant_digits(values: np.ndarray[Any, Any], n: int) -> list[float]:
    """Rounded to n significant digits, which keeps the page small."""
    return [float(f"{value:.{n}g}") for value in values.tolist()]
