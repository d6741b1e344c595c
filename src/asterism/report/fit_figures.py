"""Figures of a fit of rates: survival, prevalence, hazard ratios, the states, times in them.

Each takes a fitted :class:`ParameterLearner` or the :class:`Run` that was saved of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.data.clock import time_label
from asterism.errors import DataError
from asterism.report.figure_style import BLUE, GREY, PALETTE, axes_or_new, tidy
from asterism.results.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: times at which curves are drawn where none are given
N_TIMES = 60

#: an interval that ends beyond this multiple of the others is cut, and its end drawn as an arrow
FAR = 30.0


def survival(
    fit: Any, times: Any = None, covariates: Any = None, *, ax: Axes | None = None
) -> Axes:
    """The chance not to be in a final state, from each state, beside Kaplan and Meier's curves."""
    table = _table(fit, "survival", lambda: fit.survival(_times(fit, times), covariates))
    ax = axes_or_new(ax, (5.4, 3.4))
    for k, (state, rows) in enumerate(table.groupby("from", sort=False)):
        colour = PALETTE[k % len(PALETTE)]
        ax.fill_between(
            rows["time"], rows["lower"], rows["upper"], color=colour, alpha=0.15, linewidth=0
        )
        ax.plot(rows["time"], rows["survival"], color=colour, label=f"from {state}", gid="fitted")
        if "empirical" in rows:
            seen = rows[rows["at_risk"] > 0]
            style: dict[str, Any] = {"linestyle": "--", "linewidth": 1, "gid": "empirical"}
            ax.step(seen["time"], seen["empirical"], where="post", color=colour, **style)
    if "empirical" in table:
        ax.plot([], [], color=GREY, linestyle="--", linewidth=1, label="empirical")
    ax.set(ylim=(-0.02, 1.02), xlabel=_time_label(fit), ylabel="survival")
    return _with_legend(ax)


def prevalence(fit: Any, times: Any = None, *, ax: Axes | None = None) -> Axes:
    """Share of each state over time: observed (dots) and as the rates predict (lines)."""
    table = _table(fit, "prevalence", lambda: fit.prevalence(_dates(fit, times)))
    ax = axes_or_new(ax, (5.4, 3.4))
    for k, (state, rows) in enumerate(table.groupby("state", sort=False)):
        colour = PALETTE[k % len(PALETTE)]
        seen = rows[rows["n"] > 0]
        ax.plot(seen["time"], seen["expected"], color=colour, label=str(state), gid="expected")
        ax.plot(seen["time"], seen["observed"], "o", color=colour, markersize=4, gid="observed")
    ax.set(ylim=(-0.02, 1.02), xlabel=_time_label(fit), ylabel="share")
    return _with_legend(ax)


def forest(fit: Any, *, ax: Axes | None = None) -> Axes:
    """Hazard ratios with their intervals, on a logarithmic axis; unknown ones are left out."""
    effects = _table(fit, "effects", lambda: fit.effects_)
    if not len(effects):
        raise DataError("This fit has no covariates, so there are no hazard ratios to draw.")
    several = effects["node"].nunique() > 1
    names = [
        f"{row['covariate']} on {row['node'] + ' ' if several else ''}{row['transitions']}"
        for row in effects.to_dict("records")
    ]
    ratio, low, high = (
        effects[c].to_numpy(dtype=float)
        for c in ("hazard_ratio", "hazard_ratio_lower", "hazard_ratio_upper")
    )
    known = np.isfinite(high) & (low > 0.0)
    ax = axes_or_new(ax, (5.4, 0.8 + 0.26 * len(names)))
    y = np.arange(len(names))[::-1]
    inside = ratio[known] if known.any() else np.ones(1)
    limits = np.clip([low[known].min(initial=0.5), high[known].max(initial=2.0)],
                     inside.min() / FAR, inside.max() * FAR)  # fmt: skip
    ax.axvline(1.0, color=GREY, linewidth=1)
    cut = np.stack([np.maximum(low, limits[0]), np.minimum(high, limits[1])])
    ax.hlines(y[known], *cut[:, known], color="black", linewidth=1.2, gid="intervals")
    ax.plot(ratio[known], y[known], "o", color=BLUE, markersize=5)
    for place in y[~known]:
        ax.text(1.0, place, " not identified", va="center", fontsize=8, color=GREY)
    ax.set_xscale("log")
    ax.set(xlim=(limits[0] / 1.15, limits[1] * 1.15), xlabel="hazard ratio")
    ticks = [v for v in (0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100) if limits[0] <= v <= limits[1]]
    ax.set_xticks(ticks, [f"{v:g}" for v in ticks])
    ax.set_xticks([], minor=True)
    ax.set_yticks(y, names, fontsize=8)
    ax.tick_params(axis="y", length=0)
    tidy(ax)
    return ax


