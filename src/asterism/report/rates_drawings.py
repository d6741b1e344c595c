"""Drawings for the page about rates: a state diagram, hazard ratios, prevalence; plain SVG text.

Every function returns one ``<svg>`` element. Colours come from the page's style sheet, so that
the drawings follow its light and dark look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup, escape

#: colours of states, told apart also by people who see colours differently
STATE_COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00"),
    *("#56B4E9", "#8a7a00", "#5b5b5b"),
)


def colour(state: int) -> str:
    """The colour of a state, by its number."""
    return STATE_COLOURS[state % len(STATE_COLOURS)]


def number(value: float) -> str:
    """Three digits, or a word where there is no number."""
    if not np.isfinite(value):
        return "no limit"
    return f"{value:.3g}"


def rate(row: Any) -> str:
    """A rate of a table; one that was found to be zero is shown as zero."""
    is_zero = str(row.get("note") or "").startswith("at zero")
    return "0" if is_zero else number(row["rate"])


def share(value: float) -> str:
    """A probability: three digits, and nothing below a millionth."""
    return "0" if value < 1e-6 else f"{value:.3g}"


def state_diagram(states: Sequence[Any], rates: pd.DataFrame) -> Markup:
    """States on an ellipse, an arrow for every transition, its width by the rate."""
    width, height, radius = 720.0, 380.0, 30.0
    n = len(states)
    places = {}
    for i, state in enumerate(states):
        angle = math.pi + 2 * math.pi * i / n
        places[str(state)] = (
            width / 2 + 0.36 * width * math.cos(angle),
            height / 2 + 0.36 * height * math.sin(angle),
        )
    largest = max(float(rates["rate"].max()), 1e-300) if len(rates) else 1.0
    parts = [
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" class="diagram" '
        'aria-label="States and the rates between them; the table below lists them">',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" '
        'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0,0L10,5L0,10z" class="tip"/></marker></defs>',
    ]
    rows: list[Any] = rates.to_dict("records")
    for row in rows:
        a, b = places[str(row["from"])], places[str(row["to"])]
        parts.append(_arrow(a, b, radius, row, largest))
    for i, (name, (x, y)) in enumerate(places.items()):
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour(i)}"/>'
            f'<text x="{x:.1f}" y="{y:.1f}" class="state">{escape(name)}</text>'
        )
    return Markup("".join(parts) + "</svg>")


def _arrow(
    a: tuple[float, float], b: tuple[float, float], radius: float, row: dict[str, Any], most: float
) -> str:
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = math.hypot(dx, dy) or 1.0
    ux, uy = dx / length, dy / length
    bend = 0.16 * length
    middle = ((a[0] + b[0]) / 2 - uy * bend, (a[1] + b[1]) / 2 + ux * bend)
    ends = []
    for point in (a, b):
        vx, vy = middle[0] - point[0], middle[1] - point[1]
        size = math.hypot(vx, vy) or 1.0
        ends.append((point[0] + radius * vx / size, point[1] + radius * vy / size))
    width = 1.0 + 4.0 * math.sqrt(float(row["rate"]) / most)
    label = (
        0.25 * ends[0][0] + 0.5 * middle[0] + 0.25 * ends[1][0],
        0.25 * ends[0][1] + 0.5 * middle[1] + 0.25 * ends[1][1],
    )
    limits = f"{number(row['lower'])} to {number(row['upper'])}"
    title = f"{row['from']} to {row['to']}: {rate(row)} ({limits})"
    return (
        f'<path d="M{ends[0][0]:.1f},{ends[0][1]:.1f}Q{middle[0]:.1f},{middle[1]:.1f} '
        f'{ends[1][0]:.1f},{ends[1][1]:.1f}" class="arrow" stroke-width="{width:.2f}" '
        f'marker-end="url(#tip)"><title>{escape(title)}</title></path>'
        f'<text x="{label[0]:.1f}" y="{label[1]:.1f}" class="rate">{rate(row)}</text>'
    )


def hazard_ratios(effects: pd.DataFrame) -> Markup:
    """A forest plot: hazard ratios with their intervals on a logarithmic axis."""
    rows = effects.to_dict("records")
    several = len({row["node"] for row in rows}) > 1
    height, left, right = 30 + 26 * len(rows), 300.0, 700.0
    finite = np.array(
        [
            v
            for r in rows
            for v in (r["hazard_ratio_lower"], r["hazard_ratio_upper"], r["hazard_ratio"])
            if np.isfinite(v) and 1e-4 < v < 1e4
        ]
        + [0.5, 2.0]
    )
    low, high = math.log(finite.min()) - 0.1, math.log(finite.max()) + 0.1

    def x(value: float) -> float:
        position = (math.log(min(max(value, 1e-300), 1e300)) - low) / (high - low)
        return left + (right - left) * min(max(position, 0.0), 1.0)

    parts = [
        f'<svg viewBox="0 0 720 {height}" role="img" class="forest" '
        'aria-label="Hazard ratios with their intervals; the table below lists them">'
    ]
    parts.append(f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="4" y2="{height - 22}" class="axis"/>')
    for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10):
        if low <= math.log(tick) <= high:
            parts.append(f'<text x="{x(tick):.1f}" y="{height - 6}" class="tick">{tick:g}</text>')
    for i, row in enumerate(rows):
        y = 18 + 26 * i
        where = f"{row['node']} " if several else ""
        name = f"{row['covariate']} on {where}{_shortened(str(row['transitions']))}"
        parts.append(f'<text x="{left - 12}" y="{y + 4}" class="name">{escape(name)}</text>')
        parts.append(
            f'<line x1="{x(row["hazard_ratio_lower"]):.1f}" '
            f'x2="{x(row["hazard_ratio_upper"]):.1f}" y1="{y}" y2="{y}" class="interval"/>'
            f'<circle cx="{x(row["hazard_ratio"]):.1f}" cy="{y}" r="4.5" class="point"/>'
        )
    return Markup("".join(parts) + "</svg>")


def _shortened(transitions: str) -> str:
    """Many transitions with one effect, as their number; the table lists them."""
    listed = transitions.split(", ")
    return transitions if len(listed) <= 3 else f"{len(listed)} transitions"


def prevalence_chart(table: pd.DataFrame, states: Sequence[Any], unit: str = "") -> Markup:
    """Observed shares as dots, expected ones as lines, one colour per state."""
    width, height, left, bottom = 720.0, 300.0, 46.0, 34.0
    clock = table["time"].to_numpy(dtype=float)
    t0, t1 = float(clock.min()), max(float(clock.max()), float(clock.min()) + 1e-12)

    def x(t: float) -> float:
        return left + (width - left - 30) * (t - t0) / (t1 - t0)

    def y(p: float) -> float:
        return 10 + (height - bottom - 10) * (1 - p)

    parts = [
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" class="chart" '
        'aria-label="Observed and expected share of each state over time">'
    ]
    for p in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(
            f'<line x1="{left}" x2="{width - 10}" y1="{y(p):.1f}" y2="{y(p):.1f}" class="grid"/>'
            f'<text x="{left - 8}" y="{y(p) + 4:.1f}" class="name">{p:.0%}</text>'
        )
    for t in np.linspace(t0, t1, 6):
        parts.append(f'<text x="{x(t):.1f}" y="{height - 14}" class="tick">{t:.3g}</text>')
    if unit:
        parts.append(f'<text x="{width - 10}" y="{height - 1}" class="name">{escape(unit)}</text>')
    for i, state in enumerate(states):
        rows = table[table["state"].astype(str) == str(state)]
        line = " ".join(f"{x(t):.1f},{y(p):.1f}" for t, p in zip(rows["time"], rows["expected"]))
        parts.append(f'<polyline points="{line}" stroke="{colour(i)}" class="line"/>')
        for t, p, n in zip(rows["time"], rows["observed"], rows["n"]):
            if n > 0:
                parts.append(
                    f'<circle cx="{x(t):.1f}" cy="{y(p):.1f}" r="3" fill="{colour(i)}">'
                    f"<title>{escape(state)}: {p:.1%} of {int(n)}</title></circle>"
                )
    return Markup("".join(parts) + "</svg>")
