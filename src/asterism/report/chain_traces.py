"""The traces of a sampled run: P(edge | paths) along each chain, for the edges known least well.

Plain SVG text, like the other drawings that Python makes. Chains that agree lie on top of each
other; a chain that stays apart has not been everywhere, and R̂ says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 340.0, 110.0, 34.0, 18.0
#: one colour per chain, told apart also by people who see colours differently
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")


def chain_traces(record: Mapping[str, Any] | None) -> Markup | None:
    """One small drawing per edge of ``run.json``'s "chains"; None where nothing was sampled."""
    if not record or not record.get("edges"):
        return None
    parts = [_one(edge, int(record["draws"])) for edge in record["edges"]]
    return Markup("\n".join(parts))


def _known(value: float | str | None, digits: int) -> str:
    """A figure; chains too short to tell have none, which files hold as text or as nothing."""
    is_known = isinstance(value, int | float) and math.isfinite(value)
    return f"{value:.{digits}f}" if is_known else "unknown"


def _one(edge: Mapping[str, Any], n_draws: int) -> str:
    title = (
        f"{escape(edge['parent'])} → {escape(edge['child'])}: {edge['probability']:.2f} ± "
        f"{_known(edge['error'], 3)}, R̂ {_known(edge['r_hat'], 2)}"
    )
    top, right = 8.0, _WIDTH - 6.0
    bottom = _HEIGHT - _BOTTOM
    lines = []
    for value, text in ((0.0, "0"), (0.5, "½"), (1.0, "1")):
        y = bottom - value * (bottom - top)
        lines.append(
            f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
            f'opacity="0.2"/><text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" '
            f'font-size="11" fill="currentColor">{text}</text>'
        )
    for number, values in enumerate(edge["traces"]):
        step = (right - _LEFT) / max(1, len(values) - 1)
        points = " ".join(
            f"{_LEFT + i * step:.1f},{bottom - v * (bottom - top):.1f}"
            for i, v in enumerate(values)
        )
        colour = _COLOURS[number % len(_COLOURS)]
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.2" '
            'opacity="0.8"/>'
        )
    lines.append(
        f'<text x="{right}" y="{_HEIGHT - 4}" text-anchor="end" font-size="11" '
        f'fill="currentColor">{n_draws:,} draws of each chain</text>'
    )
    return (
        f"<figure><figcaption>{title}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" width="{_WIDTH:g}" role="img" '
        f'aria-label="Trace of {title}">{"".join(lines)}</svg></figure>'
    )