def sojourn(fit: Any, *, ax: Axes | None = None) -> Axes:
    """Mean time until each state is left, with its interval."""
    table = _table(fit, "sojourn_times", lambda: fit.sojourn_times())
    rows = table[np.isfinite(table["mean"]) & np.isfinite(table["upper"])]
    several = table["node"].nunique() > 1
    names = []
    for row in rows.to_dict("records"):
        state = f"{row['node']} = {row['state']}" if several else str(row["state"])
        names.append(", ".join(filter(None, (state, str(row["configuration"] or "")))))
    ax = axes_or_new(ax, (4.6, 0.8 + 0.3 * max(len(names), 1)))
    y = np.arange(len(names))[::-1]
    ax.hlines(y, rows["lower"], rows["upper"], color="black", linewidth=1.2, gid="intervals")
    ax.plot(rows["mean"], y, "o", color=BLUE, markersize=5)
    ax.set_yticks(y, names, fontsize=8)
    ax.set(xlim=(0.0, None), xlabel=f"mean {_time_label(fit)} in the state")
    tidy(ax)
    return ax


def transitions(fit: Any, node: str | None = None, *, ax: Axes | None = None) -> Axes:
    """The states of a node and the rates between them; arrows are as wide as rates are high."""
    from matplotlib.patches import FancyArrowPatch

    rates = fit.rates if isinstance(fit, Run) else fit.rate_intervals_
    network = fit.network if isinstance(fit, Run) else fit.network_
    if rates is None:
        raise DataError("This run holds no fitted rates to draw.")
    nodes = list(dict.fromkeys(rates["node"]))
    node = nodes[0] if node is None else node
    if node not in nodes:
        raise DataError(f"There is no node {node!r} with rates; there are {', '.join(nodes)}.")
    rows = rates[rates["node"] == node]
    rows = rows[rows["configuration"] == rows["configuration"].iloc[0]]
    states = [str(s) for s in network.states[node]]
    ax = axes_or_new(ax, (5.2, 3.8))
    angle = np.pi - 2.0 * np.pi * np.arange(len(states)) / len(states)
    place = np.stack([1.6 * np.cos(angle), np.sin(angle)], axis=1)
    boxes = [_label_box(x, y, len(name), 0.085) for (x, y), name in zip(place, states)]
    most = max(float(rows["rate"].max()), 1e-300)
    for row in rows.to_dict("records"):
        a, b = (states.index(str(row[end])) for end in ("from", "to"))
        bend, wide = 0.16, 0.6 + 2.2 * np.sqrt(row["rate"] / most)
        ax.add_patch(
            FancyArrowPatch(
                *(place[a], place[b]),
                connectionstyle=f"arc3,rad={bend}",
                arrowstyle="-|>",
                mutation_scale=11,
                shrinkA=22,
                shrinkB=22,
                linewidth=wide,
                color=GREY,
            )
        )
        text = f"{row['rate']:.3g}"
        x, y = _free_place(place[a], place[b], bend, len(text), boxes)
        ax.text(x, y, text, ha="center", va="center", fontsize=8, gid="rate",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})  # fmt: skip
    for (x, y), name, colour in zip(place, states, PALETTE * len(states)):
        frame = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": colour}
        ax.text(x, y, name, ha="center", va="center", fontsize=9, bbox=frame, zorder=4)
    ax.set(xlim=(-2.3, 2.3), ylim=(-1.4, 1.4), aspect="equal")
    ax.axis("off")
    return ax


def _free_place(
    start: Any, end: Any, bend: float, length: int, boxes: list[tuple[float, float, float, float]]
) -> tuple[float, float]:
    """The first place along an arrow where a number covers neither a state nor another number."""
    dx, dy = end - start
    control = (start + end) / 2 + bend * np.array([dy, -dx])
    places = []
    for t in (0.5, 0.42, 0.58, 0.35, 0.65, 0.3, 0.7):
        x, y = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
        box = _label_box(x, y, length, 0.07)
        places.append((float(x), float(y), box))
        if not any(_overlap(box, other) for other in boxes):
            break
    else:
        places.append(places[0])
    x, y, box = places[-1]
    boxes.append(box)
    return x, y


def _label_box(x: float, y: float, length: int, wide: float) -> tuple[float, float, float, float]:
    half = wide * (length + 1) / 2
    return x - half, x + half, y - 0.11, y + 0.11


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def _table(fit: Any, name: str, made: Any) -> pd.DataFrame:
    """A table of a saved run, or made by a fit."""
    if not isinstance(fit, Run):
        return pd.DataFrame(made())
    if name not in fit.tables:
        raise DataError(f"This run holds no table {name!r}; it has {', '.join(fit.tables)}.")
    return fit.tables[name]


def _times(fit: Any, times: Any) -> Any:
    """The times since the start that are given, or up to where few are still followed."""
    data = fit._observations
    longest = float(np.quantile(data.end - data.start, 0.95))
    return np.linspace(0.0, longest, N_TIMES) if times is None else times


def _dates(fit: Any, times: Any) -> Any:
    from asterism.learning.em.quantities import common_times

    return common_times(fit._observations) if times is None else times


def _time_label(fit: Any) -> str:
    return time_label(
        fit.run.get("time_unit") if isinstance(fit, Run) else fit._observations.time_unit
    )


def _with_legend(ax: Axes) -> Axes:
    tidy(ax)
    ax.legend(frameon=False, fontsize=8)
    return ax
